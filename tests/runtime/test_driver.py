"""The driver carries out what a machine asks of its disk, in the machine's order and time."""

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from time import time_ns
from typing import Any

import pytest

from runtime.failing import FAILED, Failing
from snowmelt.core.instant import Instant
from snowmelt.core.names import NodeId, OperationId
from snowmelt.core.node import (
    Effect,
    Event,
    Halt,
    Load,
    Loaded,
    Persist,
    Persisted,
    PersistFailed,
    Requested,
    Scan,
)
from snowmelt.core.record import Damaged, Record, Write
from snowmelt.runtime import driver
from snowmelt.runtime.driver import Driver
from snowmelt.store import Store

ANSWERS = Persisted | PersistFailed | Loaded
SIX = tuple(Write(b"~%d" % one, b"1234") for one in range(6))


class Puppet:
    """Does what a request says, and writes down what comes."""

    def __init__(self) -> None:
        self.events: list[Any] = []

    def handle(self, event: Event[Any], _now: Instant) -> list[Effect[Any]]:
        self.events.append(event)
        return list(event.message) if isinstance(event, Requested) else []

    def check(self) -> None:
        pass


class Fragile:
    """A watcher to whom nothing may happen but the end."""

    def __init__(self) -> None:
        self.halts: list[Halt] = []

    def halted(self, effect: Halt) -> None:
        self.halts.append(effect)

    def crashed(self, error: Exception) -> None:
        raise error

    def __getattr__(self, word: str) -> Callable[..., None]:
        raise AssertionError(word)


class Driven:
    """A puppet, its driver and its store."""

    def __init__(self, store: Store | None) -> None:
        self.puppet = Puppet()
        self.watcher = Fragile()
        self.driver = Driver(self.puppet, lambda *_: None, self.watcher, store)
        self.driver.start()

    def ask(self, *effects: Effect[Any]) -> None:
        self.driver.handle(Requested(OperationId(NodeId("c1"), 1), effects))

    @property
    def answers(self) -> list[Any]:
        return [one for one in self.puppet.events if isinstance(one, ANSWERS)]

    async def until(self, count: int) -> list[Any]:
        while len(self.answers) < count:
            await asyncio.sleep(0.001)
        return self.answers


async def test_a_scan_comes_after_what_was_asked_before_it(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        driven = Driven(store)
        driven.ask(Persist(1, SIX), Scan(2, b"~1", b"~9", 5), Load(3, (b"~5",)))
        two = Loaded(2, (Record(b"~1", b"1234"), Record(b"~2", b"1234")))
        assert await driven.until(3) == [Persisted(1), two, Loaded(3, (Record(b"~5", b"1234"),))]
        driven.ask(Scan(4, b"~4", b"~9", 100))  # nothing waits: no fence
        assert driven.driver.persisting == 0
        assert [one.key for one in (await driven.until(4))[-1].found] == [b"~4", b"~5"]
        driven.driver.stop(10)


async def test_a_scan_tells_damaged_records_in_their_place(tmp_path: Path) -> None:
    with Store.open(tmp_path / "a") as store:
        store.commit([SIX[:2]])
    with Store.open(tmp_path / "b") as store:
        store.commit([SIX[:2]])
    records = (tmp_path / "a" / "records").read_bytes()
    (tmp_path / "b" / "records").write_bytes(records)  # sealed for another store
    with Store.open(tmp_path / "b") as store:
        store.commit([[SIX[2]]])
        driven = Driven(store)
        driven.ask(Scan(1, b"~", b"~9", 100))
        assert await driven.until(1) == [
            Loaded(1, (Damaged(b"~0"), Damaged(b"~1"), Record(b"~2", b"1234")))
        ]
        driven.driver.stop(10)


async def test_a_node_learns_the_date_as_it_starts(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        for disk in (store, None):
            before = time_ns()
            driven = Driven(disk)
            assert before <= driven.puppet.events[0].wall <= time_ns()
            driven.driver.stop(10)


class Writers:
    """A log that notes which thread wrote each of its records."""

    def __init__(self, store: Store) -> None:
        self.threads: list[int] = []
        self._log: Any = store._log
        store._log = self  # type: ignore[assignment]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    def append(self, groups: Any) -> bool:
        self.threads.append(threading.get_ident())
        return bool(self._log.append(groups))


async def test_a_step_alone_is_written_by_the_loop_where_nobody_waits_for_the_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "QUICK_SECONDS", 60.0)
    with Store.open(tmp_path) as store:
        writers = Writers(store)
        driven = Driven(store)
        driven.ask(Persist(1, SIX))
        await driven.until(1)
        driven.driver.alone = True
        driven.ask(Persist(2, SIX))
        await driven.until(2)
        driven.ask(Persist(3, SIX))
        driven.ask(Persist(4, SIX))
        assert await driven.until(4) == [Persisted(one) for one in (1, 2, 3, 4)]
        driven.ask(Persist(5, SIX), Load(6, (b"~5",)))
        assert (await driven.until(6))[5:] == [Loaded(6, (Record(b"~5", b"1234"),))]
        here = threading.get_ident()
        assert [one == here for one in writers.threads] == [False, True, False, False]
        driven.driver.stop(10)


async def test_where_several_ask_at_once_the_loop_hears_the_next_while_the_disk_is_at_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "QUICK_SECONDS", 60.0)
    monkeypatch.setattr(driver, "CROWD_SECONDS", 60.0)
    with Store.open(tmp_path) as store:
        writers = Writers(store)
        driven = Driven(store)
        driven.driver.alone = True
        driven.ask(Persist(1, SIX), Persist(2, SIX))
        await driven.until(2)
        driven.ask(Persist(3, SIX))
        await driven.until(3)
        assert threading.get_ident() not in writers.threads
        assert len(writers.threads) == 2
        driven.driver.stop(10)


