"""What not all who should keep it have flushed: it is not handed out yet (home, rule 8)."""

from typing import Generic, TypeVar

from snowmelt.protocols.priority.batches import Shares
from snowmelt.protocols.priority.positions import common

T = TypeVar("T")


class Thin(Generic[T]):
    """At one home, in one view: what comes from doors, and what is owed to those who lack it.

    >>> from snowmelt.core.interval import Interval
    >>> from snowmelt.protocols.priority.batches import Share
    >>> thin, there = Thin[str](), (Share(0, (Interval(4, 6),)),)
    >>> thin.comes(1, there); thin.waits(2, there, "a lease")
    True
    >>> thin.came(1), thin.waits(2, there, "a lease")
    (['a lease'], False)
    """

    def __init__(self) -> None:
        self.owed: Shares = ()
        """What somebody lacks since the view began, and has room for."""
        self._coming: dict[int, Shares] = {}
        """What was stored under which number, as it came."""
        self._waiting: dict[int, tuple[Shares, T]] = {}

    def comes(self, number: int, shares: Shares) -> None:
        """These were stored here, and are on their way to all disks."""
        self._coming[number] = shares

    def waits(self, number: int, shares: Shares, what: T) -> bool:
        """Whether something that was begun under this number waits for any of these.

        Then it is kept until they have come. What is stored later was here already.
        """
        for before, coming in self._coming.items():
            if before > number:
                return False
            if common(shares, coming):
                self._waiting[number] = shares, what
                return True
        return False

    def came(self, number: int) -> list[T]:
        """What was stored under this number is flushed by all, or refused: who waited for it."""
        coming = self._coming.pop(number, ())
        if not self._waiting:  # as mostly
            return []
        free = [each for each, (shares, _) in self._waiting.items() if common(shares, coming)]
        return [self._waiting.pop(each)[1] for each in free]
