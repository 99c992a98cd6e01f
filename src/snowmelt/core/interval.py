"""Half-open ranges of positions, and sets of them.

Positions are granted by interval: a batch of a thousand items costs one `Interval`, a lease on
half of it one more, and what has been acknowledged is an `IntervalSet` whose size is its number
of gaps, not of items.
"""

import itertools
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator
from operator import eq, lt
from typing import Annotated, Final, NewType, NoReturn

import msgspec

Position = NewType("Position", int)

POSITION_MAX: Final = (1 << 63) - 1
FEW: Final = 64
"""So many are removed one by one; each may move all that are behind it."""

_Edge = Annotated[int, msgspec.Meta(ge=0, le=POSITION_MAX)]
"""Where an interval that comes from outside may begin and end."""


def backwards(start: int, stop: int) -> ValueError:
    """What is said of edges that no stretch has."""
    return ValueError(f"an interval can't start at {start} and stop at {stop}")


class Interval(msgspec.Struct, frozen=True, order=True, array_like=True, gc=False):
    """The positions from `start` up to, not including, `stop`, as `range` has it.

    It has no truth value: whether an empty interval counts as false is a question that code
    should ask in words (`interval.size`).

    >>> grant = Interval(10, 15)
    >>> grant.size, 12 in grant, 15 in grant
    (5, True, False)
    """

    start: _Edge
    stop: _Edge

    def __post_init__(self) -> None:
        if self.start > self.stop:
            raise backwards(self.start, self.stop)

    def __bool__(self) -> NoReturn:
        raise TypeError("an interval has no truth value; ask for its size")

    def __contains__(self, position: int) -> bool:
        return self.start <= position < self.stop

    def __iter__(self) -> Iterator[Position]:
        return iter(range(self.start, self.stop))  # type: ignore[arg-type]  # each is a position

    def __str__(self) -> str:
        return f"[{self.start}, {self.stop})"

    @property
    def size(self) -> int:
        """How many positions it holds. O(1)."""
        return self.stop - self.start

    def split(self, count: int) -> tuple["Interval", "Interval"]:
        """Its first `count` positions (or all there are) and the rest. O(1).

        >>> Interval(0, 10).split(3)
        (Interval(start=0, stop=3), Interval(start=3, stop=10))
        """
        if count < 0:
            raise ValueError(f"can't split off {count} positions")
        middle = min(self.start + count, self.stop)
        return Interval(self.start, middle), Interval(middle, self.stop)

    def common(self, other: "Interval") -> "Interval":
        """The positions that both hold; empty when there are none. O(1).

        >>> Interval(0, 5).common(Interval(3, 9))
        Interval(start=3, stop=5)
        """
        start = max(self.start, other.start)
        return Interval(start, max(start, min(self.stop, other.stop)))


def merged(intervals: Collection[Interval]) -> list[Interval]:
    """The same positions as the fewest intervals, in order. O(k log k).

    >>> merged([Interval(5, 9), Interval(0, 3), Interval(2, 4), Interval(7, 7)])
    [Interval(start=0, stop=4), Interval(start=5, stop=9)]
    """
    if len(intervals) < 2:  # as mostly
        return [one for one in intervals if one.start < one.stop]
    starts, stops = [one.start for one in intervals], [one.stop for one in intervals]
    if all(map(lt, stops, starts[1:])) and all(map(lt, starts, stops)):  # they are so already
        return list(intervals)
    fewest: list[Interval] = []
    for interval in sorted([one for one in intervals if one.start < one.stop]):
        if fewest and interval.start <= fewest[-1].stop:
            fewest[-1] = Interval(fewest[-1].start, max(fewest[-1].stop, interval.stop))
        else:
            fewest.append(interval)
    return fewest


def first_positions(intervals: Iterable[Interval], count: int) -> list[Interval]:
    """The first so many positions of some intervals, or all there are. O(taken).

    >>> first_positions([Interval(0, 3), Interval(5, 8)], 4)
    [Interval(start=0, stop=3), Interval(start=5, stop=6)]
    """
    taken: list[Interval] = []
    for interval in intervals:
        if count == 0:
            break
        head, _ = interval.split(count)
        taken.append(head)
        count -= head.size
    return taken


