"""A map from positions to values, kept by the piece; it knows which of its records have changed."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from typing import Generic, TypeVar

from snowmelt.core.interval import Interval

V = TypeVar("V")


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
        self.starts: list[int] = []
        """Where its pieces begin, in order. Nobody else changes it."""
        self._stops: list[int] = []
        self._values: list[V] = []

    def __iter__(self) -> Iterator[tuple[Interval, V]]:
        """Every piece, in order."""
        intervals = map(Interval, list(self.starts), list(self._stops))
        return zip(intervals, list(self._values), strict=True)

    @property
    def total(self) -> int:
        """How many positions have a value. O(pieces)."""
        return sum(self._stops) - sum(self.starts)

    def common(self, interval: Interval) -> list[tuple[Interval, V]]:
        """The parts of an interval that have values. O(log n + answer)."""
        if not self._stops or self._stops[-1] <= interval.start:  # it is empty, or this is new
            return []
        first = bisect_right(self._stops, interval.start)
        last = bisect_left(self.starts, interval.stop)
        if first >= last:
            return []
        if self.starts[first] <= interval.start and interval.stop <= self._stops[first]:
            return [(interval, self._values[first])] if interval.start < interval.stop else []
        return [
            (
                Interval(max(self.starts[at], interval.start), min(self._stops[at], interval.stop)),
                self._values[at],
            )
            for at in range(first, last)
        ]

    def at(self, start: int) -> tuple[Interval, V] | None:
        """The piece that begins there. O(log n)."""
        at = bisect_left(self.starts, start)
        if at == len(self.starts) or self.starts[at] != start:
            return None
        return Interval(start, self._stops[at]), self._values[at]

    def following(self, start: int) -> int | None:
        """Where the first piece begins that begins there or behind. O(log n)."""
        at = bisect_left(self.starts, start)
        return self.starts[at] if at < len(self.starts) else None

    def clear(self, interval: Interval) -> None:
        """These positions have no value any more. O(log n + n moved)."""
        start, stop = interval.start, interval.stop
        at = bisect_right(self._stops, start)
        if at == len(self.starts) or self.starts[at] >= stop or start == stop:
            return
        if self.starts[at] == start and self._stops[at] == stop:  # just one piece, as mostly
            del self.starts[at], self._stops[at], self._values[at]
            if self._changed is not None:
                self._changed[self._kind + start.to_bytes(8)] = None
            return
        if self._changed is None:
            self._clear(interval)
            return
        before = self._about(interval)
        self._clear(interval)
        self._mark(before, self._about(interval))

    def clear_all(self, some: Sequence[Interval]) -> None:
        """As `clear`, of many: what is behind those that are whole pieces is moved once."""
        starts, stops, values = self.starts, self._stops, self._values
        whole, kept = {one.start: one.stop for one in some}, list[tuple[int, int, V]]()
        first = bisect_left(starts, min(whole, default=0))
        last = max(first, bisect_right(starts, max(whole, default=-1)))
        for at in range(first, last):
            if whole.get(starts[at]) != stops[at]:
                kept.append((starts[at], stops[at], values[at]))
            elif self._changed is not None:
                self._changed[self._kind + starts[at].to_bytes(8)] = None
        self._replace(first, last, kept)
        for one in some:
            self.clear(one)

    def put_all(self, some: Sequence[tuple[Interval, V]]) -> None:
        """As `put`, of many, in order: what is behind all of them is moved once."""
        if some:
            first = bisect_left(self._stops, some[0][0].start)
            last = max(first, bisect_right(self.starts, some[-1][0].stop))
            here = Pieces[V](self._changed, self._kind)
            here.starts, here._stops = self.starts[first:last], self._stops[first:last]
            here._values = self._values[first:last]
            for where, value in some:
                here.put(where, value)
            self._replace(
                first, last, list(zip(here.starts, here._stops, here._values, strict=True))
            )

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

    def _append(self, interval: Interval, value: V) -> None:
        """Behind all that is there."""
        start = interval.start
        if start == interval.stop:
            return
        if self._stops and self._stops[-1] == start and self._values[-1] == value:
            start, self._stops[-1] = self.starts[-1], interval.stop
        else:
            self.starts.append(start)
            self._stops.append(interval.stop)
            self._values.append(value)
        if self._changed is not None:
            self._changed[self._kind + start.to_bytes(8)] = None

    def _about(self, interval: Interval) -> dict[int, tuple[int, V]]:
        """The pieces in an interval or beside it, by their starts."""
        first = bisect_left(self._stops, interval.start)
        last = bisect_right(self.starts, interval.stop)
        return {self.starts[at]: (self._stops[at], self._values[at]) for at in range(first, last)}

    def _mark(self, before: dict[int, tuple[int, V]], after: dict[int, tuple[int, V]]) -> None:
        """The records of the pieces that are not as they were are to be written."""
        for start in (*before, *after):
            if self._changed is not None and before.get(start) != after.get(start):
                self._changed[self._kind + start.to_bytes(8)] = None

    def _clear(self, interval: Interval) -> None:
        first = bisect_right(self._stops, interval.start)
        last = bisect_left(self.starts, interval.stop)
        if first >= last:
            return
        kept: list[tuple[int, int, V]] = []
        if self.starts[first] < interval.start:
            kept.append((self.starts[first], interval.start, self._values[first]))
        if self._stops[last - 1] > interval.stop:
            kept.append((interval.stop, self._stops[last - 1], self._values[last - 1]))
        self._replace(first, last, kept)

    def restore(self, interval: Interval, value: V) -> None:
        """As `put`, from a record: so none has changed."""
        if interval.size == 0:
            return
        self._clear(interval)
        at = bisect_left(self.starts, interval.start)
        first, last, start, stop = at, at, interval.start, interval.stop
        if at and self._stops[at - 1] == start and self._values[at - 1] == value:
            first, start = at - 1, self.starts[at - 1]
        if at < len(self.starts) and self.starts[at] == stop and self._values[at] == value:
            last, stop = at + 1, self._stops[at]
        self._replace(first, last, [(start, stop, value)])

    def _replace(self, first: int, last: int, pieces: list[tuple[int, int, V]]) -> None:
        self.starts[first:last] = [start for start, _, _ in pieces]
        self._stops[first:last] = [stop for _, stop, _ in pieces]
        self._values[first:last] = [value for _, _, value in pieces]
