"""Where a queue's items lie: runs of positions, in lanes of a few streams, each on its keepers.

Items that are put one by one through several nodes come into the queue in turns: one of this
stream, two of that. So a run has a *lane* for each stream, which is a row of its indexes without a
gap, and *strips*, which say how the lanes take turns. A strip is what one put brought, or what
several in a row brought whose items are all of one size; it costs some bytes in four columns, in
memory as in the journal. So the size of whatever is taken or settled is known exactly, and a
million single puts are some thousand runs.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from itertools import accumulate
from operator import sub
from typing import Final

import msgspec

from snowmelt.core.interval import Interval, IntervalSet
from snowmelt.protocols.fifo.limits import LIMITS, Limits
from snowmelt.protocols.fifo.messages import Extent

NOWHERE: Final = 255
"""The lane of positions that lie in no stream: their items were never stored after all."""


class Lane(msgspec.Struct, gc=False):
    """Items of one stream, from index `first` on, which are on the same keepers."""

    stream: str
    first: int
    count: int
    bytes: int
    keepers: tuple[str, ...]
    living: int = 0
    """How many of them are not settled."""

    @property
    def stop(self) -> int:
        """Behind its last index."""
        return self.first + self.count


class Strip(msgspec.Struct, frozen=True):
    """Adjacent positions of one lane, which are adjacent in its stream as well."""

    start: int
    stop: int
    lane: Lane
    first: int
    """The stream's index of the first of them."""
    bytes: int

    def size(self, part: Interval) -> int:
        return self.bytes * part.size // (self.stop - self.start)


class Columns(msgspec.Struct, frozen=True, array_like=True):
    """A run as it stands in a record: its lanes, and for each strip its lane, count and bytes."""

    lanes: tuple[tuple[str, int, tuple[str, ...]], ...]
    whose: bytes
    counts: bytes
    sizes: bytes


