"""No turn of a node's loop is long: what follows from an event waits when others have waited."""

import asyncio
import time
from enum import Enum
from pathlib import Path
from typing import Any

import pytest

from runtime.test_driver import SIX, Driven, Puppet
from snowmelt.core.instant import Instant
from snowmelt.core.names import NodeId
from snowmelt.core.node import Effect, Event, Expired, Load, Loaded, Persisted, Received
from snowmelt.protocols.calling import Call
from snowmelt.runtime import driver as driver_module
from snowmelt.runtime.driver import Turns, named
from snowmelt.store import Store


class Timer(Enum):
    TICK = "tick"


async def test_what_was_read_waits_when_a_turn_has_been_long_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver_module, "TURN_SECONDS", 0.0)
    with Store.open(tmp_path) as store:
        store.commit([SIX])
        driven = Driven(store)
        driven.ask(Load(1, (b"~1",)), Load(2, (b"~2",)))
        assert driven.answers == []  # each has a turn of its own
        seen: list[int] = []
        loop = asyncio.get_running_loop()
        loop.call_soon(lambda: seen.append(len(driven.answers)))
        assert [one.ticket for one in await driven.until(2)] == [1, 2]
        assert seen == [1]
        driven.driver.stop(10)


async def test_what_comes_meanwhile_comes_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver_module, "TURN_SECONDS", 0.0)
    with Store.open(tmp_path) as store:
        driven = Driven(store)
        driven.ask(Load(1, ()))
        driven.ask(Load(2, ()))
        assert [one.ticket for one in await driven.until(2)] == [1, 2]
        driven.driver.stop(10)


async def test_the_longest_turn_says_what_it_was_about(tmp_path: Path) -> None:
    class Busy(Puppet):
        def handle(self, event: Event[Any], now: Instant) -> list[Effect[Any]]:
            if isinstance(event, Loaded):
                end = time.thread_time() + 0.03
                while time.thread_time() < end:
                    pass
            return super().handle(event, now)

    with Store.open(tmp_path) as store:
        driven = Driven(store)
        driven.driver._node = Busy()
        driven.driver.handle(Persisted(7))
        driven.driver.handle(Loaded(8, ()))
        turns = driven.driver.turns
        assert 0.03 <= turns.longest_cpu <= turns.longest
        assert turns.longest_event == "Loaded"
        driven.driver.stop(10)


def test_what_others_took_of_the_processor_is_not_the_turns() -> None:
    turns = Turns()
    turns.begin()
    time.sleep(0.05)
    turns.end(Expired(Timer.TICK))
    assert turns.longest >= 0.05
    assert turns.longest_cpu < 0.04


def test_an_event_is_named_by_what_it_brings() -> None:
    assert named(Received(NodeId("n1"), Call(1, Persisted(2)))) == "Call Persisted"
    assert named(Received(NodeId("n1"), Persisted(2))) == "Received Persisted"
    assert named(Persisted(2)) == "Persisted"
