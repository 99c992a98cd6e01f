"""The measure: how far each item has to be moved. See the package for why this one."""

from collections.abc import Sequence

import msgspec


class Distance(msgspec.Struct, frozen=True):
    """In places: the mean over items, the share of items that move at all, and the extremes.

    `late_max` is how many places the latest item came too late. A client that hands items on in
    order has to hold back just so many: while it waits for the oldest one missing, rank r, which
    comes at index i, it has handed on r and holds i - r.
    """

    mean: float
    moved: float
    p99: int
    late_max: int


def distance(indices: Sequence[int]) -> Distance:
    """How far items stand from their ranks; `indices` says where each rank stands. O(n log n).

    >>> distance([0, 3, 1, 2, 4])  # the item of rank 1 came two places late
    Distance(mean=0.8, moved=0.6, p99=2, late_max=2)
    """
    shifts = [index - rank for rank, index in enumerate(indices)]
    sizes = sorted(abs(shift) for shift in shifts)
    return Distance(
        mean=sum(sizes) / len(sizes),
        moved=sum(size > 0 for size in sizes) / len(sizes),
        p99=sizes[(len(sizes) * 99 - 1) // 100],
        late_max=max(0, *shifts) if len(shifts) > 1 else max(0, shifts[0]),
    )
