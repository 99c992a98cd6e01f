"""A handler's time limit, in threads.

Python ends no thread from outside. What it can do is to raise an exception there, before the next
step of Python that the thread takes. So:

1. A handler that is over its limit gets such an exception, once. It fails with `TimeoutError`,
   unless it catches that exception itself. Then it goes on, and counts as any other.
2. What does not come back to Python (a socket without a time-out, a lock, a sleep) gets it when it
   does. Until then its item stays in hand, and that is logged once the limit is over twice.
3. In a process of its own (`processes`) a handler that is over twice its limit is ended by SIGKILL,
   with all else that this process has in hand. The items come again when their leases end.

Whether a call is over is decided once, by the thread that takes it out of `_open`. The thread
waits until the exception was sent, so that none comes later into what is not the handler's.
"""

import ctypes
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Final

from snowmelt.core.instant import Instant, later, seconds
from snowmelt.runtime.clock import steady_now
from snowmelt.runtime.logs import tell

_LOOKS: Final = 20
"""So often in a limit it is looked whether it is over."""
_STEPS: Final = 1_000
"""Of Python, within which what was sent is raised."""


class _Over(BaseException):
    """What is raised in a handler; no `except Exception` of its own catches it."""


class _Call:
    def __init__(self, end: Instant, what: dict[str, object]) -> None:
        self.thread = threading.get_ident()
        self.end = end
        self.what = what
        self.sent = False
        """The exception was."""
        self.ended = False


class Limit:
    """Ends handlers of one worker loop that take longer than so many seconds."""

    def __init__(self, limit: float, *, kills: bool) -> None:
        self._limit = limit
        self._kills = kills
        self._open: dict[_Call, None] = {}
        """In the order in which they end. Each change is one step, so it needs no lock."""
        self._over: list[_Call] = []
        self._closed = threading.Event()
        threading.Thread(target=self._watch, name="snowmelt-worker-limit", daemon=True).start()

    def close(self) -> None:
        """No more is looked at."""
        self._closed.set()

    def call(self, work: Callable[[], None], what: dict[str, object]) -> None:
        """Does the work; raises `TimeoutError` in its place when it took too long."""
        call = _Call(later(steady_now(), seconds(self._limit)), what)
        try:
            self._open[call] = None
            try:
                work()
            finally:
                if self._open.pop(call, call) is call:  # it was taken out: it is over
                    _await_it(call)
        except _Over as error:
            raise TimeoutError(over_text(self._limit)).with_traceback(error.__traceback__) from None
        finally:
            call.ended = True

    # --- in a thread of its own -------------------------------------------------------------------

    def _watch(self) -> None:
        while not self._closed.wait(min(1.0, self._limit / _LOOKS)):
            now = steady_now()
            for call in [one for one in list(self._open) if one.end <= now]:
                if self._open.pop(call, call) is None:
                    _raise_in(call)
                    self._over.append(call)
            once = seconds(self._limit)
            for call in [one for one in self._over if one.ended or later(one.end, once) <= now]:
                self._over.remove(call)
                if not call.ended:
                    self._tell_endless(call)

    def _tell_endless(self, call: _Call) -> None:
        where = {"limit": f"{self._limit:g} s", "at": _place_of(call.thread)}
        if self._kills:
            tell("a handler did not end: its process is ended", logging.ERROR, **call.what, **where)
            os.kill(os.getpid(), signal.SIGKILL)
        tell("a handler does not end", logging.ERROR, **call.what, **where)


def over_text(limit: float) -> str:
    """The reason given with an item whose handler took too long."""
    return f"the handler took longer than its limit of {limit:g} s"


def _raise_in(call: _Call) -> None:
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(call.thread), ctypes.py_object(_Over))
    call.sent = True


def _await_it(call: _Call) -> None:
    """Has it raised here, if the handler did not catch it."""
    while not call.sent:
        time.sleep(0.001)
    for _ in range(_STEPS):
        pass


def _place_of(thread: int) -> str:
    frame = sys._current_frames().get(thread)  # noqa: SLF001  # there is no other way to ask
    code = None if frame is None else frame.f_code
    return "" if frame is None or code is None else f"{code.co_filename}, line {frame.f_lineno}"
