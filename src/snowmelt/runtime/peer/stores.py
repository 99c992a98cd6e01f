"""Room for the blobs that are on their way into this process, over all its links.

1. A blob that is offered waits until there is room for it, first come, first served; so whatever a
   program asks for at a time comes, if later.
2. A part of the room is kept for blobs that begin unasked, of which a link has few bytes. When that
   is used up too the blob is refused, and nothing else.
3. Where nothing is on its way, one blob finds room, however large.
"""

from collections import deque
from typing import Final, Protocol

KEPT_FOR_UNASKED: Final = 0.25


class Offered(Protocol):
    """Whose blob waits."""

    def room_for(self, number: int) -> None:
        """There is room for this one of its blobs, and it is taken."""


class Stores:
    """How many bytes of blobs are on their way into this process.

    >>> stores = Stores(100)
    >>> stores.take(80), stores.take(30), stores.held
    (True, False, 80)
    """

    __slots__ = ("_offered", "bytes_max", "held")

    def __init__(self, bytes_max: int) -> None:
        self.held = 0
        self.bytes_max = bytes_max
        self._offered: deque[tuple[Offered, int, int]] = deque()

    def take(self, size: int) -> bool:
        """Takes room for a blob that has begun unasked (rule 2)."""
        if self.held and self.held + size > self.bytes_max:
            return False
        self.held += size
        return True

    def offer(self, whose: Offered, number: int, size: int) -> None:
        """Takes room for a blob when there is some: `room_for` tells, now or later (rule 1)."""
        self._offered.append((whose, number, size))
        self._grant()

    def give(self, size: int) -> None:
        """The room is free again."""
        self.held -= size
        self._grant()

    def forget(self, whose: Offered) -> None:
        """Nothing of it comes any more."""
        self._offered = deque(one for one in self._offered if one[0] is not whose)
        self._grant()

    def _grant(self) -> None:
        most = self.bytes_max * (1 - KEPT_FOR_UNASKED)
        while self._offered:
            whose, number, size = self._offered[0]
            if self.held and self.held + size > most:
                return
            self._offered.popleft()
            self.held += size
            whose.room_for(number)
