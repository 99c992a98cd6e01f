"""From where on the positions of each priority are given; none is given twice.

A position has its priority in the upper bits, and counts within it in the others. So the order of
positions is that of urgency, and a queue with one priority has the numbers from 0 on.
"""

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from snowmelt.core.interval import Interval, IntervalSet
from snowmelt.core.spans import stepped, steps

SKIPPED: Final = b"v"
PRIORITY_BITS: Final = 48
"""So many bits of a position count within its priority."""


def bounded(some: IntervalSet, below: Iterable[int]) -> IntervalSet:
    """What of each priority is below its bound.

    >>> first = 1 << PRIORITY_BITS
    >>> some = IntervalSet([Interval(0, 9), Interval(first, first + 4)])
    >>> [one.size for one in bounded(some, (2, 3))]
    [2, 3]
    """
    rows = [(rank << PRIORITY_BITS, count) for rank, count in enumerate(below)]
    return IntervalSet([one for at, count in rows for one in some.common(Interval(at, at + count))])


def counted(ready: IntervalSet, priorities: int) -> tuple[int, ...]:
    """How many there are of each. O(intervals).

    >>> counted(IntervalSet([Interval(0, 4), Interval(1 << 48, (1 << 48) + 1)]), 3)
    (4, 1, 0)
    """
    counts = [0] * priorities
    for one in ready:
        counts[one.start >> PRIORITY_BITS] += one.size
    return tuple(counts)


class Tails(list[int]):
    """By priority, how many positions were given.

    >>> tails = Tails([0, 0], {})
    >>> tails.raise_to([7, (1 << PRIORITY_BITS) + 2]); tails
    [7, 2]
    >>> tails.never_given(Interval(5, 9))
    [Interval(start=7, stop=9)]
    """

    def __init__(self, given: Iterable[int], changed: dict[bytes, None]) -> None:
        super().__init__(given)
        self.skipped: IntervalSet | None = None
        """What was left out, if any: nothing stands there, though it was told perhaps."""
        self._changed = changed

    def given(self, tails: list[int]) -> None:
        """As it was written down; raises `ValueError` for more priorities than there are."""
        if len(tails) > len(self):
            raise ValueError(f"{len(tails)} priorities, and {len(self)} are there")
        self[: len(tails)] = tails

    def raise_to(self, stops: Iterable[int], leap: int = 0) -> None:
        """Positions below these were given, and of each priority perhaps so many more."""
        for stop in filter(None, stops):
            priority, number = divmod(stop - 1, 1 << PRIORITY_BITS)
            self[priority] = max(self[priority], number + 1)
        self[:] = [tail + leap for tail in self]

    def leap(self, bound: int) -> None:
        """No priority goes on below this; what is left out is written down.

        >>> tails = Tails([3, 8], {})
        >>> tails.leap(5)
        >>> tails, tails.never_given(Interval(2, 4))
        ([5, 8], [Interval(start=3, stop=4)])
        """
        rows = [(rank << PRIORITY_BITS, tail) for rank, tail in enumerate(self) if tail < bound]
        if rows:
            over = [Interval(at + tail, at + bound) for at, tail in rows]
            if self.skipped is None:
                self.skipped = IntervalSet()
            self.skipped.add_all(over)
            self._changed[SKIPPED] = None
        self[:] = [max(tail, bound) for tail in self]

    def never_given(self, interval: Interval) -> list[Interval]:
        """What of an interval is behind the tail of its priority, or was left out."""
        if self.skipped is not None and (left_out := self.skipped.common(interval)):
            return left_out
        priority = interval.start >> PRIORITY_BITS
        given = self[priority] if priority < len(self) else 0
        start = max(interval.start, (priority << PRIORITY_BITS) + given)
        return [Interval(start, interval.stop)] if start < interval.stop else []

    # --- as it is written down --------------------------------------------------------------------

    def keys(self) -> Iterator[bytes]:
        if self.skipped is not None:
            yield SKIPPED

    def record(self, key: bytes) -> bytes:
        del key
        assert self.skipped is not None
        return msgspec.msgpack.encode(steps(self.skipped))

    def restore(self, key: bytes, value: bytes) -> None:
        del key
        self.skipped = IntervalSet(stepped(msgspec.msgpack.decode(value, type=list[int])))
