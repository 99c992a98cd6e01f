"""Free elements in their order, many at once: what came together is one sorted run of keys.

1. A *run* is a row of keys, and where each stands. What was put in one call and lies together is
   one; to put it in is no work for each of its elements, and its first ones leave as one interval.
2. The heads of all runs are in a heap. The k least leave by stretches: from the run with the least
   head, all that is less than the next head. Of many, most leave by a leap before that: the firsts
   of all runs are sorted, and whatever is less than the k-th of them, and than the last first of
   each run that has more, is among the k least.
3. What comes alone, or in a few, and what would be one run too many, is in a row of elements
   beside them: so to find a place by its rank looks at `RUNS_MAX` runs at most.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from heapq import heapify, heappop, heappush, heapreplace
from itertools import islice
from operator import itemgetter
from typing import Final, overload

from snowmelt.core.interval import Interval, merged
from snowmelt.protocols.select.elements import Element
from snowmelt.protocols.select.ordered import Ordered, Ranked

RUN_MIN: Final = 8
RUNS_MAX: Final = 1_024
LEAP: Final = 8
"""So many of each run are to leave that a leap is worth it."""

Head = tuple[int, int, int]
"""The key and the position of the first element of a run, and the run's number."""
Stretch = tuple[int, int, int]
"""A run's number, and from where to where."""
_SINGLE: Final = -1
_WHERE: Final = itemgetter(0, 1)


class Run:
    """Keys in order, and where each element stands; the first `at` have left.

    >>> run = Run([9, 2, 5], 40)
    >>> run.keys.tolist(), list(run.places)
    ([2, 5, 9], [41, 42, 40])
    """

    __slots__ = ("at", "keys", "places")

    def __init__(self, keys: Sequence[int], start: int) -> None:
        """Of elements that stand one behind the other; the keys may be in any order."""
        places: Sequence[int] = range(start, start + len(keys))
        row = sorted(keys)
        if row != list(keys):
            pairs = sorted(zip(keys, places, strict=True))
            places = array("q", [place for _, place in pairs])
        self.keys = array("q", row)
        self.places = places
        self.at = 0

    def __len__(self) -> int:
        return len(self.keys) - self.at

    def rank(self, element: Element) -> int:
        """How many of it are less, those that have left too."""
        low = bisect_left(self.keys, element.priority)
        high = bisect_right(self.keys, element.priority, low)
        return low if low == high else bisect_left(self.places, element.id, low, high)

    def element(self, at: int) -> Element:
        """One of it."""
        return Element(self.keys[at], self.places[at])

    def where(self, start: int, stop: int) -> list[Interval]:
        """Where some of it stand."""
        some = self.places[start:stop]
        if isinstance(some, range):
            return [Interval(some.start, some.stop)]
        return [Interval(at, at + 1) for at in some]


