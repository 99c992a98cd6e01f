"""Items that are ready, in the order of their keys, and of one key in that of their positions.

1. Many that come in at once are a sorted run; a heap has the first of each run. Of fewer, each is
   in the heap by itself, until these are many: then they become a run.
2. What was shown stays in the *front*, which is before all in the heap. It ends where an entry
   comes in that is before its last; the rest of it goes back into the heap.
3. What goes out of the middle is passed over when its turn comes; when that is half of all there
   is, everything is sorted anew.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from heapq import heapify, heappop, heappush, heapreplace
from typing import Final

import msgspec

from snowmelt.core.keys import KEY_BYTES, column

RUN: Final = 4_096
"""No run is longer: several are sorted more quickly than a long one."""
FEW: Final = 512
"""So many are a run."""
SAMPLE: Final = 256
"""One key of so many is looked at first where a rank is looked for."""
SPARE: Final = 64
_LEAST: Final = -(1 << 63)
_MOST: Final = (1 << 63) - 1
Entry = tuple[int, int]
"""A key and a position: smaller is earlier."""


class SortedRun(msgspec.Struct, gc=False):
    """Entries in order, from `at` on."""

    keys: "array[int]"
    places: Sequence[int]
    at: int = 0

    def of(self, key: int) -> Sequence[int]:
        """The positions of one key."""
        first = bisect_left(self.keys, key, self.at)
        return self.places[first : bisect_right(self.keys, key, first)]

    def before(self, entry: tuple[int, int, object], stop: int) -> int:
        """How far those go that are before an entry; at most up to an index."""
        first = bisect_left(self.keys, entry[0], self.at, stop)
        last = bisect_right(self.keys, entry[0], first, stop)
        return bisect_left(self.places, entry[1], first, last)

    def between(self, low: int, high: int) -> "array[int]":
        """The keys above one and below another."""
        first = bisect_right(self.keys, low, self.at)
        return self.keys[first : bisect_left(self.keys, high, first)]

    @property
    def left(self) -> Iterator[Entry]:
        return zip(self.keys[self.at :], self.places[self.at :], strict=True)


class Index:
    """Entries, none of them twice.

    >>> index = Index()
    >>> index.add([(7, 0), (-2, 1), (7, 2)])
    >>> index.first(2), index.total
    ([(-2, 1), (7, 0)], 3)
    >>> index.remove([(-2, 1), (7, 2)]); index.add([(7, -5)]); list(index)
    [(7, -5), (7, 0)]
    """

    def __init__(self) -> None:
        self.total = 0
        self._front: list[Entry] = []
        self._heap: list[tuple[int, int, SortedRun | None]] = []
        """The first entry of each run, and the run; and those that are by themselves."""
        self._alone = 0
        """How many those are."""
        self._gone: set[int] = set()
        """Positions whose entries are passed over (rule 3)."""

    # --- in ---------------------------------------------------------------------------------------

    def add(self, entries: list[Entry]) -> None:
        """In any order. O(m log m), and for each of a few O(1) mostly."""
        self.total += len(entries)
        if self._gone:
            entries = [one for one in entries if not self._back(one[1])]
        if entries:
            entries.sort()
            self._end_front(entries[0])
            self._take_in(entries)

    def add_row(self, start: int, row: bytes) -> None:
        """The keys of neighbours. O(m) where they are in order."""
        for at in range(0, len(row), RUN * KEY_BYTES):
            keys, first = column(row[at : at + RUN * KEY_BYTES]), start + at // KEY_BYTES
            places = range(first, first + len(keys))
            if len(keys) < FEW or not self._gone.isdisjoint(places):
                self.add(list(zip(keys, places, strict=True)))
                continue
            run = _sorted(keys, places)
            self.total += len(keys)
            self._end_front((run.keys[0], run.places[0]))
            self._add_run(run)

    def _back(self, place: int) -> bool:
        """Whether its entry was only passed over, and is there still."""
        if place not in self._gone:
            return False
        self._gone.discard(place)
        return True

    def _end_front(self, entry: Entry) -> None:
        # Rule 2.
        front = self._front
        if front and entry < front[-1]:
            at = bisect_left(front, entry)
            rest = front[at:]
            del front[at:]
            self._take_in(rest)

    def _take_in(self, entries: list[Entry]) -> None:
        """Rule 1; these are in order."""
        if len(entries) < FEW:
            for key, place in entries:
                heappush(self._heap, (key, place, None))
            self._alone += len(entries)
            if self._alone > 2 * FEW:
                self._gather()
            return
        for at in range(0, len(entries), RUN):
            keys, places = zip(*entries[at : at + RUN], strict=True)
            self._add_run(SortedRun(array("q", keys), array("q", places)))

    def _gather(self) -> None:
        """Those that are by themselves become a run, however few they are."""
        alone = sorted([(key, place) for key, place, run in self._heap if run is None])
        self._heap = [one for one in self._heap if one[2] is not None]
        heapify(self._heap)
        self._alone = 0
        if alone:
            keys, places = zip(*alone, strict=True)
            self._add_run(SortedRun(array("q", keys), array("q", places)))

    def _add_run(self, run: SortedRun) -> None:
        heappush(self._heap, (run.keys[0], run.places[0], run))

    # --- out --------------------------------------------------------------------------------------

    def first(self, count: int) -> list[Entry]:
        """The first so many; they stay. O(log runs) for each that was not shown before."""
        front, heap = self._front, self._heap
        while heap and len(front) < count:
            key, place, run = heap[0]
            if not (self._gone and self._back(place)):
                front.append((key, place))
            if run is None:
                heappop(heap)
                self._alone -= 1
            elif (at := run.at + 1) < len(run.keys):
                run.at = at
                heapreplace(heap, (run.keys[at], run.places[at], run))
                if heap[0][2] is run and len(front) < count:
                    self._show_more(run, count - len(front))
            else:
                heappop(heap)
        return front[:count]

    def _show_more(self, run: SortedRun, count: int) -> None:
        """Of the run that is first in the heap, what is before all others; the last one stays."""
        heap, at = self._heap, run.at
        stop = min(at + count, len(run.keys) - 1)
        if len(heap) > 1:
            stop = run.before(min(heap[1:3]), stop)
        if stop > at:
            some = zip(run.keys[at:stop], run.places[at:stop], strict=True)
            self._front += [one for one in some if not (self._gone and self._back(one[1]))]
            run.at = stop
            heapreplace(heap, (run.keys[stop], run.places[stop], run))

    def remove(self, entries: list[Entry]) -> None:
        """All of these are in it."""
        self.total -= len(entries)
        front = self._front
        if entries == front[: len(entries)]:  # as mostly
            del front[: len(entries)]
            return
        for one in entries:
            at = bisect_left(front, one)
            if at < len(front):
                del front[at]
            else:
                self._gone.add(one[1])
        if len(self._gone) > self.total + SPARE:
            self._sort_anew()

    def _sort_anew(self) -> None:
        # Rule 3.
        entries = list(self)
        self.__init__()  # type: ignore[misc]
        self.add(entries)

    # --- by ranks ---------------------------------------------------------------------------------

    def nth(self, rank: int) -> int | None:
        """The position of a rank, from 1 on. O(runs log n), where nothing is passed over."""
        if not 1 <= rank <= self.total:
            return None
        if rank <= len(self._front):
            return self._front[rank - 1][1]
        if self._gone:
            self._sort_anew()
        if self._alone:
            self._gather()
        rank -= len(self._front)
        runs = [run for _, _, run in self._heap if run is not None]
        some = sorted({key for run in runs for key in run.keys[run.at :: SAMPLE]})
        at = bisect_left(some, rank, key=lambda key: _upto(runs, key))
        low = some[at - 1] if at else _LEAST - 1
        high = some[at] if at < len(some) else _MOST + 1
        between = sorted([key for run in runs for key in run.between(low, high)])
        rest = rank - 1 - _upto(runs, low)
        key = between[rest] if rest < len(between) else high
        same = sorted([place for run in runs for place in run.of(key)])
        return same[rank - 1 - _upto(runs, key - 1)]

    def last_of(self, key: int) -> int | None:
        """The last position of a key. O(runs log n), and a look at each that is by itself."""
        front = self._front
        first = bisect_left(front, (key, -1))
        found = [place for _, place in front[first : bisect_left(front, (key + 1, -1), first)]]
        found += [place for own, place, run in self._heap if run is None and own == key]
        found += [place for *_, run in self._heap if run is not None for place in run.of(key)]
        return max([one for one in found if one not in self._gone], default=None)

    def __iter__(self) -> Iterator[Entry]:
        """In order. O(n log n)."""
        rest = [(key, place) for key, place, run in self._heap if run is None]
        rest += [one for _, _, run in self._heap if run is not None for one in run.left]
        return iter([*self._front, *sorted([one for one in rest if one[1] not in self._gone])])


def _upto(runs: list[SortedRun], key: int) -> int:
    """How many have this key or a lesser one."""
    return sum([bisect_right(run.keys, key, run.at) - run.at for run in runs])


def _sorted(keys: "array[int]", places: range) -> SortedRun:
    """Neighbours, which often came in order."""
    row = keys.tolist()
    if row == sorted(row):
        return SortedRun(keys, places)
    order = sorted(range(len(row)), key=row.__getitem__)
    first = places.start
    return SortedRun(
        array("q", [row[at] for at in order]), array("q", [first + at for at in order])
    )


def entries_of(keys: Iterable[int], start: int) -> list[Entry]:
    """Of neighbours.

    >>> entries_of((5, 3), 40)
    [(5, 40), (3, 41)]
    """
    return [(key, place) for place, key in enumerate(keys, start=start)]
