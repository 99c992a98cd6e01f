"""Sets of positions as shares: what is in one and not in others."""

from collections.abc import Iterable

from snowmelt.core.interval import Interval, merged
from snowmelt.protocols.priority.batches import Share, Shares, union


def without(interval: Interval, taken: Iterable[Interval]) -> list[Interval]:
    """The parts of an interval that are in none of the others.

    >>> [str(part) for part in without(Interval(0, 9), [Interval(2, 4), Interval(8, 12)])]
    ['[0, 2)', '[4, 8)']
    """
    taken = taken if isinstance(taken, list) else list(taken)
    if not taken:
        return [interval] if interval.start < interval.stop else []
    parts: list[Interval] = []
    start = interval.start
    for one in merged(taken):
        if one.start > start:
            parts.append(Interval(start, min(one.start, interval.stop)))
        start = max(start, one.stop)
        if start >= interval.stop:
            break
    if start < interval.stop:
        parts.append(Interval(start, interval.stop))
    return parts


def minus(shares: Shares, taken: Shares) -> Shares:
    """The positions of some shares that are in none of the others."""
    if not taken or not shares:
        return shares
    out = {share.priority: share.intervals for share in union(taken)}
    left = [
        Share(
            share.priority,
            tuple(
                part
                for interval in share.intervals
                for part in without(interval, out.get(share.priority, ()))
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
        heads: list[Interval] = []
        for interval in intervals:
            if most == 0:
                break
            head, _ = interval.split(most)
            heads.append(head)
            most -= head.size
        if heads:
            taken.append(Share(priority, tuple(heads)))
    return tuple(taken)


def first_of(shares: Iterable[Share], most: int) -> Shares:
    """The first positions of some shares, so many at most."""
    return first([(one.priority, one.intervals) for one in shares], most)


def common(shares: Shares, others: Shares) -> Shares:
    """The positions that both have."""
    if not shares or not others:
        return ()
    return minus(shares, minus(shares, others))
