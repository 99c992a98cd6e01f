"""Wakes whoever waits for the sockets, from any thread: one more descriptor among them."""

import contextlib
import os
import select
import socket
from io import FileIO
from typing import Final

EVENTS: Final = hasattr(os, "eventfd") and hasattr(select, "epoll")
_ONE: Final = (1).to_bytes(8, "little")


class Alarm:
    """Rung by anybody, once for each sleep; silenced by who was woken.

    >>> alarm = Alarm()
    >>> alarm.sleeps()
    >>> alarm.wake(); alarm.wake(); alarm.silence()
    >>> alarm.close()
    """

    edge = EVENTS
    """Whether only a ring wakes, and not that there was one: then nobody need silence it."""

    def __init__(self) -> None:
        # These know that they are closed: nobody writes where another file is by then.
        if EVENTS:
            self._hears = self._rings = FileIO(os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK), "w")
        else:
            hears, rings = _pair()
            self._hears, self._rings = FileIO(hears, "r"), FileIO(rings, "w")
        self._sleep = self._rung = 0
        """Who is to be woken is awake while these are the same."""

    def fileno(self) -> int:
        return self._hears.fileno()

    def sleeps(self) -> None:
        """Who is to be woken waits, or is about to."""
        self._sleep += 1

    def awake(self) -> None:
        self._rung = self._sleep

    def ring(self) -> None:
        with contextlib.suppress(OSError, ValueError):  # it is closed
            self._rings.write(_ONE)  # or it is full of rings already

    def wake(self) -> None:
        """Rings when that is needed; once too often, but never too late."""
        sleep = self._sleep
        if self._rung != sleep:
            self.ring()
            self._rung = sleep

    def silence(self) -> None:
        if not EVENTS:
            self._hears.read(64)  # what is left after that wakes once more

    def close(self) -> None:
        self._hears.close()
        self._rings.close()


def _pair() -> tuple[int, int]:
    both = socket.socketpair()
    for one in both:
        one.setblocking(False)
    hears, rings = (one.detach() for one in both)
    return hears, rings
