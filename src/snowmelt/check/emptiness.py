"""VWit: whether the queue can have been empty when a get found it so.

Value v is in the queue for certain between the return of its put and the call of its get. A get
that found nothing is wrong if and only if such segments together cover all of its own interval:
then at every instant at which it may have taken effect some value was there (the pattern VWit of
Henzinger, Sezgin and Vafeiadis, CONCUR 2013).

The segments are open: at its very ends a value may be not yet there, or no longer. So two of them
join only where they overlap, and an interval, being connected, is covered when one joined run of
segments holds it. Sort, join, and look up each empty get by bisection: O(n log n).
"""

from bisect import bisect_left

from snowmelt.check.history import Operation
from snowmelt.check.passage import Passage


def find_covered(
    passages: list[Passage], empty: list[Operation]
) -> tuple[Operation, list[Passage]] | None:
    """The first get that can't have found nothing, and the fewest values that cover it."""
    segments = sorted(
        (one for one in passages if one.put_returned < one.got_called),
        key=lambda one: one.put_returned,
    )
    starts, stops = _runs(segments)
    for get in empty:
        run = bisect_left(starts, get.called) - 1
        if run >= 0 and get.until < stops[run]:
            return get, _cover(segments, get)
    return None


def _runs(segments: list[Passage]) -> tuple[list[int], list[int]]:
    """The segments joined: where each run starts and where it stops."""
    starts: list[int] = []
    stops: list[int] = []
    for segment in segments:
        if starts and segment.put_returned < stops[-1]:
            stops[-1] = max(stops[-1], segment.got_called)
        else:
            starts.append(segment.put_returned)
            stops.append(segment.got_called)
    return starts, stops


def _cover(segments: list[Passage], get: Operation) -> list[Passage]:
    """Of a covering run, the fewest: always the segment that reaches furthest."""
    cover: list[Passage] = []
    reached, furthest = get.called, segments[0]
    for segment in segments:
        if segment.put_returned >= reached:
            cover.append(furthest)
            reached = furthest.got_called
            if reached > get.until:
                return cover
        if segment.got_called > furthest.got_called:
            furthest = segment
    return [*cover, furthest]
