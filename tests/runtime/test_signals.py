"""Handlers of signals are borrowed: both hear, the owner has them back, a child has none."""

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
import uvloop

from snowmelt.runtime.signals import BorrowedSignals

FIRST, SECOND = signal.SIGTERM, signal.SIGINT
Loops = Callable[[], asyncio.AbstractEventLoop]


@pytest.fixture(autouse=True)
def heard() -> Iterator[list[int]]:
    """What the program's own handlers hear; afterwards all is as it was."""
    heard: list[int] = []
    before = {
        one: signal.signal(one, lambda number, _: heard.append(number)) for one in (FIRST, SECOND)
    }
    yield heard
    for number, handler in before.items():
        signal.signal(number, handler)


def test_several_borrow_at_once_and_end_in_any_order(heard: list[int]) -> None:
    own, told = signal.getsignal(FIRST), list[str]()
    one, two = (
        BorrowedSignals(lambda _: told.append("one")),
        BorrowedSignals(lambda _: told.append("two")),
    )
    with ExitStack() as later:
        with ExitStack() as sooner:
            sooner.enter_context(one)
            later.enter_context(two)
            signal.raise_signal(FIRST)
        signal.raise_signal(SECOND)
    assert told == ["one", "two", "two"]
    assert heard == [FIRST, SECOND]
    assert signal.getsignal(FIRST) is own


def test_a_thread_hears_what_the_main_thread_has_borrowed() -> None:
    begun, told, over = threading.Event(), threading.Event(), threading.Event()

    def work() -> None:
        with BorrowedSignals(lambda _: told.set(), FIRST):
            begun.set()
            over.wait(30)

    thread = threading.Thread(target=work)
    thread.start()
    begun.wait(30)
    signal.raise_signal(FIRST)
    assert not told.is_set(), "it is for the main thread to borrow"
    with BorrowedSignals(lambda _: None, FIRST):
        signal.raise_signal(FIRST)
    over.set()
    thread.join()
    assert told.is_set()


def test_what_the_owners_handler_raises_is_raised_when_the_last_has_ended() -> None:
    def ends(*_: object) -> None:
        raise SystemExit(7)

    signal.signal(FIRST, ends)
    went_on = []

    def work() -> None:
        with BorrowedSignals(lambda _: None):
            with BorrowedSignals(lambda _: None):
                signal.raise_signal(FIRST)
            went_on.append(True)

    with pytest.raises(SystemExit, match="7"):
        work()
    assert went_on
    assert signal.getsignal(FIRST) is ends


def test_whoever_takes_a_handler_away_keeps_it_and_may_put_back_what_was_there(
    heard: list[int],
) -> None:
    own, told = signal.getsignal(FIRST), list[int]()
    with BorrowedSignals(told.append, FIRST):
        found = signal.signal(FIRST, lambda *_: told.append(0))
        signal.raise_signal(FIRST)
    signal.raise_signal(FIRST)
    assert (told, heard) == ([0, 0], [])
    signal.signal(FIRST, found)  # long after
    signal.raise_signal(FIRST)
    assert heard == [FIRST]
    with BorrowedSignals(told.append, FIRST):
        signal.raise_signal(FIRST)
    assert (told[2:], heard) == ([FIRST], [FIRST, FIRST])
    assert signal.getsignal(FIRST) is own


def test_what_is_ignored_stays_ignored() -> None:
    told: list[int] = []
    signal.signal(FIRST, signal.SIG_IGN)
    with BorrowedSignals(told.append, FIRST):
        signal.raise_signal(FIRST)
    assert (told, signal.getsignal(FIRST)) == ([], signal.SIG_IGN)


def in_child(work: Callable[[], Any]) -> int:
    """How a forked child ends that does this: by which signal, or 0."""
    child = os.fork()
    if not child:
        try:
            work()
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0


@pytest.mark.parametrize("made", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_a_loop_hears_its_own_signals_meanwhile_and_afterwards_and_none_of_a_child(
    made: Loops,
) -> None:
    told: list[str] = []

    async def work() -> None:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(FIRST, told.append, "loop")
        with BorrowedSignals(
            lambda _: loop.call_soon_threadsafe(told.append, "borrower"), FIRST, SECOND
        ):
            signal.raise_signal(FIRST)
            await asyncio.sleep(0.05)
            assert sorted(told) == ["borrower", "loop"]
            signal.raise_signal(SECOND)  # its own handler would cancel this task
            await asyncio.sleep(0.05)
            assert told[2:] == ["borrower"]
            assert in_child(lambda: os.kill(os.getpid(), FIRST)) == FIRST
            await asyncio.sleep(0.05)
            assert len(told) == 3
        signal.raise_signal(FIRST)
        await asyncio.sleep(0.05)
        assert told[3:] == ["loop"]

    signal.signal(SECOND, signal.default_int_handler)
    with asyncio.Runner(loop_factory=made) as runner:
        runner.run(work())


def test_a_signal_that_comes_during_a_fork_is_the_childs(heard: list[int]) -> None:
    told: list[int] = []
    signal.signal(FIRST, signal.SIG_DFL)
    with BorrowedSignals(told.append, FIRST):
        for _ in range(20):
            child = os.fork()
            if not child:
                signal.pause()
            os.kill(child, FIRST)  # it has not run a step of Python yet, or has
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -FIRST
    assert (told, heard) == ([], [])
