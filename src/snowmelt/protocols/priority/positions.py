"""Sets of positions as shares: what is in one and not in others."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Final

from snowmelt.core.interval import Interval, first_positions, merged
from snowmelt.protocols.priority.batches import Share, Shares, union

_STOP: Final = attrgetter("stop")


def without(interval: Interval, taken: Iterable[Interval]) -> list[Interval]:
    """The parts of an interval that are in none of the others.

    >>> [str(part) for part in without(Interval(0, 9), [Interval(2, 4), Interval(8, 12)])]
    ['[0, 2)', '[4, 8)']
    """
    taken = taken if isinstance(taken, list) else list(taken)
    if not taken and interval.start < interval.stop:  # as mostly
        return [interval]
    return _gaps(interval, merged(taken))


def overlaps(interval: Interval, others: Sequence[Interval]) -> Iterator[Interval]:
    """The parts of an interval that are in one of the others, which are in order and disjoint.

    O(log n + answer).

    >>> [str(one) for one in overlaps(Interval(3, 9), [Interval(0, 3), Interval(4, 5)])]
    ['[4, 5)']
    """
    start, stop = interval.start, interval.stop
    for at in range(bisect_right(others, start, key=_STOP), len(others)):
        other = others[at]
        if other.start >= stop:
            return
        yield Interval(max(start, other.start), min(stop, other.stop))


def _gaps(interval: Interval, taken: Sequence[Interval]) -> list[Interval]:
    """What of an interval is in none of the others, which are in order and disjoint."""
    parts: list[Interval] = []
    start = interval.start
    for one in overlaps(interval, taken):
        if one.start > start:
            parts.append(Interval(start, one.start))
        start = one.stop
    if start < interval.stop:
        parts.append(Interval(start, interval.stop))
    return parts


def minus(shares: Shares, taken: Shares) -> Shares:
    """The positions of some shares that are in none of the others. O(n log n)."""
    if not taken or not shares:
        return shares
    out = {share.priority: share.intervals for share in union(taken)}
    left = [
        Share(
            share.priority,
            tuple(
                part
                for interval in share.intervals
                for part in _gaps(interval, out.get(share.priority, ()))
            ),
        )
        for share in shares
    ]
    return tuple([share for share in left if share.intervals])


def first(rows: Iterable[tuple[int, Iterable[Interval]]], most: int) -> Shares:
    """The first positions of some rows, so many at most.

    >>> first([(1, [Interval(2, 4), Interval(7, 9)]), (0, [Interval(0, 5)])], 3)[0].intervals
    (Interval(start=2, stop=4), Interval(start=7, stop=8))
    """
    taken: list[Share] = []
    for priority, intervals in rows:
        heads = first_positions(intervals, most)
        if heads:
            taken.append(Share(priority, tuple(heads)))
            most -= taken[-1].total
    return tuple(taken)


def first_of(shares: Iterable[Share], most: int) -> Shares:
    """The first positions of some shares, so many at most."""
    return first([(one.priority, one.intervals) for one in shares], most)


def common(shares: Shares, others: Shares) -> Shares:
    if not shares or not others:
        return ()
    return minus(shares, minus(shares, others))
