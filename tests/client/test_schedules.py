"""Schedules as a program says them: in a cluster and in a folder, for each kind of queue."""

import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import snowmelt
from snowmelt.core.errors import BadOption, Full, NoSuchQueue, TooLarge


def test_it_fires_again_and_again_and_says_what_it_is(queues: Any, name: str) -> None:
    orders = queues.fifo(name)
    made = orders.schedule("tick", b"go", every="1s", headers={"kind": "x"})
    with orders.get_many(2, timeout=10) as first:
        pass
    items = list(first)
    if len(items) == 1:
        items += list(orders.get_many(1, timeout=10))
    assert [one.body for one in items] == [b"go", b"go"]
    assert [one.headers["schedule"] for one in items] == ["tick", "tick"]
    assert items[0].headers["kind"] == "x"
    at = [datetime.fromisoformat(str(one.headers["scheduled-at"])) for one in items]
    assert at[1] - at[0] == timedelta(seconds=1)
    assert at[0] == made.next.replace(microsecond=0)
    assert orders.unschedule("tick")
    (told,) = orders.schedules() or [None]
    assert told is None
    assert not orders.unschedule("tick")


def test_what_it_is_told_is_what_was_said(queues: Any, name: str) -> None:
    orders = queues.fifo(name)
    now = datetime.now(UTC)
    made = orders.schedule("mornings", b"x", every="0 7 * * *", zone="Asia/Tokyo", missed="skip")
    assert orders.schedules() == [made]
    assert (made.name, made.every, made.zone, made.missed) == (
        "mornings", "0 7 * * *", "Asia/Tokyo", "skip",
    )  # fmt: skip
    assert (made.bytes, made.last, made.fired_at, made.fired) == (1, None, None, 0)
    assert now < made.next <= now + timedelta(days=1, minutes=1)
    assert (made.next.hour, made.next.minute) == (22, 0)
    assert orders.stats().schedules == 1
    assert (
        orders.schedule("mornings", b"x", every="0 7 * * *", zone="Asia/Tokyo", missed="skip")
        == made
    )
    later = orders.schedule("mornings", b"x", every="0 8 * * *", zone="Asia/Tokyo")
    assert later.next.hour == 23


@pytest.mark.parametrize(
    "more", [{"priorities": 3}, {"priorities": float}, {"largest_first": True}]
)
def test_with_a_priority_it_is_put_with_that(queues: Any, name: str, more: dict[str, Any]) -> None:
    jobs = queues.priority(name, **more)
    jobs.schedule("tick", b"go", every="1s", priority=1)
    with jobs.get(timeout=10) as item:
        assert item.priority == 1
    with pytest.raises(BadOption, match="priority is"):
        jobs.schedule("tock", b"go", every="1s", priority="soon")


def test_in_a_queue_of_several_partitions_it_fires_once(queues: Any, name: str) -> None:
    orders = queues.fifo(name, partitions=3)
    orders.schedule("tick", b"go", every="1s")
    moments = [orders.get(timeout=10).headers["scheduled-at"] for _ in range(3)]
    assert len(set(moments)) == 3
    assert [one.fired for one in orders.schedules()] >= [3]
    assert orders.unschedule("tick")


def test_a_queue_s_codec_writes_the_body(queues: Any, name: str) -> None:
    orders = queues.fifo(name, codec="json")
    orders.schedule("tick", {"n": 1}, every="1s")
    assert orders.get(timeout=10).value == {"n": 1}


@pytest.mark.parametrize(
    ("said", "error", "why"),
    [
        ({"every": "soon"}, BadOption, "every is 'soon'"),
        ({"every": "1h", "missed": "twice"}, BadOption, "missed is 'twice'; allowed: once or skip"),
        ({"every": "1h", "priority": 2}, BadOption, "none in .*, which is a fifo"),
        ({"every": "1h", "body": bytes(70_000)}, TooLarge, "a schedule has 65536 at most"),
        ({"every": "1h", "headers": {"a": "b" * 5000}}, TooLarge, "a schedule has 4096 at most"),
        ({"every": "1h", "delay": -1}, BadOption, "delay"),
        ({"every": "1h", "name": "a b"}, BadOption, "schedule is 'a b'"),
        ({"every": "0 7 * * *", "zone": "Mars/Base"}, BadOption, "zone is 'Mars/Base'"),
    ],
)
def test_what_can_t_be_is_refused_before_anything_is_made(
    queues: Any, name: str, said: dict[str, Any], error: type[Exception], why: str
) -> None:
    orders, said = queues.fifo(name), dict(said)
    body, called = said.pop("body", b"x"), said.pop("name", "tick")
    with pytest.raises(error, match=why):
        orders.schedule(called, body, **said)
    with pytest.raises(NoSuchQueue):
        orders.schedules()


def test_what_never_fits_is_refused(queues: Any, name: str) -> None:
    orders = queues.fifo(name, max_bytes=10)
    with pytest.raises(Full, match="never fit"):
        orders.schedule("tick", bytes(20), every="1h")


def test_without_cronsim_a_time_does_and_an_expression_says_what_to_install(
    queues: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "cronsim", None)
    orders = queues.fifo(name)
    assert orders.schedule("tick", b"x", every="1h").every == "1h"
    with pytest.raises(BadOption, match=r"pip install snowmelt\[cron\]"):
        orders.schedule("tock", b"x", every="0 7 * * *")


def test_a_folder_that_was_closed_makes_up_once_or_skips(tmp_path: Path) -> None:
    with snowmelt.open(tmp_path) as cluster:
        cluster.fifo("a").schedule("tick", b"x", every="1s")
        cluster.fifo("b").schedule("tick", b"x", every="1s", missed="skip")
    time.sleep(3.2)
    with snowmelt.open(tmp_path) as cluster:
        came = list(cluster.fifo("a").get_many(9, timeout=1))
        assert len(came) == 1
        (one,) = cluster.fifo("a").schedules()
        assert one.fired in (1, 2)
        assert one.last is not None
        assert cluster.fifo("b").stats().schedules == 1