class Run:
    """Positions from `start` on, and where each lies."""

    __slots__ = (
        "_begins",
        "_columns",
        "_offsets",
        "_sizes",
        "_whose",
        "bytes",
        "closed",
        "count",
        "dropped",
        "held",
        "lanes",
        "start",
    )

    def __init__(self, start: int) -> None:
        self.start = start
        self.count = 0
        self.bytes = 0
        self.held = 0
        """The bytes of the strips in which an item lives."""
        self.lanes: list[Lane] = []
        self.dropped = 0
        """So many at the front are settled, and their keepers were told to drop them."""
        self.closed = False
        """Whether it may not grow any more."""
        self._whose = bytearray()
        self._begins = array("I")  # of each strip, from `start`
        self._offsets = array("I")  # of each strip, from its lane's first index
        self._sizes = array("I")
        self._columns: Columns | None = None
        """As it was written down last, while that is how it is."""

    @property
    def interval(self) -> Interval:
        return Interval(self.start, self.start + self.count)

    def part(self, interval: Interval) -> Interval:
        """What of an interval it holds; most lie in one run."""
        if self.start <= interval.start and interval.stop <= self.start + self.count:
            return interval
        return interval.common(self.interval)

    @property
    def stop(self) -> int:
        """Behind its last position."""
        return self.start + self.count

    # --- taking in --------------------------------------------------------------------------------

    def takes(self, start: int, put: Lane, limits: Limits) -> bool:
        """Whether what was put goes on where this one ends."""
        return (
            not self.closed
            and self.stop == start
            and self.count + put.count <= limits.run_items
            and self.bytes + put.bytes <= limits.run_bytes
            and len(self._whose) < limits.run_strips
            and (len(self.lanes) < limits.run_lanes or self._going_on(put) is not None)
        )

    def _going_on(self, put: Lane) -> int | None:
        for at, lane in enumerate(self.lanes):
            if lane.stream == put.stream and lane.stop == put.first and lane.keepers == put.keepers:
                return at
        return None

    def take(self, put: Lane, *, merge: bool) -> None:
        """Takes items in at the end; with `merge` they may be of one strip with those before."""
        self._columns = None
        at = self._going_on(put)
        if at is None:
            at = len(self.lanes)
            self.lanes.append(Lane(put.stream, put.first, 0, 0, put.keepers))
        lane = self.lanes[at]
        if merge and self._whose and self._whose[-1] == at and self._even(put):
            self._sizes[-1] += put.bytes
        else:
            self._whose.append(at)
            self._begins.append(self.count)
            self._offsets.append(lane.count)
            self._sizes.append(put.bytes)
        lane.count += put.count
        lane.bytes += put.bytes
        lane.living += put.count
        self.count += put.count
        self.bytes += put.bytes
        self.held += put.bytes

    def _even(self, put: Lane) -> bool:
        """Whether its items are as large as those of the last strip."""
        return self._sizes[-1] * put.count == put.bytes * (self.count - self._begins[-1])

    def void(self, part: Interval) -> None:
        """Takes a put out of its lane, if it is the last there: its positions lie nowhere."""
        at = self._holding(part.start)
        begin, lane = self._begins[at], self.lanes[self._whose[at]]
        count = self._end(at) - begin
        if self._offsets[at] + count != lane.count or part.stop != self.start + begin + count:
            return
        self._columns = None
        share = self._sizes[at] * part.size // count
        self._sizes[at] -= share
        lane.count -= part.size
        lane.bytes -= share
        lane.living -= part.size
        self.bytes -= share
        self.held -= share
        if part.stop == self.stop:
            self.count -= part.size
            if part.size == count:
                for column in (self._whose, self._begins, self._offsets, self._sizes):
                    column.pop()
        elif part.size == count:
            self._whose[at] = NOWHERE
        else:
            self._whose.insert(at + 1, NOWHERE)
            self._begins.insert(at + 1, part.start - self.start)
            self._offsets.insert(at + 1, 0)
            self._sizes.insert(at + 1, 0)

    # --- looking ----------------------------------------------------------------------------------

    def _end(self, at: int) -> int:
        return self._begins[at + 1] if at + 1 < len(self._begins) else self.count

    def _holding(self, position: int) -> int:
        return bisect_right(self._begins, position - self.start) - 1

    def strips(self, part: Interval) -> Iterator[Strip]:
        """Where some of its positions lie; neighbours in one lane are one. O(log n + answer)."""
        base, begins, lanes = self.start, self._begins, self._whose
        position, stop = max(part.start - base, 0), min(part.stop - base, self.count)
        at = bisect_right(begins, position) - 1
        while position < stop:
            start, whose, size = position, lanes[at], 0
            offset = self._offsets[at] + position - begins[at]
            while position < stop and lanes[at] == whose:
                begin, end = begins[at], self._end(at)
                high = min(end, stop)
                size += self._sizes[at] * (high - position) // (end - begin)
                position, at = high, at + 1
            if whose != NOWHERE:
                lane = self.lanes[whose]
                yield Strip(base + start, base + position, lane, lane.first + offset, size)

    def fitting(
        self, head: Interval, items: int, size: int, strips: int, least: int
    ) -> tuple[int, int, int]:
        """How many of some positions fit into a number of items, of bytes and of strips.

        At least so many as are said, whatever their size. With them come their bytes and strips.
        """
        count = taken = used = 0
        begins, position = self._begins, head.start - self.start
        at, stop = bisect_right(begins, position) - 1, min(head.stop - self.start, self.count)
        while position < stop and used < strips:
            end = self._end(at)
            each = self._sizes[at] // (end - begins[at]) or 1
            end = min(stop, end)
            fit = min(items - count, end - position, max(least - count, (size - taken) // each))
            if fit <= 0:
                break
            count += fit
            taken += fit * each
            used += 1
            if position + fit < end:
                break
            position, at = end, at + 1
        return count, taken, used

    def where(self, lane: int, first: int, stop: int) -> list[Interval]:
        """The positions of a lane's indexes from one up to another. O(strips)."""
        base, found = self.lanes[lane].first, []
        for at, whose in enumerate(self._whose):
            begin = self._begins[at]
            index = base + self._offsets[at]
            low, high = max(first, index), min(stop, index + self._end(at) - begin)
            if whose == lane and low < high:
                start = self.start + begin + low - index
                found.append(Interval(start, start + high - low))
        return found

    def reach(self, items: int) -> list[int]:
        """How many items of each lane are among its first ones. O(strips)."""
        counts = [0] * len(self.lanes)
        for at, whose in enumerate(self._whose):
            if self._begins[at] >= items:
                break
            if whose != NOWHERE:
                counts[whose] += min(items, self._end(at)) - self._begins[at]
        return counts

    def extents(self) -> list[Extent]:
        """What of each lane's stream its keepers are to keep, in the order of the lanes."""
        gone = self.reach(self.dropped)
        return [
            Extent(lane.stream, lane.first + before, lane.stop)
            for lane, before in zip(self.lanes, gone, strict=True)
        ]

    def hold(self, living: list[Interval]) -> None:
        """Of its positions these live, in order: holds the strips that they lie in."""
        done, self.held = -1, 0
        for part in living:
            at = max(done + 1, self._holding(part.start))
            while at < len(self._whose) and self.start + self._begins[at] < part.stop:
                self.held += self._sizes[at]
                done, at = at, at + 1

    def settle(self, gone: list[Interval], alive: IntervalSet) -> Iterator[tuple[Lane, int]]:
        """These positions, in order, live no more: lets go of each strip in which no other does.

        Yields how many were of which lane.
        """
        done = -1
        for part in gone:
            start, at = part.start, self._holding(part.start)
            while start < part.stop:
                begin, end = self.start + self._begins[at], self.start + self._end(at)
                if at != done and alive.first_in(Interval(begin, end)) is None:
                    self.held -= self._sizes[at]
                if self._whose[at] != NOWHERE:
                    yield self.lanes[self._whose[at]], min(end, part.stop) - start
                start, done, at = end, at, at + 1

    # --- as it is written down --------------------------------------------------------------------

    def columns(self) -> Columns:
        """For a record; mostly that is written anew for what of the run lives."""
        if self._columns is None:
            self._columns = self._written()
        return self._columns

    def rehouse(self, lane: Lane, keepers: tuple[str, ...]) -> None:
        lane.keepers, self._columns = keepers, None

    def _written(self) -> Columns:
        counts = array("H", map(sub, (*self._begins[1:], self.count), self._begins))
        small = max(self._sizes, default=0) < 1 << 16
        sizes = array("H", self._sizes) if small else self._sizes
        lanes = tuple((lane.stream, lane.first, lane.keepers) for lane in self.lanes)
        return Columns(lanes, bytes(self._whose), counts.tobytes(), sizes.tobytes())

    @classmethod
    def of(cls, start: int, columns: Columns) -> "Run":
        """From a record; raises `ValueError` when it is none."""
        run = cls(start)
        counts = array("H", columns.counts)
        small = len(columns.sizes) == len(columns.counts)
        sizes = array("H" if small else "I", columns.sizes)
        if not len(columns.whose) == len(counts) == len(sizes):
            raise ValueError(f"columns of {len(columns.whose)}, {len(counts)}, {len(sizes)} strips")
        run._whose, run._sizes = bytearray(columns.whose), array("I", sizes)
        *begins, run.count = accumulate(counts, initial=0)
        run._begins, run.bytes = array("I", begins), sum(sizes)
        items, weights = [0] * (NOWHERE + 1), [0] * (NOWHERE + 1)
        for whose, count, size in zip(columns.whose, counts, sizes, strict=True):
            run._offsets.append(items[whose])
            items[whose] += count
            weights[whose] += size
        run.lanes = [
            Lane(stream, first, items[at], weights[at], keepers)
            for at, (stream, first, keepers) in enumerate(columns.lanes)
        ]
        return run


class Runs:
    """Runs in the order of positions; none overlaps another."""

    def __init__(self, limits: Limits = LIMITS) -> None:
        self._limits = limits
        self.housed: dict[tuple[str, ...], int] = {}
        """How many living items are on which keepers."""
        self._starts: list[int] = []
        self._runs: list[Run] = []

    def __len__(self) -> int:
        return len(self._runs)

    def __iter__(self) -> Iterator[Run]:
        return iter(list(self._runs))

    def at(self, start: int) -> Run | None:
        """The run that begins at this position. O(log n)."""
        index = bisect_right(self._starts, start) - 1
        if index >= 0 and self._starts[index] == start:
            return self._runs[index]
        return None

    def following(self, start: int) -> int | None:
        """Where the first run begins that begins there or behind. O(log n)."""
        at = bisect_left(self._starts, start)
        return self._starts[at] if at < len(self._starts) else None

    def holding(self, position: int) -> Run:
        """The run that a position lies in. O(log n)."""
        run = self._runs[bisect_right(self._starts, position) - 1]
        assert run.start <= position < run.stop, f"{position} lies nowhere"
        return run

    def after(self, position: int, count: int) -> list[Run]:
        """The next so many runs that begin at a position or behind it. O(log n + answer)."""
        index = bisect_right(self._starts, position - 1)
        return self._runs[index : index + count]

    def over(self, interval: Interval) -> list[Run]:
        """The runs that have a position in common with an interval. O(log n + answer)."""
        first = max(0, bisect_right(self._starts, interval.start) - 1)
        last = bisect_left(self._starts, interval.stop)
        return [run for run in self._runs[first:last] if run.stop > interval.start]

    # --- changes ----------------------------------------------------------------------------------

    def add(self, start: int, put: Lane, *, merge: bool) -> Run:
        """Takes what was put at the end; returns the run that it is part of now."""
        if not self._runs or not self._runs[-1].takes(start, put, self._limits):
            self._append(Run(start))
        run = self._runs[-1]
        run.take(put, merge=merge)
        self._house(put.keepers, put.count)
        return run

    def restore(self, run: Run, living: list[Interval]) -> None:
        """Takes a run from a record, in which these positions are not settled."""
        self._append(run)
        if living == [run.interval] and sum(lane.count for lane in run.lanes) == run.count:
            run.held = run.bytes
            for lane in run.lanes:
                lane.living = lane.count
        else:
            run.hold(living)
            for part in living:
                for strip in run.strips(part):
                    strip.lane.living += strip.stop - strip.start
        for lane in run.lanes:
            self._house(lane.keepers, lane.living)

    def void(self, run: Run, part: Interval) -> int:
        """A put of this run was never stored after all; returns the bytes that are gone."""
        before, living = run.bytes, [lane.living for lane in run.lanes]
        run.void(part)
        for lane, was in zip(run.lanes, living, strict=True):
            self._house(lane.keepers, lane.living - was)
        return before - run.bytes

    def gone(self, run: Run, parts: list[Interval], alive: IntervalSet) -> int:
        """These positions of a run live no more; returns the bytes that it held for them alone."""
        before = run.held
        for lane, count in run.settle(parts, alive):
            lane.living -= count
            self._house(lane.keepers, -count)
        return before - run.held

    def remove(self, run: Run) -> None:
        """Forgets a run. O(n moved)."""
        index = bisect_right(self._starts, run.start) - 1
        assert self._runs[index] is run
        for lane in run.lanes:
            self._house(lane.keepers, -lane.living)
        del self._starts[index]
        del self._runs[index]

    def rehouse(self, run: Run, lane: Lane, keepers: tuple[str, ...]) -> None:
        self._house(lane.keepers, -lane.living)
        run.rehouse(lane, keepers)
        self._house(lane.keepers, lane.living)

    def check(self, alive: IntervalSet) -> None:
        """Asserts that each lane knows how many of its items live, and the whole on whom. O(n)."""
        housed: dict[tuple[str, ...], int] = {}
        for run in self._runs:
            strips = [strip for part in alive.common(run.interval) for strip in run.strips(part)]
            for lane in run.lanes:
                living = sum(one.stop - one.start for one in strips if one.lane is lane)
                assert lane.living == living, f"{lane}: {living} live"
                housed[lane.keepers] = housed.get(lane.keepers, 0) + living
        housed = {keepers: count for keepers, count in housed.items() if count}
        assert housed == self.housed, f"{self.housed}, not {housed}"

    def _append(self, run: Run) -> None:
        assert not self._runs or self._runs[-1].stop <= run.start, "positions only grow"
        self._starts.append(run.start)
        self._runs.append(run)

    def _house(self, keepers: tuple[str, ...], items: int) -> None:
        left = self.housed.get(keepers, 0) + items
        if left:
            self.housed[keepers] = left
        else:
            self.housed.pop(keepers, None)