class IntervalSet:
    """A set of positions, kept as its fewest intervals, in order.

    With n intervals held, finding is O(log n); a change is O(log n) plus the intervals that it
    joins or cuts, plus one move of the memory behind them. It has no truth value.

    >>> acknowledged = IntervalSet([Interval(0, 3), Interval(5, 8)])
    >>> acknowledged.add(Interval(3, 5))
    >>> acknowledged
    IntervalSet([0, 8))
    """

    __slots__ = ("_starts", "_stops", "total")

    def __init__(self, intervals: Iterable[Interval] = ()) -> None:
        self.total = 0
        """How many positions it holds. Nobody else sets it."""
        self._starts: list[int] = []
        self._stops: list[int] = []
        if intervals == ():
            return
        if isinstance(intervals, list | tuple) and len(intervals) == 1:  # as mostly
            one: Interval = intervals[0]
            self.total = one.stop - one.start
            if self.total:
                self._starts, self._stops = [one.start], [one.stop]
            return
        fewest = merged(intervals if isinstance(intervals, Collection) else list(intervals))
        self._starts = [one.start for one in fewest]
        self._stops = [one.stop for one in fewest]
        self.total = sum(self._stops) - sum(self._starts)

    def __bool__(self) -> NoReturn:
        raise TypeError("a set of intervals has no truth value; ask for its total")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, IntervalSet):
            return NotImplemented
        return self._starts == other._starts and self._stops == other._stops

    __hash__ = None  # type: ignore[assignment]  # it changes

    def __iter__(self) -> Iterator[Interval]:
        """Its intervals, in order, none touching another. O(n)."""
        return map(Interval, list(self._starts), list(self._stops))

    def __contains__(self, position: int) -> bool:
        """Whether it holds a position. O(log n)."""
        index = bisect_right(self._starts, position) - 1
        return index >= 0 and position < self._stops[index]

    def __repr__(self) -> str:
        return f"IntervalSet({', '.join(str(interval) for interval in self)})"

    @property
    def pieces(self) -> int:
        """How many intervals it takes to say so. O(1)."""
        return len(self._starts)

    @property
    def first(self) -> Interval:
        """Its first interval; there must be one. O(1).

        >>> IntervalSet([Interval(5, 8), Interval(0, 3)]).first
        Interval(start=0, stop=3)
        """
        return Interval(self._starts[0], self._stops[0])

    def covers(self, interval: Interval) -> bool:
        """Whether it holds every position of an interval. O(log n).

        >>> IntervalSet([Interval(0, 5)]).covers(Interval(4, 6))
        False
        """
        if interval.start == interval.stop:
            return True
        index = bisect_right(self._starts, interval.start) - 1
        return index >= 0 and interval.stop <= self._stops[index]

    def touches(self, interval: Interval) -> bool:
        """Whether it holds any position of an interval. O(log n).

        >>> IntervalSet([Interval(0, 3)]).touches(Interval(2, 6))
        True
        """
        at = bisect_right(self._stops, interval.start)
        return at < len(self._starts) and self._starts[at] < interval.stop

    def common(self, interval: Interval) -> list[Interval]:
        """The parts of an interval that it holds. O(log n + answer).

        >>> IntervalSet([Interval(0, 3), Interval(5, 8)]).common(Interval(2, 6))
        [Interval(start=2, stop=3), Interval(start=5, stop=6)]
        """
        start, stop = interval.start, interval.stop
        if start == stop:
            return []
        starts, stops = self._starts, self._stops
        first = bisect_right(stops, start)
        if first < len(starts) and starts[first] <= start and stop <= stops[first]:
            return [interval]  # it holds all of it, mostly
        last = bisect_left(starts, stop)
        return [Interval(max(starts[at], start), min(stops[at], stop)) for at in range(first, last)]

    def within(self, interval: Interval) -> Iterator[Interval]:
        """As `common`, one after another: for whoever may stop early. O(log n), and one each.

        >>> next(IntervalSet([Interval(0, 3), Interval(5, 8)]).within(Interval(2, 6)))
        Interval(start=2, stop=3)
        """
        index = bisect_right(self._stops, interval.start)
        while index < len(self._starts) and self._starts[index] < interval.stop:
            start, stop = self._starts[index], self._stops[index]
            start = interval.start if start < interval.start else start
            yield Interval(start, stop if stop < interval.stop else interval.stop)
            index += 1

    def add(self, interval: Interval) -> None:
        """Holds these positions too; those it held are no harm. O(log n + joined)."""
        start, stop = interval.start, interval.stop
        starts, stops, held = self._starts, self._stops, 0
        if stops and stops[-1] == start:  # as positions and numbers mostly come
            stops[-1] = stop
            self.total += stop - start
            return
        if start == stop:
            return
        if not stops or stops[-1] < start:
            starts.append(start)
            stops.append(stop)
            self.total += stop - start
            return
        # Every interval that overlaps or touches becomes one with the new one.
        first, last = bisect_left(stops, start), bisect_right(starts, stop)
        if first < last:
            held = sum(stops[first:last]) - sum(starts[first:last])
            start, stop = min(start, starts[first]), max(stop, stops[last - 1])
        starts[first:last] = [start]
        stops[first:last] = [stop]
        self.total += stop - start - held

    def add_all(self, intervals: Iterable[Interval]) -> None:
        """Holds all of these too, of which there may be many. O(log n), and all between them.

        >>> held = IntervalSet([Interval(2, 4), Interval(8, 9)])
        >>> held.add_all([Interval(9, 10), Interval(0, 2)])
        >>> held
        IntervalSet([0, 4), [8, 10))
        """
        fewest = merged(intervals if isinstance(intervals, Collection) else list(intervals))
        if fewest:
            first = bisect_left(self._stops, fewest[0].start)
            last = max(first, bisect_right(self._starts, fewest[-1].stop))
            here = map(Interval, self._starts[first:last], self._stops[first:last])
            self._put_between(first, last, merged([*here, *fewest]))

    def _put_between(self, first: int, last: int, some: list[Interval]) -> None:
        """These stand in place of what stood there: what is behind is moved once."""
        starts, stops = self._starts, self._stops
        self.total += sum([one.stop - one.start for one in some])
        self.total -= sum(stops[first:last]) - sum(starts[first:last])
        starts[first:last] = [one.start for one in some]
        stops[first:last] = [one.stop for one in some]

    def remove(self, interval: Interval) -> None:
        """Holds none of these positions any more. O(log n + cut).

        >>> backlog = IntervalSet([Interval(0, 10)])
        >>> backlog.remove(Interval(4, 6))
        >>> backlog
        IntervalSet([0, 4), [6, 10))
        """
        start, stop = interval.start, interval.stop
        starts, stops = self._starts, self._stops
        if start == stop or not starts:
            return
        first, last = bisect_right(stops, start), bisect_left(starts, stop)
        if first >= last:
            return
        left, right = starts[first], stops[last - 1]
        if start <= left and last - first == 1:  # from the front, mostly
            if stop < right:
                starts[first] = stop
                self.total -= stop - left
            else:
                del starts[first], stops[first]
                self.total -= right - left
            return
        held = sum(stops[first:last]) - sum(starts[first:last])
        kept_starts, kept_stops = [], []
        if left < start:
            kept_starts.append(left)
            kept_stops.append(start)
        if stop < right:
            kept_starts.append(stop)
            kept_stops.append(right)
        starts[first:last] = kept_starts
        stops[first:last] = kept_stops
        self.total += sum(kept_stops) - sum(kept_starts) - held

    def remove_all(self, intervals: Collection[Interval]) -> None:
        """Holds none of these any more, of which there may be many. O(m log n + cut).

        >>> backlog = IntervalSet([Interval(0, 10), Interval(20, 30)])
        >>> backlog.remove_all([Interval(0, 2), Interval(20, 24), Interval(26, 28)])
        >>> backlog
        IntervalSet([2, 10), [24, 26), [28, 30))
        """
        starts, stops = self._starts, self._stops
        if len(starts) > 1 and len(intervals) == len(starts):
            same = all(map(eq, starts, [one.start for one in intervals]))
            if same and all(map(eq, stops, [one.stop for one in intervals])):  # all of it
                self._starts, self._stops, self.total = [], [], 0
                return
        some = list(intervals)
        gone = merged(some) if some[FEW:] else []
        if gone:
            first = bisect_right(stops, gone[0].start)
            last = max(first, bisect_left(starts, gone[-1].stop))
            here = list(map(Interval, starts[first:last], stops[first:last]))
            self._put_between(first, last, _between(here, gone))
            return
        for one in reversed(some):
            at = bisect_right(stops, one.start)
            if at < len(starts) and starts[at] == one.start and one.stop < stops[at]:
                starts[at] = one.stop  # from the front, mostly
                self.total -= one.stop - one.start
            else:
                self.remove(one)

    def take(self, count: int) -> list[Interval]:
        """Removes and returns its first `count` positions, or all there are. O(taken + n).

        >>> backlog = IntervalSet([Interval(0, 3), Interval(5, 8)])
        >>> backlog.take(4), backlog
        ([Interval(start=0, stop=3), Interval(start=5, stop=6)], IntervalSet([6, 8)))
        """
        if count < 0:
            raise ValueError(f"can't take {count} positions")
        taken = first_positions(self, count)
        if taken:
            self.remove(Interval(taken[0].start, taken[-1].stop))
        return taken

    def check(self) -> None:
        """Asserts that it is sorted, that nothing touches, and that the total is right. O(n)."""
        assert len(self._starts) == len(self._stops)
        edges = [edge for pair in zip(self._starts, self._stops, strict=True) for edge in pair]
        assert all(low < high for low, high in itertools.pairwise(edges)), edges
        assert self.total == sum(self._stops) - sum(self._starts)


def without(some: Iterable[Interval], others: Collection[Interval]) -> tuple[Interval, ...]:
    """What is in some of these and in none of those.

    >>> without([Interval(0, 9)], [Interval(2, 9)])
    (Interval(start=0, stop=2),)
    """
    left = IntervalSet(some)
    left.remove_all(others)
    return tuple(left)


def _between(some: list[Interval], gone: list[Interval]) -> list[Interval]:
    """What of these is not gone; both are in order."""
    left, at = list[Interval](), 0
    for one in some:
        start, stop = one.start, one.stop
        while at < len(gone) and gone[at].stop <= start:
            at += 1
        while at < len(gone) and gone[at].start < stop:
            hole = gone[at]
            if start < hole.start:
                left.append(Interval(start, hole.start))
            start = hole.stop
            if start >= stop:
                break
            at += 1
        if start < stop:
            left.append(Interval(start, stop))
    return left
