"""Who was told that there is room and has not put yet: that room is theirs (rules 14, 19)."""

from typing import Final

from snowmelt.core.instant import Instant, later, seconds
from snowmelt.core.node import Announce
from snowmelt.protocols.pool.alarms import Effects
from snowmelt.protocols.pool.calls import Ahead

PROMISED: Final = seconds(10)
"""For so long; one that makes nothing after all keeps nobody else out for longer."""
NOBODY: Final = 0
AHEAD_MOST: Final = 16
AHEAD_SIZES: Final = 2
"""A place has room for an object so many times as large as the last."""


class PromisedRoom:
    """Room by the asker that was told of it; one has room for one object at most.

    >>> promised = PromisedRoom()
    >>> promised.give(7, Instant(0))
    >>> promised.to_others(7, Instant(0)), promised.to_others(8, Instant(0))
    (0, 1)
    >>> promised.to_others(8, Instant(PROMISED))
    0
    """

    def __init__(self) -> None:
        self._until: dict[int, Instant] = {}

    def give(self, asker: int, now: Instant) -> None:
        """It is told of room."""
        if asker != NOBODY:
            self.used(asker)
            self._until[asker] = later(now, PROMISED)

    def used(self, asker: int) -> None:
        self._until.pop(asker, None)

    def to_others(self, asker: int, now: Instant) -> int:
        """How many others were told of room that is not used yet."""
        while self._until and (first := next(iter(self._until.items())))[1] <= now:
            del self._until[first[0]]
        return len(self._until) - (asker in self._until)

    @property
    def count(self) -> int:
        return len(self._until)

    @property
    def next_end(self) -> Instant | None:
        """When the oldest of them has kept others out for long enough."""
        return next(iter(self._until.values()), None)


class PromisedSlots:
    """Room that the program was told of ahead, and that is neither used nor given up (rule 19).

    >>> places = PromisedSlots()
    >>> places.told(places.fit(7, 1000, 100)), places.count, places.size
    ([Announce(fact=Ahead(count=5, size=200))], 5, 1000)
    >>> places.end(200), places.size
    (None, 800)
    >>> places.call_back(), places.call_back()
    ([Announce(fact=Ahead(count=0, size=0))], [])
    """

    def __init__(self) -> None:
        self.count = 0
        self.size = 0
        self._called_back = False

    @staticmethod
    def fit(count: int, size: int, usual: int) -> Ahead:
        """Places within so many objects and bytes, for objects of this size and twice it."""
        each = AHEAD_SIZES * max(1, usual)
        return Ahead(max(0, min(count, AHEAD_MOST, size // each)), each)

    def told(self, ahead: Ahead) -> Effects:
        if not ahead.count:
            return []
        self._called_back = False
        self.count += ahead.count
        self.size += ahead.count * ahead.size
        return [Announce(ahead)]

    def end(self, size: int) -> None:
        """One is used, or given up."""
        self.count -= 1
        self.size -= size

    def call_back(self) -> Effects:
        """Somebody waits for room, or nobody may put any more: who has not taken one gets none."""
        if self._called_back or not self.count:
            return []
        self._called_back = True
        return [Announce(Ahead(0, 0))]
