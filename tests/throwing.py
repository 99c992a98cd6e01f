"""Exceptions thrown into a thread from outside, as time limits are made.

Python drops what is raised in a finalizer or in a callback of the collector. Such a throw is lost:
nobody hears of it. So whoever waits for its effect throws once more after a while.
"""

import ctypes
import time
from threading import Event, Thread

AGAIN = 5.0


class Target:
    """A thread that sets `ready` each time that it may be thrown at."""

    def __init__(self, thread: Thread, ready: Event) -> None:
        self._thread, self._ready = thread, ready
        self._thrown = time.monotonic()

    def throw(self, kind: type[BaseException]) -> None:
        """Into a thread that may be thrown at."""
        self._ready.clear()
        self._throw(kind)

    def heard(self, kind: type[BaseException]) -> bool:
        """Whether the last one had its effect; one that was lost is thrown once more."""
        if not self._ready.wait(0.001) and time.monotonic() > self._thrown + AGAIN:
            self._throw(kind)
        return self._ready.is_set()

    def _throw(self, kind: type[BaseException]) -> None:
        self._thrown = time.monotonic()
        throw_into(self._thread.ident or 0, kind)


def throw_into(thread: int, kind: type[BaseException]) -> None:
    """Once, into the thread of this number."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(kind))
