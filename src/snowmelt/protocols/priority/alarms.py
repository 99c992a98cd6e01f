"""Whose moment comes when: so the clock goes on only for those who wait for it."""

from heapq import heappop, heappush

from snowmelt.core.instant import Instant


class Alarms:
    """The next moment of each, by name.

    >>> alarms = Alarms()
    >>> for at, name in [(9, "jobs"), (7, "jobs"), (8, "log")]:
    ...     alarms.set(Instant(at), name)
    >>> alarms.next, alarms.over(Instant(8)), alarms.next
    (7, ['jobs', 'log'], None)
    """

    def __init__(self) -> None:
        self._at: dict[str, Instant] = {}
        self._heap: list[tuple[Instant, str]] = []

    def set(self, at: Instant, name: str) -> None:
        """At this moment, or before."""
        known = self._at.get(name)
        if known is None or at < known:
            self._at[name] = at
            heappush(self._heap, (at, name))

    @property
    def next(self) -> Instant | None:
        """The first of all."""
        while self._heap and self._at.get(self._heap[0][1]) != self._heap[0][0]:
            heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def over(self, now: Instant) -> list[str]:
        """Whose moment has come: they have none any more."""
        names: list[str] = []
        while (first := self.next) is not None and first <= now:
            names.append(heappop(self._heap)[1])
            del self._at[names[-1]]
        return names
