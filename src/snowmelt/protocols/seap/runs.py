"""Free elements in their order, many at once: what came together is one sorted run of keys.

1. A *run* is a row of keys, and where each stands. What was put in one call and lies together is
   one; to put it in is no work for each of its elements, and its first ones leave as one interval.
2. The heads of all runs are in a heap. The k least leave by stretches: from the run with the least
   head, all that is less than the next head. Of many, most leave by a leap before that: some firsts
   of some runs are a sample, in which a bound is sought that no more than k of all are below, and
   not many less; whatever is below it is among the k least. A bad sample makes a short leap.
3. What comes alone, or in a few, and what would be one run too many, is in a row of elements
   beside them: so to find a place by its rank looks at `RUNS_MAX` runs at most.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from heapq import heapify, heappop, heappush, heapreplace
from itertools import chain, islice, repeat
from operator import itemgetter
from typing import Final, NamedTuple, overload

from snowmelt.core.interval import Interval, merged
from snowmelt.protocols.select.elements import Element
from snowmelt.protocols.select.ordered import Ordered, Ranked

RUN_MIN: Final = 8
RUNS_MAX: Final = 1_024
LEAP: Final = 32
"""Fewer leave one by one."""
SAMPLED: Final = 64
"""So many runs are looked at for a bound, or up to twice as many."""
SAMPLE: Final = 1_024
"""So many keys of them."""
LOOKS: Final = 6
"""So often a bound is tried."""

Head = tuple[int, int, int]
"""The key and the position of the first element of a run, and the run's number."""
_SINGLE: Final = -1
_WHERE: Final = itemgetter(0, 1)


class _Cut(NamedTuple):
    """Where the first ones end."""

    stops: dict[int, int]
    """In the runs that have some of them, by numbers."""
    single: int
    """How many are beside the runs."""
    heads: list[Head]
    """What the runs begin with behind them, as a heap."""


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
        cut = self._cut(count)
        self._heads = cut.heads
        found: list[Interval] = []
        for number, stop in cut.stops.items():
            run = self._runs[number]
            found += run.where(run.at, stop)
            self._size -= stop - run.at
            run.at = stop
            if stop == len(run.keys):
                del self._runs[number]
        self._size -= cut.single
        found += [Interval(one.id, one.id + 1) for one in self._single.take(cut.single)]
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
        if not count:  # a phase that takes more than it shows
            return []
        cut = self._cut(count)
        found = list(islice(self._single, cut.single))
        for number, stop in cut.stops.items():
            run = self._runs[number]
            found += map(run.element, range(run.at, stop))
        return sorted(found)

    def _cut(self, count: int) -> _Cut:
        """Where the first ones end (rule 2)."""
        left = count = min(count, self._size)
        runs, heads = self._runs, self._heads[:]
        stops, single = self._leap(count)
        if stops or single:
            left -= single + sum([stop - runs[number].at for number, stop in stops.items()])
            rows = [
                (run.keys, run.places, stops.get(one, run.at), one) for one, run in runs.items()
            ]
            heads = [
                (keys[at], places[at], one) for keys, places, at, one in rows if at < len(keys)
            ]
        singles = islice(self._single, single, None)
        head = next(singles, None)
        if head is not None:
            heads.append((head.priority, head.id, _SINGLE))
        heapify(heads)
        while left > 0:
            number = heads[0][2]
            if number == _SINGLE:
                single, left, head = single + 1, left - 1, next(singles, None)
                if head is None:
                    heappop(heads)
                else:
                    heapreplace(heads, (head.priority, head.id, _SINGLE))
                continue
            run = runs[number]
            keys, start = run.keys, stops.get(number, run.at)
            stop = last = min(len(keys), start + left)
            if len(heads) > 1:
                bound = heads[1][0] if len(heads) == 2 else min(heads[1][0], heads[2][0])
                stop = start + 1
                if stop < last and keys[stop] < bound:
                    stop = bisect_left(keys, bound, stop, last)
            stops[number], left = stop, left - (stop - start)
            if stop < len(keys):
                heapreplace(heads, (keys[stop], run.places[stop], number))
            else:
                heappop(heads)
        rest = [one for one in heads if one[2] != _SINGLE]
        if len(rest) < len(heads):
            heapify(rest)
        return _Cut(stops, single, rest)

    def _leap(self, count: int) -> tuple[dict[int, int], int]:
        """Where most of the first ones end, run by run, and of those beside them (rule 2)."""
        runs = list(self._runs.values())
        if len(runs) < 2 or count < LEAP + len(runs) // 4:
            return {}, 0
        some = runs[:: 1 + len(runs) // SAMPLED]
        each = 2 * count // len(runs) + RUN_MIN
        step = 1 + each * len(some) // SAMPLE
        sample = sorted(
            chain.from_iterable([one.keys[one.at : one.at + each : step] for one in some])
        )
        keys, firsts = [run.keys for run in runs], [run.at for run in runs]
        begun, low, high = sum(firsts), 0, len(sample) - 1
        at = min(high, 15 * count * len(some) // (16 * len(runs) * step))
        stops, single = firsts, 0
        for _ in range(LOOKS):
            less = self._single.rank(Element(sample[at], 0))
            ends = list(map(bisect_left, keys, repeat(sample[at]), firsts))
            total = sum(ends) - begun + less
            if total > count:
                high = at - 1
            else:
                low, stops, single = at + 1, ends, less
                if total * 8 >= count * 7:
                    break
            if low > high:
                break
            at = max(low, min(high, 15 * at * count // (16 * total + 1)))
        rows = zip(self._runs, firsts, stops, strict=True)
        return {number: stop for number, first, stop in rows if first < stop}, single

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
