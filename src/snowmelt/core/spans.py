"""Where some stretches of positions begin and end, in a row of bytes: eight for each edge."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from functools import lru_cache
from itertools import accumulate, chain
from operator import sub
from struct import Struct, pack, unpack
from typing import Final

from snowmelt.core.interval import POSITION_MAX, Interval

_SPAN: Final = Struct("<2q")
SPAN_BYTES: Final = _SPAN.size


def spans(starts: Iterable[int], stops: Iterable[int]) -> bytes:
    """Of stretches in order, none touching another.

    >>> stretches(spans([4, 9], [6, 10]))
    (Interval(start=4, stop=6), Interval(start=9, stop=10))
    """
    edges = list(chain.from_iterable(zip(starts, stops, strict=True)))
    return pack(f"<{len(edges)}q", *edges)


def steps(some: Iterable[Interval]) -> list[int]:
    """Of stretches in order: from the end of the one before to each, and how long it is.

    What lies far apart takes some four bytes a stretch as msgpack, where `spans` take sixteen.

    >>> stepped(steps([Interval(4, 6), Interval(9, 10)])), steps([Interval(4, 6), Interval(9, 10)])
    ([Interval(start=4, stop=6), Interval(start=9, stop=10)], [4, 2, 3, 1])
    """
    found: list[int] = []
    at = 0
    for one in some:
        found += (one.start - at, one.stop - one.start)
        at = one.stop
    return found


def stepped(row: Iterable[int]) -> list[Interval]:
    """The stretches; raises `ValueError` for what can be none."""
    edges = list(accumulate(row))
    if edges != sorted(edges) or (edges and not 0 <= edges[0] <= edges[-1] <= POSITION_MAX):
        raise ValueError("stretches that are not one behind the other")
    return list(map(Interval, edges[::2], edges[1::2]))


def edges_of(row: bytes) -> tuple[int, ...]:
    """One behind the other: a start, its stop, the next start."""
    return unpack(f"<{len(row) // 8}q", row)


def stretches(row: bytes) -> tuple[Interval, ...]:
    """The stretches."""
    return tuple([Interval(start, stop) for start, stop in _SPAN.iter_unpack(row)])


def places(row: bytes) -> list[int]:
    """Each position, in order.

    >>> places(spans([4, 9], [6, 10]))
    [4, 5, 9]
    """
    edges = edges_of(row)
    return list(chain.from_iterable(map(range, edges[::2], edges[1::2])))


def index_of(row: bytes, place: int) -> int:
    """Which of all positions one is; it is one of them. O(log stretches), after one look.

    >>> index_of(spans([4, 9], [6, 10]), 9)
    2
    """
    starts, firsts = _indexed(row)
    at = bisect_right(starts, place) - 1
    return firsts[at] + place - starts[at]


def part(row: bytes, first: int, stop: int) -> bytes:
    """Of some of the positions, by their indexes; one at least.

    >>> stretches(part(spans([4, 9], [6, 12]), 1, 4))
    (Interval(start=5, stop=6), Interval(start=9, stop=11))
    """
    starts, firsts = _indexed(row)
    edges = edges_of(row)
    low, high = bisect_right(firsts, first) - 1, bisect_left(firsts, stop)
    some = [starts[low] + first - firsts[low], *edges[2 * low + 1 : 2 * high]]
    some[-1] = starts[high - 1] + stop - firsts[high - 1]
    return pack(f"<{len(some)}q", *some)


# Items of a part ask one by one, and many callers are dealt what came in one.
@lru_cache(maxsize=16)
def _indexed(row: bytes) -> tuple[tuple[int, ...], list[int]]:
    """Where the stretches begin, and the index of the first of each."""
    edges = edges_of(row)
    sizes = map(sub, edges[1::2], edges[::2])
    return edges[::2], list(accumulate(sizes, initial=0))[:-1]
