"""When something is due: any number of moments behind the machine's one timer."""

import heapq
from collections.abc import Iterator
from enum import Enum
from typing import Any, Final

from snowmelt.core.instant import Instant
from snowmelt.core.node import Effect, SetTimer

STALE_MAX: Final = 64

Key = tuple[str, Any]
Effects = list[Effect[Any]]


class PoolTimer(Enum):
    NEXT = "pool.next"


class Alarms:
    """Moments by key; setting a key again moves it.

    >>> alarms = Alarms()
    >>> alarms.set(("loan", 7), Instant(5)); alarms.set(("want", 1), Instant(9))
    >>> alarms.wake()
    [SetTimer(timer=<PoolTimer.NEXT: 'pool.next'>, at=5)]
    >>> list(alarms.due(Instant(6)))
    [('loan', 7)]
    """

    def __init__(self) -> None:
        self._at: dict[Key, Instant] = {}
        self._heap: list[tuple[Instant, int, Key]] = []
        self._order = 0  # keys of different kinds can't be compared
        self._timer: Instant | None = None
        self.sooner = False
        """Whether something may be due before the timer: then `wake` sets it."""

    def set(self, key: Key, at: Instant) -> None:
        """It is due then. O(log n)."""
        self._at[key] = at
        if self._timer is None or at < self._timer:
            self.sooner = True
        self._order += 1
        heapq.heappush(self._heap, (at, self._order, key))
        if len(self._heap) > 2 * len(self._at) + STALE_MAX:
            self._heap = [(at, order, key) for order, (key, at) in enumerate(self._at.items())]
            self._order = len(self._heap)
            heapq.heapify(self._heap)

    def cancel(self, key: Key) -> None:
        """It is not due any more. O(1)."""
        self._at.pop(key, None)

    def at(self, key: Key) -> Instant | None:
        """When it is due; None when it is not set."""
        return self._at.get(key)

    def due(self, now: Instant) -> Iterator[Key]:
        """What is due by now, each once; it is not set any more when it is yielded."""
        while self._heap and self._heap[0][0] <= now:
            at, _, key = heapq.heappop(self._heap)
            if self._at.get(key) == at:
                del self._at[key]
                yield key

    def expired(self) -> None:
        self._timer = None
        self.sooner = True

    def wake(self) -> Effects:
        """Sets the timer when something is due before it; a timer too early does no harm."""
        self.sooner = False
        while self._heap and self._at.get(self._heap[0][2]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        if not self._heap or (self._timer is not None and self._timer <= self._heap[0][0]):
            return []
        self._timer = self._heap[0][0]
        return [SetTimer(PoolTimer.NEXT, self._timer)]
