"""While a shield is up no handler of a signal runs; afterwards each does, in order."""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import pytest

from snowmelt.runtime.shielding import SHIELD

FIRST, SECOND = signal.SIGUSR1, signal.SIGUSR2


@pytest.fixture
def handle() -> Iterator[Callable[[signal.Signals, Callable[..., Any]], None]]:
    before = {one: signal.getsignal(one) for one in (FIRST, SECOND, signal.SIGALRM, signal.SIGPROF)}

    def install(number: signal.Signals, handler: Callable[..., Any]) -> None:
        signal.signal(number, handler)

    yield install
    for one, handler in before.items():
        signal.signal(one, handler)


def interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def test_a_step_is_done_whatever_comes_and_then_it_comes(handle: Any) -> None:
    done: list[str] = []
    handle(FIRST, interrupt)

    def step() -> None:
        with SHIELD:
            signal.raise_signal(FIRST)
            done.append("half")
            with SHIELD:  # one within the other
                signal.raise_signal(FIRST)
            done.append("whole")

    with pytest.raises(KeyboardInterrupt):
        step()
    assert done == ["half", "whole"]
    assert signal.getsignal(FIRST) is interrupt


def test_each_signal_is_handled_though_the_handler_of_one_before_raises(handle: Any) -> None:
    told: list[int] = []
    handle(FIRST, interrupt)
    handle(SECOND, lambda number, _: told.append(number))

    def step() -> None:
        with SHIELD:
            for one in (SECOND, FIRST, SECOND):
                signal.raise_signal(one)
            assert told == []

    with pytest.raises(KeyboardInterrupt):
        step()
    assert told == [SECOND, SECOND]


def test_a_handler_that_is_installed_later_is_kept_out_as_well(handle: Any) -> None:
    with SHIELD:
        pass
    handle(FIRST, interrupt)
    with pytest.raises(KeyboardInterrupt), SHIELD:
        signal.raise_signal(FIRST)
    handle(FIRST, signal.SIG_IGN)
    with SHIELD:
        signal.raise_signal(FIRST)
    assert signal.getsignal(FIRST) is signal.SIG_IGN


def test_handlers_that_raise_the_shield_themselves_come_at_any_moment(handle: Any) -> None:
    told: list[str] = []
    inside = 0

    def call(*_: object) -> None:
        assert not inside
        with SHIELD:
            told.append("called")

    for one in (signal.SIGALRM, signal.SIGPROF, FIRST, SECOND):
        handle(one, call)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.00037, 0.00037)  # slower than any machine calls
        signal.setitimer(signal.ITIMER_PROF, 0.00049, 0.00049)
        end = time.monotonic() + 1
        while time.monotonic() < end:
            with SHIELD:
                inside = 1
                for one in (signal.SIGALRM, signal.SIGPROF, FIRST, SECOND):
                    assert signal.getsignal(one) is not call
                inside = 0
            assert signal.getsignal(FIRST) is call
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.setitimer(signal.ITIMER_PROF, 0)
    assert len(told) > 10


def test_in_a_call_that_waits_handlers_come_at_once_and_are_where_the_program_put_them(
    handle: Any,
) -> None:
    told: list[object] = []

    def looks(*_: object) -> None:
        told.append(signal.getsignal(FIRST))
        with SHIELD:  # it calls, too
            signal.raise_signal(SECOND)
            told.append("step")
        told.append(signal.getsignal(SECOND))

    def handled(*_: object) -> None:
        told.append("handled")

    handle(FIRST, looks)
    handle(SECOND, handled)
    with SHIELD:
        SHIELD.waits = True
    assert signal.getsignal(SECOND) is not handled, "what keeps it out has stayed"
    with SHIELD:
        signal.raise_signal(SECOND)
        told.append("step")
    assert told == ["step", "handled"]
    assert signal.getsignal(SECOND) is handled
    told.clear()
    with SHIELD:
        SHIELD.waits = True
    signal.raise_signal(FIRST)
    assert told == [looks, "step", "handled", handled]
    assert signal.getsignal(FIRST) is looks
    with SHIELD:
        SHIELD.waits = False


def test_handlers_are_back_when_a_call_that_waited_ends(handle: Any) -> None:
    handle(FIRST, interrupt)
    for _ in range(2):
        with SHIELD:
            SHIELD.waits = True
        with SHIELD:
            SHIELD.waits = False
        assert signal.getsignal(FIRST) is interrupt
    with SHIELD:
        SHIELD.waits = True
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(FIRST)
    assert not SHIELD.waits
    assert signal.getsignal(FIRST) is interrupt


def test_whatever_is_thrown_into_it_as_it_goes_up_it_comes_down_again(handle: Any) -> None:
    """What throws there is a debugger, or a time limit: at the beginning of any line."""
    told: list[str] = []
    handle(FIRST, lambda *_: told.append("handled"))
    handle(SECOND, lambda *_: told.append("handled"))
    code, thrown = SHIELD.lift.__func__.__code__, 0  # type: ignore[attr-defined]
    for line in sorted({line for *_, line in code.co_lines() if line is not None})[1:]:

        def trace(frame: FrameType, event: str, _: object, line: int = line) -> Any:
            if frame.f_code is not code:
                return None
            if event == "line" and frame.f_lineno == line:
                sys.settrace(None)
                raise KeyboardInterrupt
            return trace

        before = sys.gettrace()
        sys.settrace(trace)
        try:
            with SHIELD:
                pass
        except KeyboardInterrupt:
            thrown += 1
        finally:
            sys.settrace(before)
        with SHIELD:
            SHIELD.waits = True
        signal.raise_signal(FIRST)
        assert told == ["handled"], f"thrown at line {line}"
        told.clear()
    assert thrown > 5


def test_other_threads_need_none(handle: Any) -> None:
    handle(FIRST, interrupt)
    seen: list[Any] = []

    def work() -> None:
        with SHIELD:
            seen.append(signal.getsignal(FIRST))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(10)
    assert seen == [interrupt]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of forks beside threads
def test_a_child_that_another_thread_made_meanwhile_has_the_handlers_themselves(
    handle: Any,
) -> None:
    handle(FIRST, interrupt)
    told: list[int] = []

    def fork() -> None:
        child = os.fork()
        if not child:
            os._exit(7 if signal.getsignal(FIRST) is interrupt else 1)
        told.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))

    with SHIELD:
        thread = threading.Thread(target=fork)
        thread.start()
        thread.join(20)
    assert told == [7]
