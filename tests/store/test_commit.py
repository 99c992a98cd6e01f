"""The writer's thread: order, one flush for many, the bound, and the end."""

import threading
from pathlib import Path
from queue import Queue
from typing import Any

import pytest

from snowmelt.core.errors import BadOption, StoreError, Unavailable
from snowmelt.core.record import Record, Write
from snowmelt.store import Completion, GroupCommit, Store


class Gate:
    """A `completed` that holds the writer until it is let go, and keeps what it was told."""

    def __init__(self) -> None:
        self.calls: Queue[list[Completion]] = Queue()
        self.open = threading.Event()

    def __call__(self, completions: list[Completion]) -> None:
        self.calls.put(completions)
        self.open.wait(30)


def test_one_flush_serves_all_that_wait_and_answers_keep_their_order(tmp_path: Path) -> None:
    gate = Gate()
    with Store.open(tmp_path) as store:
        commit = GroupCommit(store, gate)
        commit.submit(0, [Write(b"first", b"")])
        assert gate.calls.get(timeout=30) == [Completion(0)]  # now the writer is held
        for ticket in range(1, 101):
            commit.submit(ticket, [Write(b"%03d" % ticket, b"v")] if ticket % 2 else [])
        assert commit.waiting_bytes > 50 * 64
        gate.open.set()
        assert gate.calls.get(timeout=30) == [Completion(ticket) for ticket in range(1, 101)]
        assert store.statistics().flushes == 2
        assert commit.close(timeout=30)
        assert len(store.recover().records) == 51


def test_the_bound_refuses_but_never_one_alone(tmp_path: Path) -> None:
    gate = Gate()
    with Store.open(tmp_path) as store:
        commit = GroupCommit(store, gate, waiting_bytes_max=1000)
        commit.submit(0, [Write(b"large", b"x" * 5000)])
        gate.calls.get(timeout=30)
        commit.submit(1, [Write(b"k", b"x" * 800)])
        with pytest.raises(Unavailable, match="limit is 1000"):
            commit.submit(2, [Write(b"l", b"x" * 800)])
        gate.open.set()
        assert gate.calls.get(timeout=30) == [Completion(1)]
        assert commit.close(timeout=30)


def test_closing_drains_and_then_refuses(tmp_path: Path) -> None:
    told: list[Completion] = []
    with Store.open(tmp_path) as store:
        commit = GroupCommit(store, told.extend)
        for ticket in range(200):
            commit.submit(ticket, [Write(b"%d" % ticket, b"v")])
        assert commit.close(timeout=30)
        assert told == [Completion(ticket) for ticket in range(200)]
        with pytest.raises(Unavailable, match="closing"):
            commit.submit(200, [])
        assert commit.close(timeout=0)


def test_closing_tells_when_the_time_ran_out(tmp_path: Path) -> None:
    gate = Gate()
    with Store.open(tmp_path) as store:
        commit = GroupCommit(store, gate)
        commit.submit(0, [Write(b"k", b"v")])
        gate.calls.get(timeout=30)
        assert not commit.close(timeout=0.01)
        gate.open.set()
        assert commit.close(timeout=30)


def test_a_bad_key_is_refused_where_it_is_asked_for(tmp_path: Path) -> None:
    told: list[Completion] = []
    with Store.open(tmp_path) as store:
        commit = GroupCommit(store, told.extend)
        with pytest.raises(BadOption):
            commit.submit(0, [Write(b"", b"")])
        assert commit.close(timeout=30)
    assert told == []


def test_when_the_store_fails_every_ticket_is_answered(tmp_path: Path) -> None:
    answers: Queue[list[Completion]] = Queue()
    store = Store.open(tmp_path)
    commit = GroupCommit(store, answers.put)
    store.close()
    for ticket in (1, 2):
        commit.submit(ticket, [Write(b"k", b"v")])
        (completion,) = answers.get(timeout=30)
        assert completion.ticket == ticket
        assert isinstance(completion.failure, StoreError)
    assert commit.close(timeout=30)


