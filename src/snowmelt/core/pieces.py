"""A map from positions to values, kept by the piece; it knows which of its records have changed."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import count, islice, repeat
from operator import eq, le, lt, sub
from typing import Final, Generic, NamedTuple, TypeVar

from snowmelt.core.interval import Interval

V = TypeVar("V")

SPARSE: Final = 8
"""Where so many pieces lie between each two of some intervals, each is looked for alone."""


class Edges(NamedTuple):
    """Where many intervals begin and end, so that all of them are asked after at C's speed."""

    starts: list[int]
    stops: list[int]

    @staticmethod
    def of(intervals: Sequence[Interval]) -> "Edges | None":
        """Of intervals in order that don't touch, none of them empty; None for others. O(n).

        They are not to be changed: whoever asks for those of the same intervals next is given them.

        >>> Edges.of([Interval(0, 3), Interval(5, 8)])
        Edges(starts=[0, 5], stops=[3, 8])
        >>> Edges.of([Interval(5, 8), Interval(0, 3)]), Edges.of([Interval(2, 2)])
        (None, None)
        """
        if not isinstance(intervals, tuple):
            return _edges(intervals)
        for known, edges in _KNOWN:
            if known is intervals:
                return edges
        edges = _edges(intervals)
        _KNOWN[next(_NEXT) % len(_KNOWN)] = intervals, edges
        return edges

    @staticmethod
    def joined(starts: list[int], stops: list[int]) -> "Edges":
        """Of intervals in any order, none of which is in another: those that touch are one.

        >>> Edges.joined([5, 0, 8], [8, 3, 9])
        Edges(starts=[0, 5], stops=[3, 9])
        """
        starts, stops = sorted(starts), sorted(stops)
        inner = set(starts).intersection(stops)
        if inner:
            starts = [one for one in starts if one not in inner]
            stops = [one for one in stops if one not in inner]
        return Edges(starts, stops)


# What a lease has in hundreds of stretches is looked at a dozen times on its way: the last ones.
_KNOWN: Final[list[tuple[tuple[Interval, ...] | None, Edges | None]]] = [(None, None)] * 8
_NEXT: Final = count()


def _edges(intervals: Sequence[Interval]) -> Edges | None:
    starts, stops = [one.start for one in intervals], [one.stop for one in intervals]
    apart = all(map(lt, stops, islice(starts, 1, None)))
    return Edges(starts, stops) if apart and all(map(lt, starts, stops)) else None


