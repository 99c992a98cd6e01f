"""Whoever waits for the sockets is woken: once a sleep, never too late, on any system."""

import os
import selectors
import threading
from typing import Any

import pytest

from runtime.peering import GET, engine, know, put
from snowmelt.runtime.peer import engine_thread
from snowmelt.runtime.peer.engine_thread import Alarm
from timing import quick_turns


@pytest.fixture(params=["events", "sockets"])
def system(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "sockets":
        monkeypatch.setattr(engine_thread, "EVENTS", False)
        monkeypatch.setattr(Alarm, "edge", False)
    elif not engine_thread.EVENTS:
        pytest.skip("this system has no event descriptors")


@pytest.mark.usefixtures("system")
def test_an_engine_hears_what_is_left_while_it_sleeps() -> None:
    with engine("c-a") as (giver, _), engine("c-b") as (taker, machine):
        know(taker, machine, giver)
        for number in range(200):
            giver.call(put(b"%d" % number), 5)
            assert taker.call(GET, 5).blob == b"%d" % number


@pytest.mark.usefixtures("system")
def test_one_that_is_awake_is_not_rung_and_one_that_sleeps_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = Alarm()
    rung: list[Any] = []
    monkeypatch.setattr(one, "ring", lambda: rung.append(1))
    one.wake()
    assert not rung
    for sleeps in (1, 2):
        one.sleeps()
        one.wake()
        one.wake()
        assert len(rung) == sleeps
        one.awake()
        one.wake()
        assert len(rung) == sleeps
    one.close()


@pytest.mark.usefixtures("system")
def test_none_of_many_rings_is_missed() -> None:
    one = Alarm()
    left: list[int] = []
    over = threading.Event()

    def ring() -> None:
        while not over.is_set():
            left.append(1)
            one.wake()

    threads = [threading.Thread(target=ring) for _ in range(3)]
    for each in threads:
        each.start()
    with selectors.DefaultSelector() as selector, quick_turns():
        selector.register(one, selectors.EVENT_READ)
        for _ in range(300):
            one.sleeps()
            if not left:
                assert selector.select(5), "it sleeps beside what was left"
            one.awake()
            one.silence()
            left.clear()
        over.set()
    for each in threads:
        each.join()
    one.close()


@pytest.mark.usefixtures("system")
def test_one_that_is_closed_writes_nowhere() -> None:
    one = Alarm()
    one.close()
    reader, writer = os.pipe()  # they have its numbers now
    one.ring()
    os.set_blocking(reader, False)
    with pytest.raises(BlockingIOError):
        os.read(reader, 1)
    os.close(reader)
    os.close(writer)