def test_one_small_group_is_made_in_the_thread_that_asks(tmp_path: Path) -> None:
    told: list[Completion] = []
    with Store.open(tmp_path) as store:
        commit = GroupCommit(store, told.extend)
        commit.submit(1, [Write(b"k", b"v")], wake=False)
        assert commit.made_here() == [Completion(1)]
        assert commit.made_here() == []
        assert commit.waiting_bytes == 0
        assert commit.close(timeout=30)
        assert store.statistics().flushes == store.statistics().groups == 1
    assert told == []
    with Store.open(tmp_path) as store:
        assert store.recover().records == (Record(b"k", b"v"),)


@pytest.mark.parametrize("count", [1, 2])
def test_what_is_several_groups_or_a_transaction_is_left_to_the_writer(
    tmp_path: Path, count: int
) -> None:
    answers: Queue[list[Completion]] = Queue()
    with Store.open(tmp_path) as store:
        commit = GroupCommit(store, answers.put)
        value = b"v" if count > 1 else bytes(65 << 10)
        for ticket in range(count):
            commit.submit(ticket, [Write(b"%d" % ticket, value)], wake=False)
        waits = commit.waiting_bytes
        assert commit.made_here() == []
        assert commit.waiting_bytes == waits
        commit.wake()
        assert answers.get(timeout=30) == [Completion(ticket) for ticket in range(count)]
        commit.submit(9, [], wake=False)  # a fence has nothing to be made
        assert commit.made_here() == []
        commit.wake()
        assert answers.get(timeout=30) == [Completion(9)]
        assert commit.close(timeout=30)


def test_what_is_no_single_write_after_all_is_made_here_when_the_writer_has_ended(
    tmp_path: Path,
) -> None:
    with Store.open(tmp_path) as store:
        commit = GroupCommit(store, lambda _: None)

        class Ending:
            """A log without room, for whoever writes while the writer is told to end."""

            def __init__(self, log: Any) -> None:
                self._log = log

            def __getattr__(self, name: str) -> Any:
                return getattr(self._log, name)

            def append(self, groups: Any) -> bool:
                del groups
                assert commit.close(timeout=30)
                return False

        store._log = Ending(store._log)  # type: ignore[assignment]
        commit.submit(1, [Write(b"k", b"v")], wake=False)
        assert commit.made_here() == [Completion(1)]
        assert store.load([b"k"]) == (Record(b"k", b"v"),)


def test_a_store_that_fails_answers_the_thread_that_asks(tmp_path: Path) -> None:
    store = Store.open(tmp_path)
    commit = GroupCommit(store, lambda _: None)
    store.close()
    commit.submit(1, [Write(b"k", b"v")], wake=False)
    (completion,) = commit.made_here()
    assert completion.ticket == 1
    assert isinstance(completion.failure, StoreError)
    assert commit.close(timeout=30)


def test_a_fence_is_taken_though_too_much_waits(tmp_path: Path) -> None:
    gate = Gate()
    with Store.open(tmp_path) as store:
        commit = GroupCommit(store, gate, waiting_bytes_max=1000)
        commit.submit(0, [Write(b"k", b"v")])
        gate.calls.get(timeout=30)
        commit.submit(1, [Write(b"large", b"x" * 5000)])
        commit.submit(2, [])
        gate.open.set()
        assert gate.calls.get(timeout=30) == [Completion(1), Completion(2)]
        assert commit.close(timeout=30)


@pytest.mark.parametrize("size", [1, 2_000, 40_000])
def test_reading_goes_on_while_the_writer_writes(tmp_path: Path, size: int) -> None:
    done = threading.Event()
    last = 300

    def completed(completions: list[Completion]) -> None:
        if completions[-1].ticket == last:
            done.set()

    with Store.open(tmp_path, flush=False) as store:
        store.commit([[Write(b"a", b"0"), Write(b"~b", b"0")]])
        commit = GroupCommit(store, completed)
        for ticket in range(1, last + 1):
            value = b"%d" % ticket * size
            commit.submit(ticket, [Write(b"a", value), Write(b"~b", value)])
            first, second = store.load([b"a", b"~b"])
            assert isinstance(first, Record)
            assert isinstance(second, Record)
            assert first.value == second.value  # a group is seen whole
        assert done.wait(30)
        assert commit.close(timeout=30)