class Pieces(Generic[V]):
    """Values over disjoint intervals; neighbours of one value become one.

    >>> due = Pieces()
    >>> due.put(Interval(0, 10), "soon")
    >>> due.put(Interval(4, 6), "late")
    >>> [(str(where), value) for where, value in due.common(Interval(3, 8))]
    [('[3, 4)', 'soon'), ('[4, 6)', 'late'), ('[6, 8)', 'soon')]
    """

    def __init__(self, changed: dict[bytes, None] | None = None, kind: bytes = b"") -> None:
        self._changed = changed
        self._kind = kind
        """The first byte of a record's key; the start of its piece follows."""
        self._starts: list[int] = []
        self._stops: list[int] = []
        self._values: list[V] = []

    def __iter__(self) -> Iterator[tuple[Interval, V]]:
        """Every piece, in order."""
        intervals = map(Interval, list(self._starts), list(self._stops))
        return zip(intervals, list(self._values), strict=True)

    @property
    def count(self) -> int:
        """How many pieces there are. O(1)."""
        return len(self._starts)

    @property
    def total(self) -> int:
        """How many positions have a value. O(pieces)."""
        return sum(self._stops) - sum(self._starts)

    def common(self, interval: Interval) -> list[tuple[Interval, V]]:
        """The parts of an interval that have values. O(log n + answer)."""
        if not self._stops or self._stops[-1] <= interval.start:  # it is empty, or this is new
            return []
        first = bisect_right(self._stops, interval.start)
        last = bisect_left(self._starts, interval.stop)
        if first >= last:
            return []
        if self._starts[first] <= interval.start and interval.stop <= self._stops[first]:
            return [(interval, self._values[first])] if interval.start < interval.stop else []
        return [
            (
                Interval(
                    max(self._starts[at], interval.start), min(self._stops[at], interval.stop)
                ),
                self._values[at],
            )
            for at in range(first, last)
        ]

    def covers(self, interval: Interval) -> bool:
        """Whether one piece has all of an interval. O(log n)."""
        at = bisect_right(self._stops, interval.start)
        return (
            at < len(self._starts)
            and self._starts[at] <= interval.start
            and interval.stop <= self._stops[at]
        )

    def vacant(self, edges: Edges) -> bool:
        """Whether nothing of some intervals has a value. O(k + those between them, or k log n)."""
        if not (self._starts and edges.starts):
            return True
        low = bisect_right(self._stops, edges.starts[0])
        high = bisect_left(self._starts, edges.stops[-1])
        if low >= high:
            return True
        if high - low > SPARSE * len(edges.starts):
            first = map(bisect_right, repeat(self._stops), edges.starts)
            return all(map(eq, first, map(bisect_left, repeat(self._starts), edges.stops)))
        # Each begins when the one before it has ended; two sorted rows are one at C's speed.
        starts = sorted(self._starts[low:high] + edges.starts)
        stops = sorted(self._stops[low:high] + edges.stops)
        return all(map(le, stops, islice(starts, 1, None)))

    def owners(self, edges: Edges) -> list[V] | None:
        """The value of each of some intervals; None unless one piece has all of each. O(k log n).

        >>> due = Pieces()
        >>> due.put(Interval(0, 10), "soon"); due.put(Interval(10, 12), "late")
        >>> due.owners(Edges([1, 10], [3, 11])), due.owners(Edges([9], [11]))
        (['soon', 'late'], None)
        """
        at = list(map(bisect_right, repeat(self._stops), edges.starts))
        if not at or at[-1] == len(self._starts):
            return None
        begun = all(map(le, map(self._starts.__getitem__, at), edges.starts))
        if begun and all(map(le, edges.stops, map(self._stops.__getitem__, at))):
            return list(map(self._values.__getitem__, at))
        return None

    def parts(self, edges: Edges) -> list[tuple[int, int, V]] | None:
        """From where to where which value goes in some intervals; None unless all of them have one.

        >>> due = Pieces()
        >>> due.put(Interval(0, 10), "soon"); due.put(Interval(10, 12), "late")
        >>> due.parts(Edges([1, 9], [3, 11])), due.parts(Edges([11], [13]))
        ([(1, 3, 'soon'), (9, 10, 'soon'), (10, 11, 'late')], None)
        """
        values = self.owners(edges)
        if values is not None:  # as mostly
            return list(zip(edges.starts, edges.stops, values, strict=True))
        found: list[tuple[int, int, V]] = []
        for start, stop in zip(edges.starts, edges.stops, strict=True):
            there = self.common(Interval(start, stop))
            if sum([part.size for part, _ in there]) < stop - start:
                return None
            found += [(part.start, part.stop, value) for part, value in there]
        return found

    def at(self, start: int) -> tuple[Interval, V] | None:
        """The piece that begins there. O(log n)."""
        at = bisect_left(self._starts, start)
        if at == len(self._starts) or self._starts[at] != start:
            return None
        return Interval(start, self._stops[at]), self._values[at]

    def following(self, start: int) -> int | None:
        """Where the first piece begins that begins there or behind. O(log n)."""
        at = bisect_left(self._starts, start)
        return self._starts[at] if at < len(self._starts) else None

    def clear(self, interval: Interval) -> None:
        """These positions have no value any more. O(log n + n moved)."""
        start, stop = interval.start, interval.stop
        at = bisect_right(self._stops, start)
        if at == len(self._starts) or self._starts[at] >= stop or start == stop:
            return
        if self._starts[at] == start and self._stops[at] == stop:  # just one piece, as mostly
            del self._starts[at], self._stops[at], self._values[at]
            if self._changed is not None:
                self._changed[self._kind + start.to_bytes(8)] = None
            return
        if self._changed is None:
            self._clear(interval)
            return
        before = self._about(interval)
        self._clear(interval)
        self._mark(before, self._about(interval))

    def put(self, interval: Interval, value: V) -> None:
        """These positions have this value from now on. O(log n + n moved)."""
        if not self._stops or self._stops[-1] <= interval.start:  # as positions mostly come
            self._append(interval, value)
            return
        if self._changed is None:
            self.restore(interval, value)
            return
        before = self._about(interval)
        self.restore(interval, value)
        self._mark(before, self._about(interval))

    def fill(self, edges: Edges, value: V) -> list[int]:
        """These intervals, of which nothing has a value, have this one; records are the caller's.

        Where pieces begin, or began, that are not as they were. O(k log n + n moved).

        >>> gone = Pieces()
        >>> gone.put(Interval(0, 3), "gone"); gone.fill(Edges([3, 8], [5, 9]), "gone")
        [0, 8]
        >>> [str(where) for where, _ in gone]
        ['[0, 5)', '[8, 9)']
        """
        starts, stops, values = self._starts, self._stops, self._values
        touched: list[int] = []
        for start, stop in zip(edges.starts, edges.stops, strict=True):
            at = bisect_left(starts, start)
            behind = at < len(starts) and starts[at] == stop and values[at] == value
            if at and stops[at - 1] == start and values[at - 1] == value:
                touched.append(starts[at - 1])
                stops[at - 1] = stops[at] if behind else stop
                if behind:
                    touched.append(stop)
                    del starts[at], stops[at], values[at]
            elif behind:
                touched += (start, stop)
                starts[at] = start
            else:
                touched.append(start)
                starts.insert(at, start)
                stops.insert(at, stop)
                values.insert(at, value)
        return touched

    def take(self, edges: Edges) -> list[tuple[V, int]]:
        """These intervals have no value any more: what they had, and how many of each; no records.

        >>> here = Pieces()
        >>> here.put(Interval(0, 10), "one"); here.put(Interval(10, 12), "two")
        >>> here.take(Edges([0, 9], [3, 11])), [str(where) for where, _ in here]
        ([('one', 3), ('one', 1), ('two', 1)], ['[3, 9)', '[11, 12)'])
        """
        starts, stops, values = self._starts, self._stops, self._values
        if starts == edges.starts and stops == edges.stops:  # all there are
            sizes = map(sub, stops, starts)
            self._starts, self._stops, self._values = [], [], []
            return list(zip(values, sizes, strict=True))
        taken: list[tuple[V, int]] = []
        for start, stop in zip(edges.starts, edges.stops, strict=True):
            at = bisect_right(stops, start)
            if at < len(starts) and starts[at] == start and stop <= stops[at]:  # its first ones
                taken.append((values[at], stop - start))
                if stop < stops[at]:
                    starts[at] = stop
                else:
                    del starts[at], stops[at], values[at]
                continue
            interval = Interval(start, stop)
            taken += [(value, where.size) for where, value in self.common(interval)]
            self._clear(interval)
        return taken

    def _append(self, interval: Interval, value: V) -> None:
        """Behind all that is there."""
        start = interval.start
        if start == interval.stop:
            return
        if self._stops and self._stops[-1] == start and self._values[-1] == value:
            start, self._stops[-1] = self._starts[-1], interval.stop
        else:
            self._starts.append(start)
            self._stops.append(interval.stop)
            self._values.append(value)
        if self._changed is not None:
            self._changed[self._kind + start.to_bytes(8)] = None

    def _about(self, interval: Interval) -> dict[int, tuple[int, V]]:
        """The pieces in an interval or beside it, by their starts."""
        first = bisect_left(self._stops, interval.start)
        last = bisect_right(self._starts, interval.stop)
        return {self._starts[at]: (self._stops[at], self._values[at]) for at in range(first, last)}

    def _mark(self, before: dict[int, tuple[int, V]], after: dict[int, tuple[int, V]]) -> None:
        """The records of the pieces that are not as they were are to be written."""
        for start in (*before, *after):
            if self._changed is not None and before.get(start) != after.get(start):
                self._changed[self._kind + start.to_bytes(8)] = None

    def _clear(self, interval: Interval) -> None:
        first = bisect_right(self._stops, interval.start)
        last = bisect_left(self._starts, interval.stop)
        if first >= last:
            return
        kept: list[tuple[int, int, V]] = []
        if self._starts[first] < interval.start:
            kept.append((self._starts[first], interval.start, self._values[first]))
        if self._stops[last - 1] > interval.stop:
            kept.append((interval.stop, self._stops[last - 1], self._values[last - 1]))
        self._replace(first, last, kept)

    def restore(self, interval: Interval, value: V) -> None:
        """As `put`, from a record: so none has changed."""
        if interval.size == 0:
            return
        self._clear(interval)
        at = bisect_left(self._starts, interval.start)
        first, last, start, stop = at, at, interval.start, interval.stop
        if at and self._stops[at - 1] == start and self._values[at - 1] == value:
            first, start = at - 1, self._starts[at - 1]
        if at < len(self._starts) and self._starts[at] == stop and self._values[at] == value:
            last, stop = at + 1, self._stops[at]
        self._replace(first, last, [(start, stop, value)])

    def _replace(self, first: int, last: int, pieces: list[tuple[int, int, V]]) -> None:
        self._starts[first:last] = [start for start, _, _ in pieces]
        self._stops[first:last] = [stop for _, stop, _ in pieces]
        self._values[first:last] = [value for _, _, value in pieces]
