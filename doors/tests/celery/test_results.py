"""A result backend over a real node, without a worker: what is stored, found, counted and told."""

import os
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from celery.result import AsyncResult

import snowmelt
from celery import Celery, states
from snowmelt.cli.local import LocalNode
from snowmelt_doors.celery.chords import Chords

pytest_plugins = ("door_nodes",)


@pytest.fixture
def app(node: LocalNode, name: str) -> Iterator[Any]:
    made = Celery(name, broker=node.url, backend=node.url)
    made.conf.result_backend_transport_options = {"name": name[-60:].strip("-")}
    yield made
    made.backend.close()
    made.close()


def test_celery_finds_the_backend_by_its_scheme(app: Any) -> None:
    assert type(app.backend).__module__ == "snowmelt_doors.celery.backend"


def test_another_program_finds_a_result_until_it_is_forgotten(app: Any) -> None:
    assert AsyncResult("a", app=app).state == states.PENDING
    app.backend.store_result("a", {"sum": 3}, states.SUCCESS)
    other = app.backend.__class__(app, url=app.backend.url)
    assert other.get_task_meta("a")["result"] == {"sum": 3}
    AsyncResult("a", app=app).forget()
    assert other.get_task_meta("a", cache=False)["status"] == states.PENDING
    other.close()


def test_a_failure_comes_back_as_what_it_was(app: Any) -> None:
    app.backend.mark_as_failure("a", KeyError("no such article"))
    with pytest.raises(KeyError):
        AsyncResult("a", app=app).get(timeout=5)


def test_success_is_final(app: Any) -> None:
    for state in (states.STARTED, states.SUCCESS, states.STARTED, states.FAILURE):
        result = ValueError("late") if state == states.FAILURE else state
        app.backend.store_result("a", result, state)
    assert app.backend.get_task_meta("a")["result"] == states.SUCCESS


def test_who_waits_is_woken_when_a_result_is_stored(
    app: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    result, began = AsyncResult("a", app=app), threading.Event()
    took: list[float] = []
    looked: list[str] = []
    table = app.backend.connected.results
    find = table.find
    monkeypatch.setattr(table, "find", lambda key: looked.append(key) or find(key))

    def wait() -> None:
        began.set()
        assert result.get(timeout=20) == "done"
        took.append(time.monotonic())

    waiting = threading.Thread(target=wait)
    waiting.start()
    assert began.wait(10)
    end = time.monotonic() + 20
    while len(looked) < 2:
        assert time.monotonic() < end
        time.sleep(0.01)
    time.sleep(1.2)  # it does not look by itself
    stored = time.monotonic()
    app.backend.store_result("a", "done", states.SUCCESS)
    waiting.join(20)
    assert took
    assert took[0] - stored < 3  # not at the next look
    assert len(looked) == 3  # final or not before it waits, and final when it was told


def test_a_part_of_a_chord_counts_once(node: LocalNode, name: str) -> None:
    """A part runs twice when its worker dies after it was counted; the last one may be it."""
    with snowmelt.connect(node.url) as cluster:
        chords = Chords(cluster, name, None, 10.0)
        chords.expect(b"chord", 3)
        joined = [
            chords.join(b"chord", who, who.upper())
            for who in (b"one", b"two", b"one", b"three", b"two", b"three")
        ]
        everything = [b"ONE", b"TWO", b"THREE"]
        assert joined == [[], [], [], everything, [], everything]


def test_a_chord_that_grows_waits_for_what_came_to_it(node: LocalNode, name: str) -> None:
    with snowmelt.connect(node.url) as cluster:
        chords = Chords(cluster, name, None, 10.0)
        chords.expect(b"chord", 1)
        chords.expect_more(b"chord", b"other")
        assert chords.join(b"chord", b"one", b"1") == []
        assert chords.join(b"chord", b"other", b"2") == [b"1", b"2"]


def test_programs_agree_which_part_was_the_last(node: LocalNode, name: str) -> None:
    last: list[list[bytes]] = []

    def join(who: bytes) -> None:
        with snowmelt.connect(node.url) as cluster:
            found = Chords(cluster, name, None, 10.0).join(b"chord", who, who)
            if found:
                last.append(found)

    with snowmelt.connect(node.url) as cluster:
        Chords(cluster, name, None, 10.0).expect(b"chord", 8)
    whos = [b"%d" % at for at in range(8)]
    threads = [threading.Thread(target=join, args=(who,)) for who in whos]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [sorted(one) for one in last] == [whos]


def test_chords_that_are_expired_are_removed(node: LocalNode, name: str) -> None:
    with snowmelt.connect(node.url) as cluster:
        chords = Chords(cluster, name, 2.0, 10.0)
        for number in range(20):
            chords.expect(b"%d" % number, 2)
        time.sleep(2.1)
        chords.expect(b"new", 1)
        assert chords.clean() == 20
        assert chords.join(b"new", b"one", b"1") == [b"1"]
        assert Chords(cluster, name, 2.0, 10.0).join(b"new", b"one", b"1") == [b"1"]


def test_a_result_is_found_until_it_expires_by_whoever_asks(app: Any) -> None:
    """Who asks need not say the same `result_expires`, up to a day."""
    app.backend.expires = 1.5
    app.backend.store_result("short", 1, states.SUCCESS)
    app.backend.store_result("failed", ValueError("no"), states.FAILURE)
    other = app.backend.__class__(app, url=app.backend.url, expires=3600)
    assert other.get_task_meta("short", cache=False)["result"] == 1
    time.sleep(1.6)
    assert other.get_task_meta("short", cache=False)["status"] == states.PENDING
    assert other.get_task_meta("failed", cache=False)["status"] == states.PENDING
    other.close()


def test_a_group_is_saved_and_restored(app: Any) -> None:
    results = [AsyncResult(one, app=app) for one in ("a", "b")]
    saved = app.GroupResult("group", results)
    saved.save()
    for one in ("a", "b"):
        app.backend.store_result(one, one * 2, states.SUCCESS)
    restored = app.GroupResult.restore("group")
    assert restored.join_native(timeout=10) == ["aa", "bb"]
    restored.delete()
    assert app.GroupResult.restore("group") is None


def test_a_child_reads_and_stores_by_itself(app: Any) -> None:
    app.backend.store_result("a", 1, states.SUCCESS)
    assert AsyncResult("a", app=app).get(timeout=5) == 1
    child = os.fork()
    if not child:
        code = 1
        try:
            app.backend.store_result("b", 2, states.SUCCESS)
            code = 0 if AsyncResult("b", app=app).get(timeout=10) == 2 else 2
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    assert AsyncResult("b", app=app).get(timeout=5) == 2