async def test_a_disk_that_was_slow_is_not_waited_for_by_the_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "QUICK_SECONDS", 0.0)
    with Store.open(tmp_path) as store:
        writers = Writers(store)
        driven = Driven(store)
        driven.driver.alone = True
        for ticket in (1, 2):
            driven.ask(Persist(ticket, SIX))
            await driven.until(ticket)
        here = threading.get_ident()
        assert [one == here for one in writers.threads] == [True, False]
        driven.driver.stop(10)


async def test_a_disk_that_fails_in_the_loops_thread_is_told_as_fatal(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        engine = Failing(store)
        driven = Driven(store)
        driven.driver.alone = True
        engine.writes = False
        driven.ask(Persist(1, SIX))
        (answer,) = await driven.until(1)
        assert (answer.ticket, answer.fatal) == (1, True)
        driven.driver.stop(10)


async def test_a_disk_that_fails_is_told_as_fatal(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        engine = Failing(store)
        driven = Driven(store)
        engine.writes = False
        driven.ask(Persist(1, SIX))
        (answer,) = await driven.until(1)
        assert (answer.ticket, answer.fatal) == (1, True)
        assert FAILED in answer.reason
        driven.driver.stop(10)


async def test_a_disk_without_room_is_not_fatal(tmp_path: Path) -> None:
    with Store.open(tmp_path, size_max=1 << 20) as store:
        driven = Driven(store)
        driven.ask(Persist(1, (Write(b"~large", b"x" * (2 << 20)),)))
        (answer,) = await driven.until(1)
        assert (answer.ticket, answer.fatal) == (1, False)
        driven.driver.stop(10)


async def test_a_read_that_fails_halts_after_what_came_with_it_was_told(tmp_path: Path) -> None:
    with Store.open(tmp_path) as store:
        engine = Failing(store)
        driven = Driven(store)
        engine.reads = False
        with store._writing:  # so that the read and the last write are of one flush
            driven.ask(Persist(1, SIX), Load(2, (b"~1",)), Persist(3, SIX))
        while not driven.watcher.halts:
            await asyncio.sleep(0.001)
        assert driven.answers == [Persisted(1), Persisted(3)]
        (halt,) = driven.watcher.halts
        assert halt.error == "StoreDamaged"
        assert FAILED in halt.reason
        driven.driver.handle(Persisted(9))  # nothing is handled any more
        assert len(driven.answers) == 2
        driven.driver.stop(10)
