"""VWit: whether the queue can have been empty when a get found it so.

A value is in the queue for certain from the latest instant of its put to the call of its get. A get
that found nothing is wrong if and only if such segments together cover all of its own interval:
then at every instant at which it may have taken effect some value was there (the pattern VWit of
Henzinger, Sezgin and Vafeiadis, CONCUR 2013).

The segments are open: at its very ends a value may be not yet there, or no longer. So two of them
join only where they overlap, and an interval, being connected, is covered when one joined run of
segments holds it. Sort, join, and look up each empty get by bisection: O(n log n).
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import accumulate
from operator import attrgetter
from typing import Protocol, TypeVar

import msgspec


class Segment(msgspec.Struct, frozen=True, order=True, gc=False):
    """Between these instants, themselves not included, the value at `index` is in the queue."""

    start: int
    stop: int
    index: int


class Look(Protocol):
    """A get that found nothing."""

    @property
    def called(self) -> int: ...
    @property
    def until(self) -> int: ...


AnyLook = TypeVar("AnyLook", bound=Look)


def find_covered(
    segments: Iterable[Segment], empty: Sequence[AnyLook]
) -> tuple[AnyLook, list[Segment]] | None:
    """The first get that can't have found nothing, and the fewest segments that cover it.

    >>> from snowmelt_world.check.history import Kind, Operation
    >>> find_covered([Segment(1, 6, 0), Segment(5, 9, 1)], [Operation("p", Kind.GET, (), 4, 7)])
    (p get nothing [4, 7], [Segment(start=1, stop=6, index=0), Segment(start=5, stop=9, index=1)])
    >>> find_covered([Segment(1, 5, 0), Segment(5, 9, 1)], [Operation("p", Kind.GET, (), 4, 7)])
    """
    segments = sorted(_near(segments, empty))
    starts, stops = _runs(segments)
    for get in empty:
        run = bisect_left(starts, get.called) - 1
        if run >= 0 and get.until < stops[run]:
            return get, _cover(segments, get)
    return None


def _near(segments: Iterable[Segment], empty: Sequence[Look]) -> Iterable[Segment]:
    """Those that a get may have seen; of a long history few are."""
    looks = sorted(empty, key=attrgetter("called"))
    calls = [look.called for look in looks]
    last = list(accumulate((look.until for look in looks), max))
    for one in segments:
        before = bisect_left(calls, one.stop)
        if one.start < one.stop and before and last[before - 1] > one.start:
            yield one


def _runs(segments: list[Segment]) -> tuple[list[int], list[int]]:
    """The segments joined: where each run starts and where it stops."""
    starts: list[int] = []
    stops: list[int] = []
    for segment in segments:
        if starts and segment.start < stops[-1]:
            stops[-1] = max(stops[-1], segment.stop)
        else:
            starts.append(segment.start)
            stops.append(segment.stop)
    return starts, stops


def _cover(segments: list[Segment], get: Look) -> list[Segment]:
    """Of a covering run, the fewest: always the segment that reaches furthest."""
    cover: list[Segment] = []
    reached, furthest = get.called, segments[0]
    for segment in segments:
        if segment.start >= reached:
            cover.append(furthest)
            reached = furthest.stop
            if reached > get.until:
                return cover
        if segment.stop > furthest.stop:
            furthest = segment
    return [*cover, furthest]
