"""Items that are ready, in the order of their keys, and of one key in that of their positions.

1. Entries lie in sorted runs; a heap has the first of each. Runs are merged while they are short
   and like in size, so there are few, and no call waits for a large merge.
2. What was shown stays in the *front*, which is before all runs. What comes before its last entry
   is put into it.
3. What goes out of the middle of a run is passed over when its turn comes; when that is half of all
   there is, everything is sorted anew.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from heapq import heapify, heappop, heappush, heapreplace
from itertools import chain
from typing import Final

import msgspec

RUN: Final = 4_096
"""No run is made longer than that by merging."""
SPARE: Final = 64
_LEAST: Final = -(1 << 63)
_MOST: Final = (1 << 63) - 1
Entry = tuple[int, int]
"""A key and a position: smaller is earlier."""


class Run(msgspec.Struct, gc=False):
    """Entries in order, from `at` on."""

    keys: "array[int]"
    places: "array[int]"
    at: int = 0

    def of(self, key: int) -> "array[int]":
        """The positions of one key."""
        first = bisect_left(self.keys, key, self.at)
        return self.places[first : bisect_right(self.keys, key, first)]

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
        self._runs: dict[int, Run] = {}
        self._heap: list[tuple[int, int, int]] = []
        """The first entry of each run, and which run that is; of one that is gone it is over."""
        self._short: list[int] = []
        """Runs that may still be merged, the longest first."""
        self._gone: set[int] = set()
        """Positions whose entries are passed over (rule 3)."""
        self._made = 0

    def add(self, entries: list[Entry]) -> None:
        """In any order. O(m log m), and each is merged some ten times at most."""
        if not entries:
            return
        if len(entries) > RUN:  # several runs are sorted more quickly than a long one
            for at in range(0, len(entries), RUN):
                self.add(entries[at : at + RUN])
            return
        self.total += len(entries)
        if self._gone:
            entries = [one for one in entries if not self._back(one[1])]
        entries.sort()
        if self._front and entries and entries[0] < self._front[-1]:  # rule 2
            at = bisect_left(entries, self._front[-1])
            self._front = sorted(chain(self._front, entries[:at]))
            del entries[:at]
        if entries:
            self._add_run(entries)

    def _back(self, place: int) -> bool:
        """Whether its entry was only passed over, and is there still."""
        if place not in self._gone:
            return False
        self._gone.discard(place)
        return True

    def _add_run(self, entries: list[Entry]) -> None:
        merged = False
        while self._short:
            last = self._runs.get(self._short[-1])
            if last is None:
                self._short.pop()
                continue
            rest = len(last.keys) - last.at
            if rest > 2 * len(entries) or rest + len(entries) > RUN:
                break
            del self._runs[self._short.pop()]
            entries += last.left
            merged = True
        if merged:
            entries.sort()
        self._made += 1
        keys, places = zip(*entries, strict=True)
        self._runs[self._made] = Run(array("q", keys), array("q", places))
        if len(entries) > RUN // 2:
            self._short.clear()
        else:
            self._short.append(self._made)
        heappush(self._heap, (*entries[0], self._made))
        if len(self._heap) > 2 * len(self._runs) + SPARE:
            self._heap = [one for one in self._heap if one[2] in self._runs]
            heapify(self._heap)

    def first(self, count: int) -> list[Entry]:
        """The first so many; they stay. O(log runs) for each that was not shown before."""
        front, heap, runs = self._front, self._heap, self._runs
        while heap and len(front) < count:
            key, place, name = heap[0]
            run = runs.get(name)
            if run is None:
                heappop(heap)
                continue
            run.at += 1
            if run.at < len(run.keys):
                heapreplace(heap, (run.keys[run.at], run.places[run.at], name))
            else:
                heappop(heap)
                del runs[name]
            if self._gone and self._back(place):
                continue
            front.append((key, place))
        return front[:count]

    def remove(self, entries: list[Entry]) -> None:
        """All of these are in it."""
        self.total -= len(entries)
        front = self._front
        if entries == front[: len(entries)]:  # as mostly
            del front[: len(entries)]
            return
        rest: list[int] = []
        for one in entries:
            at = bisect_left(front, one)
            if at < len(front):
                del front[at]
            else:
                rest.append(one[1])
        self._gone.update(rest)
        if len(self._gone) > self.total + SPARE:
            self._sort_anew()

    def nth(self, rank: int) -> int | None:
        """The position of a rank, from 1 on. O(runs log n), where nothing is passed over."""
        if not 1 <= rank <= self.total:
            return None
        if rank <= len(self._front):
            return self._front[rank - 1][1]
        if self._gone:
            self._sort_anew()
            return self.nth(rank)
        rank -= len(self._front)
        low, high = _LEAST, _MOST
        while low < high:  # the least key at or below which so many are
            key = (low + high) // 2
            if self._upto(key) >= rank:
                high = key
            else:
                low = key + 1
        same = [one for run in self._runs.values() for one in run.of(low)]
        return sorted(same)[rank - 1 - self._upto(low - 1)]

    def _upto(self, key: int) -> int:
        if key < _LEAST:
            return 0
        runs = self._runs.values()
        return sum([bisect_right(run.keys, key, run.at) - run.at for run in runs])

    def _sort_anew(self) -> None:
        """Rule 3."""
        entries = list(self)
        self.__init__()  # type: ignore[misc]
        self.add(entries)

    def __iter__(self) -> Iterator[Entry]:
        """In order. O(n log n)."""
        runs = [one for run in self._runs.values() for one in run.left if one[1] not in self._gone]
        return iter([*self._front, *sorted(runs)])


def entries_of(keys: Iterable[int], start: int) -> list[Entry]:
    """Of neighbours.

    >>> entries_of((5, 3), 40)
    [(5, 40), (3, 41)]
    """
    return [(key, place) for place, key in enumerate(keys, start=start)]
