"""Free elements in their order, many at once: what came together is one sorted run of keys.

1. A *run* is a row of keys, and where each stands. What was put in one call and lies together is
   one; to put it in is no work for each of its elements, and its first ones leave as one interval.
2. The k least leave by stretches. A leap finds where they end: some firsts of some runs are a
   sample, in which two bounds are sought, near each other, that fewer than k of all are below, and
   no fewer than k. What is below the first bound is among the k least; what lies between the two is
   put in order. Where the sample has no such bounds a heap of heads is walked: from the run with
   the least head leaves all that is less than the next head.
3. Where k is less than there are runs, so that most give one or none, `AHEAD` times as many are
   sought at once and put in order. They are the *front*: the next gets are given what it begins
   with. What comes and is less than its last is put in, all of it with the next get.
4. What comes alone, or in a few, and what would be one run too many, is in a row of elements
   beside them: so to find a place by its rank looks at `RUNS_MAX` runs at most.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from heapq import heapify, heappop, heapreplace
from itertools import chain, islice, repeat
from operator import itemgetter
from typing import Final, NamedTuple, overload

from snowmelt.core.interval import Interval
from snowmelt.core.pieces import Edges
from snowmelt.protocols.select.elements import Element
from snowmelt.protocols.select.ordered import Ordered, Ranked

RUN_MIN: Final = 8
RUNS_MAX: Final = 1_024
LEAP: Final = 16
"""Fewer are found by a walk."""
SAMPLED: Final = 64
"""So many runs are looked at for bounds, or up to twice as many."""
SAMPLE: Final = 256
"""So many keys of them, or up to twice as many."""
LOOKS: Final = 6
"""So often a bound is tried."""
NEAR: Final = 48
"""As far from k a bound should be, or nearer."""
AHEAD: Final = 8
FRONT_MIN: Final = 128
"""So many are put in order at least."""
LATE_MAX: Final = 4_096
"""With more that belongs into the front it is put in order anew."""

Placed = tuple[int, int, int]
"""The key and the position of an element, and the number of the run that it is in."""
_SINGLE: Final = -1
_WHERE: Final = itemgetter(0, 1)


class _Cut(NamedTuple):
    """Where the first ones end."""

    stops: dict[int, int]
    """In the runs that have some of them, by numbers."""
    single: int
    """How many are beside the runs."""


class _Below(NamedTuple):
    """What is below a bound."""

    ends: list[int]
    """Where it ends in each run."""
    single: int
    """How many are beside the runs."""
    total: int


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
        return Element(self.keys[at], self.places[at])


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
        self._front: list[Placed] = []
        """The first ones of all, in order (rule 3)."""
        self._at = 0
        """So many of the front have left."""
        self._late: list[Placed] = []
        """What belongs into the front and has come since it was put in order."""
        self._size = len(self._single)
        self._number = 0

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Element]:
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
        if isinstance(one, Element):
            self._add(one)
            return
        if len(one) < RUN_MIN or len(self._runs) == RUNS_MAX:  # rule 4
            for at in range(len(one)):
                self._add(one.element(at))
            return
        self._size += len(one)
        self._number += 1
        self._runs[self._number] = one
        if not self._front or one.keys[0] > self._front[-1][0]:
            return
        stop = bisect_right(one.keys, self._front[-1][0])
        if stop + len(self._late) > LATE_MAX:
            self._front, self._late, self._at = [], [], 0
        else:
            self._late += zip(one.keys[:stop], one.places[:stop], repeat(self._number))

    def _add(self, one: Element) -> None:
        self._size += 1
        self._single.add(one)
        if self._front and one.priority <= self._front[-1][0]:
            self._late.append((one.priority, one.id, _SINGLE))

    def take(self, count: int) -> list[Interval]:
        """Takes out the first ones: where they stand, in the order of that."""
        count = min(count, self._size)
        if not count:
            return []
        if count < len(self._runs):
            return self._take_front(count)
        self._front, self._late, self._at = [], [], 0
        cut = self._cut(count)
        starts: list[int] = []
        stops: list[int] = []
        for number, stop in cut.stops.items():
            run = self._runs[number]
            places = run.places
            if type(places) is range:  # as mostly
                starts.append(places[run.at])
                stops.append(places[stop - 1] + 1)
            else:
                some = places[run.at : stop]
                starts += some
                stops += [at + 1 for at in some]
            self._leave(number, stop)
        alone = [one.id for one in self._single.take(cut.single)]
        starts += alone
        stops += [at + 1 for at in alone]
        self._size -= count
        return _intervals(starts, stops)

    def _take_front(self, count: int) -> list[Interval]:
        """Rule 3."""
        if self._late:
            last = self._front[-1]
            more = [one for one in self._late if one < last]
            self._front = sorted(self._front[self._at :] + more)
            self._late, self._at = [], 0
        if len(self._front) < self._at + count:
            self._front, self._at = self._ahead(max(FRONT_MIN, AHEAD * count)), 0
        _, places, numbers = zip(*self._front[self._at : self._at + count], strict=True)
        self._at += count
        self._size -= count
        counts = Counter(numbers)
        self._single.take(counts.pop(_SINGLE, 0))
        for number, left in counts.items():
            self._leave(number, self._runs[number].at + left)
        return _intervals(list(places), [place + 1 for place in places])

    def _leave(self, number: int, stop: int) -> None:
        """The first ones of a run have left."""
        run = self._runs[number]
        run.at = stop
        if stop == len(run.keys):
            del self._runs[number]

    def _ahead(self, count: int) -> list[Placed]:
        """The first ones of all, so many or some more, in order."""
        count = min(count, self._size)
        above = self._bounds(count, count)[1] if count >= LEAP else None
        if above is None or above.total > 2 * count:
            return self._ordered(self._walk(count))
        stops = dict(zip(self._runs, above.ends, strict=True))
        return self._ordered(_Cut(stops, above.single))

    def _ordered(self, cut: _Cut) -> list[Placed]:
        first = [(one.priority, one.id, _SINGLE) for one in islice(self._single, cut.single)]
        for number, stop in cut.stops.items():
            run = self._runs[number]
            if run.at < stop:
                first += zip(run.keys[run.at : stop], run.places[run.at : stop], repeat(number))
        first.sort()
        return first

    def rank(self, element: Element) -> int:
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
        first = self._ordered(self._cut(min(count, self._size)))
        return [Element(key, place) for key, place, _ in first]

    def _cut(self, count: int) -> _Cut:
        """Where the first ones end (rule 2)."""
        below, above = self._bounds(count, NEAR) if count >= LEAP else (None, None)
        if below is None or above is None or above.total - below.total > count + 2 * NEAR:
            return self._walk(count)
        return self._between(below, above, count)

    def _walk(self, left: int) -> _Cut:
        runs, stops, single = self._runs, dict[int, int](), 0
        heads = [(run.keys[run.at], run.places[run.at], one) for one, run in runs.items()]
        singles = iter(self._single)
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
                bound, place, _ = heads[1] if len(heads) == 2 else min(heads[1], heads[2])
                stop = start + 1
                if stop < last and keys[stop] <= bound:
                    stop = bisect_left(keys, bound, stop, last)
                    if stop < last and keys[stop] == bound:
                        alike = bisect_right(keys, bound, stop, last)
                        stop = bisect_left(run.places, place, stop, alike)
            stops[number], left = stop, left - (stop - start)
            if stop < len(keys):
                heapreplace(heads, (keys[stop], run.places[stop], number))
            else:
                heappop(heads)
        return _Cut(stops, single)

    def _bounds(self, count: int, near: int) -> tuple["_Below | None", "_Below | None"]:
        """Two bounds about as near to so many as that, if they are found (rule 2)."""
        if len(self._runs) < 2:
            return None, None
        runs = list(self._runs.values())
        keys, firsts = [run.keys for run in runs], [run.at for run in runs]
        sample, reach = _sample(runs, count)
        begun, low, high = sum(firsts), 0, len(sample) - 1
        below, above = _Below(firsts, 0, 0), None
        for _ in range(LOOKS):
            most = reach if above is None else above.total
            lower = above is not None and above.total - count <= near
            aim = count + (-near if lower else near) // 2 - below.total
            at = low + aim * (high + 1 - low) // max(1, most - below.total)
            at = max(low, min(high, at))
            single = self._single.rank(Element(sample[at], 0))
            ends = list(map(bisect_left, keys, repeat(sample[at]), firsts))
            found = _Below(ends, single, sum(ends) - begun + single)
            if found.total < count:
                low, below = at + 1, found
            else:
                high, above = at - 1, found
            if low > high or (above is not None and above.total - below.total <= 2 * near):
                break
        return below, above

    def _between(self, below: "_Below", above: "_Below", count: int) -> _Cut:
        """What is below one bound, and the first ones of what is below the other."""
        between = islice(self._single, below.single, above.single)
        rest = [(one.priority, one.id, _SINGLE) for one in between]
        stops: dict[int, int] = {}
        for (number, run), start, stop in zip(
            self._runs.items(), below.ends, above.ends, strict=True
        ):
            if run.at < start:
                stops[number] = start
            if start < stop:
                rest += zip(run.keys[start:stop], run.places[start:stop], repeat(number))
        rest.sort()
        more = Counter([number for _, _, number in rest[: count - below.total]])
        single = below.single + more.pop(_SINGLE, 0)
        for number, some in more.items():
            stops[number] = stops.get(number, self._runs[number].at) + some
        return _Cut(stops, single)

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


def _intervals(starts: list[int], stops: list[int]) -> list[Interval]:
    """As the fewest, in order; none of them is in another."""
    edges = Edges.joined(starts, stops)
    return list(map(Interval, edges.starts, edges.stops))


def _sample(runs: Sequence[Run], count: int) -> tuple[list[int], int]:
    """Some keys about where the first so many end, and how many are below the last, roughly."""
    some = runs[:: 1 + len(runs) // SAMPLED]
    each = 2 * count // len(runs) + 2
    step = 1 + each * len(some) // (2 * SAMPLE)
    sample = [one.keys[one.at : one.at + each : step] for one in some]
    return sorted(chain.from_iterable(sample)), each * len(runs)


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
