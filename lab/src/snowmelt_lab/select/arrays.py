"""The same selection in arrays: what nodes answer, and when, all at once."""

from collections.abc import Iterator
from typing import Final

import msgspec
import numpy as np

from snowmelt_lab.machines.select import Selection, Window, steps
from snowmelt_lab.machines.select.candidates import salted
from snowmelt_lab.machines.select.elements import Element
from snowmelt_lab.overlay.arrays import Circle, Indices, Mask
from snowmelt_lab.select import sizes
from snowmelt_lab.select.experiment import Measured, told
from snowmelt_lab.select.load import Load
from snowmelt_lab.select.options import SelectOptions
from snowmelt_lab.select.sorting import Sample, Sorts
from snowmelt_lab.select.waves import Traffic, Tree

_NONE: Final = -1


def hashed(start: int, numbers: Indices) -> Indices:
    """As `candidates.hashed`, of many.

    >>> hashed(0, np.array([1, 2])).tolist()
    [1853398634, 113532184]
    """
    with np.errstate(over="ignore"):
        step = np.uint64(0x9E3779B97F4A7C15)
        z = np.uint64(start) + (numbers.astype(np.uint64) + np.uint64(1)) * step
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        found: Indices = ((z ^ (z >> np.uint64(31))) >> np.uint64(32)).astype(np.int64)
    return found


class Reply(msgspec.Struct):
    answer: steps.Answer
    ready: Indices
    """In which round each node has its own."""
    bytes_max: int


