"""Who was told that there is room and has not put yet: that room is theirs (rule 14)."""

from typing import Final

from snowmelt.core.instant import Instant, later, seconds

PROMISED: Final = seconds(10)
"""For so long; one that makes nothing after all keeps nobody else out for longer."""
NOBODY: Final = 0


class Promised:
    """Room by the asker that was told of it; one has room for one object at most.

    >>> promised = Promised()
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
    def next_end(self) -> Instant | None:
        """When the oldest of them has kept others out for long enough."""
        return next(iter(self._until.values()), None)
