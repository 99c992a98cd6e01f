"""Who waits at a door for elements, or for room: each until its patience ends (door, rule 2).

Word of elements may be lost, so there is a clock: once in `ASK_AGAIN` puts ask, and some of the
gets; when one of those finds anything, all ask. So however many wait, an empty queue costs little.
"""

from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from typing import Final

import msgspec

from snowmelt.core.instant import Instant, later, milliseconds
from snowmelt.core.names import OperationId

ASK_AGAIN: Final = milliseconds(1_000)
"""How often somebody asks without having been told to."""
GETS_AT_ONCE: Final = 64
_FEW: Final = 64


class _Waiter(msgspec.Struct, frozen=True):
    end: Instant
    """When its patience ends."""
    each: bool
    """Whether it asks each time."""


class Waiting:
    """Of one door.

    >>> waiting, one = Waiting(), OperationId("c", 1)
    >>> waiting.add(one, Instant(milliseconds(300)), Instant(0), each=False)
    >>> waiting.due(Instant(0)), waiting.due(Instant(milliseconds(300))) == [one]
    ([], True)
    """

    def __init__(self) -> None:
        self._waiters: dict[OperationId, _Waiter] = {}
        self._ends: list[tuple[Instant, OperationId]] = []
        """The earliest first; of who does not wait any more it may still name some."""
        self._clock = Instant(0)
        self.more = False
        """Whether some were left out when last the clock struck."""

    def __iter__(self) -> Iterator[OperationId]:
        return iter(list(self._waiters))

    def __contains__(self, operation: OperationId) -> bool:
        return operation in self._waiters

    def add(self, operation: OperationId, end: Instant, now: Instant, *, each: bool) -> None:
        """It waits; when its patience is over already, until the clock strikes."""
        if not self._waiters:
            self._clock = later(now, ASK_AGAIN)
        self._waiters[operation] = _Waiter(end, each)
        if end > now:
            heappush(self._ends, (end, operation))
        if len(self._ends) > 2 * len(self._waiters) + _FEW:
            self._ends = [(one.end, each) for each, one in self._waiters.items() if one.end > now]
            heapify(self._ends)

    def remove(self, operation: OperationId) -> None:
        del self._waiters[operation]

    def clear(self) -> None:
        self._waiters, self._ends = {}, []

    def due(self, now: Instant) -> list[OperationId]:
        """Who asks now: whose patience is over, and for whom the clock strikes."""
        found: dict[OperationId, None] = {}
        while self._ends and self._ends[0][0] <= now:
            end, operation = heappop(self._ends)
            waiter = self._waiters.get(operation)
            if waiter is not None and waiter.end == end:
                found[operation] = None
        if self._waiters and now >= self._clock:
            self._clock = later(now, ASK_AGAIN)
            gets = [one for one, waiter in self._waiters.items() if not waiter.each]
            found.update(dict.fromkeys(gets[:GETS_AT_ONCE]))
            found.update(dict.fromkeys(one for one, it in self._waiters.items() if it.each))
            self.more = len(gets) > GETS_AT_ONCE
        return list(found)

    @property
    def next(self) -> Instant | None:
        """When somebody is due."""
        if not self._waiters:
            return None
        return min(self._clock, self._ends[0][0]) if self._ends else self._clock