class Runs(Ranked):
    """A sorted row of elements, in runs.

    >>> row = Runs([Element(4, 1)])
    >>> row.add(Run([1, 3, 5, 7, 9, 11, 13, 15], 10)); row.add(Element(6, 2))
    >>> [one.priority for one in row], row[3], row.rank(Element(6, 0)), len(row)
    ([1, 3, 4, 5, 6, 7, 9, 11, 13, 15], Element(priority=5, id=12), 4, 10)
    >>> row.take(4), len(row)
    ([Interval(start=1, stop=2), Interval(start=10, stop=13)], 6)
    """

    def __init__(self, elements: Iterable[Element] = ()) -> None:
        self._single = Ordered(elements)
        self._runs: dict[int, Run] = {}
        self._heads: list[Head] = []
        self._size = len(self._single)
        self._number = 0

    def __len__(self) -> int:
        """How many there are."""
        return self._size

    def __iter__(self) -> Iterator[Element]:
        """In their order."""
        return iter(self[:])

    @overload
    def __getitem__(self, at: int) -> Element: ...

    @overload
    def __getitem__(self, at: slice) -> list[Element]: ...

    def __getitem__(self, at: int | slice) -> Element | list[Element]:
        """By place, from 0 on."""
        if isinstance(at, slice):
            start, stop, _ = at.indices(self._size)
            return self._first(stop)[start:]
        if not 0 <= at < self._size:
            raise IndexError(at)
        return self._find(at)

    def add(self, one: Element | Run) -> None:
        """What is not here."""
        if isinstance(one, Element):
            self._size += 1
            self._single.add(one)
            return
        self._size += len(one)
        if len(one) < RUN_MIN or len(self._runs) == RUNS_MAX:  # rule 3
            for at in range(len(one)):
                self._single.add(one.element(at))
            return
        self._number += 1
        self._runs[self._number] = one
        heappush(self._heads, (one.keys[0], one.places[0], self._number))

    def take(self, count: int) -> list[Interval]:
        """Takes out the first ones: where they stand, in the order of that."""
        stretches, self._heads = self._walk(count, self._leap(min(count, self._size)))
        found: list[Interval] = []
        first: dict[int, int] = {}
        single = 0
        for number, start, stop in stretches:
            self._size -= stop - start
            if number == _SINGLE:
                single = stop
            else:
                first.setdefault(number, start)
                self._runs[number].at = stop
        for number, start in first.items():
            run = self._runs[number]
            found += run.where(start, run.at)
            if not len(run):
                del self._runs[number]
        found += [Interval(one.id, one.id + 1) for one in self._single.take(single)]
        return merged(found)

    def rank(self, element: Element) -> int:
        """How many are less."""
        runs = self._runs.values()
        less = [max(0, run.rank(element) - run.at) for run in runs]
        return self._single.rank(element) + sum(less)

    def among(self, start: Element | None, stop: Element | None) -> list[Element]:
        """Those from one on, up to another, run by run."""
        found = self._single.among(start, stop)
        for run in self._runs.values():
            first = run.at if start is None else max(run.at, run.rank(start))
            last = len(run.keys) if stop is None else run.rank(stop)
            found += map(Element, run.keys[first:last], run.places[first:last])
        return found

    def _first(self, count: int) -> list[Element]:
        single = list(islice(self._single, count))
        return [
            single[at] if number == _SINGLE else self._runs[number].element(at)
            for number, start, stop in self._walk(count, [])[0]
            for at in range(start, stop)
        ]

    def _leap(self, count: int) -> list[Stretch]:
        """Most of the first ones, run by run; nothing where there are few of each."""
        if count < LEAP * (len(self._runs) + 1):
            return []
        each = 2 * count // (len(self._runs) + 1) + LEAP
        single = [one.priority for one in islice(self._single, each)]
        keys = single[:]
        bounds = single[-1:] if len(single) < len(self._single) else []
        for run in self._runs.values():
            keys += run.keys[run.at : run.at + each]
            if len(run) > each:
                bounds.append(run.keys[run.at + each - 1])
        keys.sort()
        bound = min([*bounds, *keys[count - 1 : count]])
        stretches = [
            (
                number,
                run.at,
                bisect_left(run.keys, bound, run.at, min(len(run.keys), run.at + each)),
            )
            for number, run in self._runs.items()
        ]
        stretches.append((_SINGLE, 0, bisect_left(single, bound)))
        return [one for one in stretches if one[1] < one[2]]

    def _walk(self, count: int, found: list[Stretch]) -> tuple[list[Stretch], list[Head]]:
        """Where the first ones are, behind what is found, and the heads that are left (rule 2)."""
        heads = self._heads[:]
        starts = {number: stop for number, _, stop in found}
        if found:
            rows = [(one, run, starts.get(one, run.at)) for one, run in self._runs.items()]
            heads = [(r.keys[at], r.places[at], n) for n, r, at in rows if at < len(r.keys)]
            heapify(heads)
        at_single = starts.get(_SINGLE, 0)
        singles = islice(self._single, at_single, None)
        single = next(singles, None)
        if single is not None:
            heads.append((single.priority, single.id, _SINGLE))
            heapify(heads)
        left = min(count, self._size) - sum([stop - start for _, start, stop in found])
        while left > 0:
            _, _, number = heads[0]
            if number == _SINGLE:
                found.append((_SINGLE, at_single, at_single + 1))
                at_single, left, single = at_single + 1, left - 1, next(singles, None)
                if single is None:
                    heappop(heads)
                else:
                    heapreplace(heads, (single.priority, single.id, _SINGLE))
                continue
            run = self._runs[number]
            keys, start = run.keys, starts.get(number, run.at)
            stop = last = min(len(keys), start + left)
            if len(heads) > 1:
                bound = heads[1][0] if len(heads) == 2 else min(heads[1][0], heads[2][0])
                stop = start + 1
                if stop < last and keys[stop] < bound:
                    stop = bisect_left(keys, bound, stop, last)
            found.append((number, start, stop))
            starts[number], left = stop, left - (stop - start)
            if stop < len(keys):
                heapreplace(heads, (keys[stop], run.places[stop], number))
            else:
                heappop(heads)
        rest = [head for head in heads if head[2] != _SINGLE]
        if len(rest) < len(heads):
            heapify(rest)
        return found, rest

    def _find(self, at: int) -> Element:
        """By its rank: what lies on the wrong side of a middle one is left out, at each turn."""
        rows: list[Run | Ordered] = [self._single, *self._runs.values()]
        low = [run.at if isinstance(run, Run) else 0 for run in rows]
        high = [len(run.keys) if isinstance(run, Run) else len(run) for run in rows]
        while True:
            middle = _middle(rows, low, high)
            ranks = [
                min(max(run.rank(middle), start), stop)
                for run, start, stop in zip(rows, low, high, strict=True)
            ]
            less = sum(ranks) - sum(low)
            if less == at:
                return middle
            if less > at:
                high = ranks
            else:
                at -= less
                low = ranks


def _middle(rows: Sequence[Run | Ordered], low: Sequence[int], high: Sequence[int]) -> Element:
    """Of the middles of some rows the one with about as much on both sides."""
    middles: list[tuple[Element, int]] = []
    for run, start, stop in zip(rows, low, high, strict=True):
        if start < stop:
            at = (start + stop) // 2
            middles.append((run.element(at) if isinstance(run, Run) else run[at], stop - start))
    middles.sort(key=_WHERE)
    half = sum([size for _, size in middles]) // 2
    for one, size in middles:
        half -= size
        if half < 0:
            return one
    raise AssertionError("there is a middle of something")
