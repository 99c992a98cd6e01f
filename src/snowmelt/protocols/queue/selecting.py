"""Which item has a rank among those that are ready, and how many of each priority are.

Nothing is looked at but where intervals begin and end.
"""

from decimal import ROUND_CEILING, Decimal

from snowmelt.core.interval import Interval, IntervalSet
from snowmelt.protocols.queue.calls import Select
from snowmelt.protocols.queue.keyed import Keyed
from snowmelt.protocols.queue.tails import PRIORITY_BITS


def selected(ready: IntervalSet, ask: Select) -> tuple[Interval, ...]:
    """Where the item of a rank is; nowhere if there is none. O(intervals), or as keys have it.

    A share is what its digits say: 0.07 of a hundred is the seventh.

    >>> ready = IntervalSet([Interval(0, 4), Interval(9, 105)])
    >>> selected(ready, Select("q", rank=5)), selected(ready, Select("q", share=0.07))
    ((Interval(start=9, stop=10),), (Interval(start=11, stop=12),))
    """
    part = Decimal(repr(float(ask.share))) * ready.total
    left = ask.rank or max(1, int(part.to_integral_value(ROUND_CEILING)))
    if isinstance(ready, Keyed):
        place = ready.nth(left)
        return () if place is None else (Interval(place, place + 1),)
    for one in ready:
        if left <= one.size:
            return (Interval(one.start + left - 1, one.start + left),)
        left -= one.size
    return ()


def counted(ready: IntervalSet, priorities: int) -> tuple[int, ...]:
    """How many there are of each. O(intervals).

    >>> counted(IntervalSet([Interval(0, 4), Interval(1 << 48, (1 << 48) + 1)]), 3)
    (4, 1, 0)
    """
    counts = [0] * priorities
    for one in ready:
        counts[one.start >> PRIORITY_BITS] += one.size
    return tuple(counts)
