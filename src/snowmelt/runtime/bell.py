"""Wakes one thread, from any other."""

import threading
from typing import Any, Final

LONGEST_SLEEP: Final = 1.0


class Bell:
    """Rung while nobody waits, it wakes the next wait. Each wait ends, and who waits looks again.

    >>> bell = Bell()
    >>> bell.ring(); bell.ring()
    >>> bell.wait(9.0), bell.wait(0.0)
    (True, False)
    """

    __slots__ = ("_lock", "_rung")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()
        self._rung = False

    def ring(self) -> None:
        """Called by one thread at a time."""
        if not self._rung:
            self._rung = True
            self._lock.release()

    def answer(self, body: Any) -> None:
        """The same, for whom an answer is told."""
        del body
        self.ring()

    def wait(self, seconds: float) -> bool:
        """Whether it was rung in this time, or in the longest sleep."""
        if self._lock.acquire(timeout=max(0.0, min(seconds, LONGEST_SLEEP))):
            self._rung = False
            return True
        return False
