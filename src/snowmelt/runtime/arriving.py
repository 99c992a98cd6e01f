"""Room for large frames: what all clients of a process together may have begun to send.

A frame takes memory from its first byte, and only when its last has come is anything known of it.
So one connection is bounded by the largest frame, and many together by this. It is a machine
without a clock and without sockets; who asks is a connection.

1. A frame of more than `LARGE` bytes that has not come in one piece has its *place* before more of
   it is read: its whole size counts from then until it is whole, or its connection ends.
2. Who finds no room waits in line, and nobody passes anybody: whoever is small would come first
   for ever.
3. When nothing is held the first in line has its place, whatever its size.
"""

from collections.abc import Hashable
from typing import Final, Generic, TypeVar

LARGE: Final = 64 << 10
Who = TypeVar("Who", bound=Hashable)


class Arriving(Generic[Who]):
    """Of one process.

    >>> arriving = Arriving[str](100)
    >>> arriving.ask("a", 70), arriving.ask("b", 40), arriving.ask("c", 10)
    (True, False, False)
    >>> arriving.held, arriving.waiting
    (70, 2)
    >>> arriving.leave("a")
    ['b', 'c']
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._held: dict[Who, int] = {}
        self._waiting: dict[Who, int] = {}
        """In the order they came."""
        self.held = 0
        """Bytes of all places."""

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def ask(self, who: Who, size: int) -> bool:
        """A frame of this size begins to come; whether it has its place, or waits for it."""
        assert who not in self._held
        assert who not in self._waiting
        self._waiting[who] = size
        return who in self._served()

    def leave(self, who: Who) -> list[Who]:
        """Its frame is whole, or will never be; who has a place now that waited."""
        self._waiting.pop(who, None)
        self.held -= self._held.pop(who, 0)
        return self._served()

    def check(self) -> None:
        """What is held is bounded, and nobody waits without need."""
        assert self.held == sum(self._held.values())
        assert self.held <= self._most or len(self._held) == 1
        assert not self._held.keys() & self._waiting.keys()
        assert not self._waiting or not self._fits(next(iter(self._waiting.values())))

    def _fits(self, size: int) -> bool:
        return not self._held or self.held + size <= self._most  # rule 3

    def _served(self) -> list[Who]:
        served = list[Who]()
        for who, size in self._waiting.items():
            if not self._fits(size):
                break
            self._held[who] = size
            self.held += size
            served.append(who)
        for who in served:
            del self._waiting[who]
        return served
