"""From where on the positions of each priority are given; none is given twice.

A position has its priority in the upper bits, and counts within it in the others. So the order of
positions is that of urgency, and a queue with one priority has the numbers from 0 on.
"""

from collections.abc import Iterable
from typing import Final

from snowmelt.core.interval import Interval

PRIORITY_BITS: Final = 48
"""So many bits of a position count within its priority."""


class Tails(list[int]):
    """By priority, how many positions were given.

    >>> tails = Tails([0, 0])
    >>> tails.raise_to([7, (1 << PRIORITY_BITS) + 2]); tails
    [7, 2]
    >>> tails.never_given(Interval(5, 9))
    [Interval(start=7, stop=9)]
    """

    def raise_to(self, stops: Iterable[int], leap: int = 0) -> None:
        """Positions below these were given, and of each priority perhaps so many more."""
        for stop in filter(None, stops):
            priority, number = divmod(stop - 1, 1 << PRIORITY_BITS)
            self[priority] = max(self[priority], number + 1)
        self[:] = [tail + leap for tail in self]

    def never_given(self, interval: Interval) -> list[Interval]:
        """What of an interval is behind the tail of its priority."""
        priority = interval.start >> PRIORITY_BITS
        given = self[priority] if priority < len(self) else 0
        start = max(interval.start, (priority << PRIORITY_BITS) + given)
        return [Interval(start, interval.stop)] if start < interval.stop else []