class Arrays:
    """An experiment. Elements are known by their rank here, from 0 on."""

    def __init__(self, options: SelectOptions) -> None:
        self.options: Final = options
        self.circle: Final = Circle(options.nodes, options.salt)
        self.tree: Final = Tree(self.circle)
        self.load: Final = Load(options, self.circle)
        self.selection: Final = Selection(options.rank, options.mode.plan())
        self.rounds = 0
        self.waves = 0
        self.bytes_max = 0
        self._traffic = Traffic(options.nodes)
        self._sorts = Sorts(self.tree, options.salt, self._traffic)
        self._held: Indices = np.sort(self.load.owners * options.elements + self._all)
        """Of each node's elements in order: rank, beyond node times elements."""
        self._bytes: Indices = (
            sizes.of_numbers(self.load.priorities) + sizes.of_numbers(self.load.ids) - 2
        )
        self._drawn: Indices = np.empty(0, np.int64)

    @property
    def _all(self) -> Indices:
        return np.arange(self.options.elements)

    # --- waves ------------------------------------------------------------------------------------

    def run(self) -> Iterator[int]:
        granted = np.zeros(3 * self.options.nodes, np.int64)
        reply = self._counted()
        while True:
            self.waves += 1
            self._up(granted, reply)
            step = self.selection.answered(reply.answer)
            yield self.waves
            self._down(step)
            if isinstance(step, steps.Done):
                return
            granted = self.rounds + self.tree.depths
            below = np.flatnonzero(self.tree.crosses)
            self._traffic.take(self.circle.owners[below], granted[below])
            reply = self._reply(step, granted[self.tree.entries])

    def _up(self, granted: Indices, reply: Reply) -> None:
        ready = granted.copy()
        ready[self.tree.entries] = reply.ready
        sent = self.tree.sent(ready)
        below = np.flatnonzero(self.tree.crosses)
        above = self.circle.owners[self.tree.above[below]]
        self._traffic.take(above, sent[below] + 1)
        self.rounds = int(sent[0])
        self._traffic.wave_over(self.rounds)
        self.bytes_max = max(self.bytes_max, reply.bytes_max, self._sorts.bytes_max)

    def _down(self, step: steps.Step) -> None:
        """The sizes of what goes down; the end is sent by the anchor's node only, so far."""
        if not self.tree.crosses.any():
            return
        base = sizes.down(self.waves, step)
        if isinstance(step, steps.Sort):
            before = np.zeros(len(self.tree.above), np.int64)
            nodes = self.load.owners[self._drawn]
            ranks = np.sort(self.tree.ranks[self.tree.entries[nodes]])
            before = np.searchsorted(ranks, self.tree.ranks[self.tree.crosses])
            base += int(sizes.of_numbers(before + step.start).max()) - 1
        self.bytes_max = max(self.bytes_max, base)

    # --- what nodes answer ------------------------------------------------------------------------

    def _reply(self, step: steps.Step, granted: Indices) -> Reply:
        match step:
            case steps.Ranks() | steps.EqualRanks():
                return self._ranked(step, granted)
            case steps.Draw():
                return self._draw(step, granted)
            case steps.Sort():
                return self._sorted(step, granted)
            case steps.Done():
                raise AssertionError("no more is asked")

    def _counted(self) -> Reply:
        nodes = self.options.nodes
        counts = np.bincount(self.load.owners, minlength=nodes)
        ones = np.ones(nodes, np.int64)
        largest = self._sums(sizes.up(self.waves + 1, steps.Counts(0, 0)), ones, counts)
        return Reply(steps.Counts(nodes, self.options.elements), np.zeros(nodes, np.int64), largest)

    def _sums(self, base: int, *values: Indices) -> int:
        """Bytes of the largest batch of these sums."""
        if not self.tree.crosses.any():
            return 0
        sums = [self.tree.summed(each)[self.tree.crosses] for each in values]
        return base + int(np.max(sum(sizes.of_numbers(each) - 1 for each in sums)))

    def _ranked(self, step: steps.Ranks | steps.EqualRanks, granted: Indices) -> Reply:
        first, counts = self._parts(self._span(step.candidates))
        if isinstance(step, steps.Ranks):
            tells = counts >= max(1, step.least)
            low = np.maximum(1, step.k * counts // step.count)
            high = np.minimum(counts, np.maximum(1, -(-step.k * counts // step.count)))
        else:
            tells = counts > 0
            low, high = np.minimum(step.low, counts), np.minimum(step.high, counts)
        lows = self._at(first + low - 1, tells & (low > 0))
        highs = self._at(first + high - 1, tells & (high > 0))
        return self._bounded(lows, highs, granted)

    def _at(self, places: Indices, who: Mask) -> Indices:
        """The ranks of what nodes have at these places; `_NONE` for those that tell nothing."""
        ranks = np.full(len(places), _NONE)
        ranks[who] = self._held[places[who]] % self.options.elements
        return ranks

    def _bounded(self, lows: Indices, highs: Indices, ready: Indices) -> Reply:
        """The least and the greatest of what nodes tell."""
        m = self.options.elements
        low = m - 1 - self.tree.greatest(np.where(lows == _NONE, _NONE, m - 1 - lows))
        high = self.tree.greatest(highs)
        answer = steps.Bounds(
            self.load.element(int(low[0])) if low[0] < m else None,
            self.load.element(int(high[0])) if high[0] >= 0 else None,
        )
        if not self.tree.crosses.any():
            return Reply(answer, ready, 0)
        nothing = sizes.up(self.waves + 1, steps.Bounds())
        one = sizes.up(self.waves + 1, steps.Bounds(Element(0, 0))) - nothing
        padded = np.append(one + self._bytes, 0)  # the last for none, by index m or -1
        both = padded[low[self.tree.crosses]] + padded[high[self.tree.crosses]]
        return Reply(answer, ready, nothing + int(both.max()))

    def _draw(self, step: steps.Draw, granted: Indices) -> Reply:
        start, stop = self._span(step.candidates)
        cut_start, cut_stop = self._span(step.cut)
        begin = salted(self.options.salt, step.number)
        ranks = self._all[cut_start:cut_stop]
        if step.chance < steps.SURE:
            ranks = ranks[hashed(begin, self.load.ids[cut_start:cut_stop]) < step.chance]
        self._drawn = ranks
        nodes = self.options.nodes
        _, before = self._parts((start, cut_start))
        _, behind = self._parts((cut_stop, stop))
        drawn = np.bincount(self.load.owners[ranks], minlength=nodes)
        largest = self._sums(sizes.up(self.waves + 1, steps.Drawn(0, 0, 0)), before, behind, drawn)
        answer = steps.Drawn(int(before.sum()), int(behind.sum()), len(ranks))
        return Reply(answer, granted, largest)

    def _sorted(self, step: steps.Sort, granted: Indices) -> Reply:
        owners = self.load.owners[self._drawn]
        order = np.lexsort((self._drawn, self.tree.ranks[self.tree.entries[owners]]))
        ranks, owners = self._drawn[order], owners[order]
        places = np.argsort(np.argsort(ranks)) + 1
        sample = Sample(step.number, owners, granted[owners], places, self._bytes[ranks])
        ready = granted.copy()
        if len(ranks):
            np.maximum.at(ready, owners, self._sorts.known(sample))
        lows, highs = (self._told(place, owners, ranks, places) for place in (step.low, step.high))
        return self._bounded(lows, highs, ready)

    def _told(self, place: int, owners: Indices, ranks: Indices, places: Indices) -> Indices:
        found = np.full(self.options.nodes, _NONE)
        at = places == place
        found[owners[at]] = ranks[at]
        return found

    def _span(self, window: Window) -> tuple[int, int]:
        start = 0 if window.start is None else self.load.rank(window.start)
        stop = self.options.elements if window.stop is None else self.load.rank(window.stop)
        return start, max(start, stop)

    def _parts(self, span: tuple[int, int]) -> tuple[Indices, Indices]:
        """Of what each node has between two ranks: where it begins, and how many there are."""
        base = np.arange(self.options.nodes) * self.options.elements
        first, last = (np.searchsorted(self._held, base + rank) for rank in span)
        return first, last - first

    def measured(self) -> Measured:
        return told(
            self.load,
            self.selection,
            rounds=self.rounds,
            waves=self.waves,
            congestion=self._traffic.most,
            bits=8 * self.bytes_max,
        )


def run(options: SelectOptions) -> Measured:
    """One selection.

    >>> told = run(SelectOptions(nodes=5, elements=30, k=30))
    >>> told.exact, told.rank
    (True, 30)
    """
    return ran(options).measured()


def ran(options: SelectOptions) -> Arrays:
    arrays = Arrays(options)
    for _ in arrays.run():
        pass
    return arrays
