"""When whom to wake: for each name the earliest moment it asked for, and of all the next.

Idle names cost nothing, however many there are; a moment that was asked for costs O(log asked).
"""

from heapq import heappop, heappush

from snowmelt.core.instant import Instant


class WakeTimes:
    """The earliest moment asked for by each name; it is forgotten when it has come.

    >>> alarms = WakeTimes()
    >>> alarms.wake("a", Instant(9)); alarms.wake("b", Instant(3)); alarms.wake("a", Instant(5))
    >>> alarms.next, alarms.due(Instant(5)), alarms.next
    (3, ['b', 'a'], None)
    """

    def __init__(self) -> None:
        self._at: dict[str, Instant] = {}
        self._heap: list[tuple[Instant, str]] = []

    def wake(self, name: str, at: Instant) -> None:
        """This name is to be woken then, or before."""
        known = self._at.get(name)
        if known is None or at < known:
            self._at[name] = at
            heappush(self._heap, (at, name))

    def due(self, now: Instant) -> list[str]:
        """Whose moment has come, the earliest first."""
        names: list[str] = []
        while self._heap and self._heap[0][0] <= now:
            at, name = heappop(self._heap)
            if self._at.get(name) == at:
                del self._at[name]
                names.append(name)
        return names

    def before(self, at: Instant | None) -> Instant | None:
        """The next moment that was asked for, if it comes before this one; of nothing, any does."""
        heap = self._heap
        if not heap or (at is not None and at <= heap[0][0]):
            return None
        found = self.next
        return found if found is None or at is None or found < at else None

    @property
    def next(self) -> Instant | None:
        while self._heap and self._at.get(self._heap[0][1]) != self._heap[0][0]:
            heappop(self._heap)  # an earlier one took its place, and has come since
        return self._heap[0][0] if self._heap else None
