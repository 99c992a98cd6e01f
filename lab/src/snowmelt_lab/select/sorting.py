"""Distributed sorting in arrays: when each element's place is known (rules 8 to 11)."""

from typing import Final

import msgspec
import numpy as np

from snowmelt.core.names import NodeId
from snowmelt_lab.machines.select.elements import Element
from snowmelt_lab.machines.select.sorting import Branch, Copy, Smaller, meeting, root
from snowmelt_lab.overlay.arrays import Indices, Labels, Mask, Watch, name
from snowmelt_lab.select import sizes
from snowmelt_lab.select.waves import Traffic, Tree

_ONE: Final = np.uint64(1)
_HALF: Final = np.uint64(1 << 63)
_NAME: Final[NodeId] = name(0)
_ELEMENT: Final = Element(0, 0)


class Sample(msgspec.Struct):
    """What is sorted, by number: item i at i - 1."""

    sort: int
    owners: Indices
    begun: Indices
    """In which rounds their owners send them off."""
    places: Indices
    bytes: Indices
    """Of each element, beyond the least that an element takes."""


class _Knots(msgspec.Struct):
    """Places of all trees on one level."""

    items: Indices
    starts: Indices
    stops: Indices
    points: Labels
    keepers: Indices
    """Virtual nodes."""
    rounds: Indices
    above: Indices
    """Of the level above, which."""

    @property
    def copies(self) -> Indices:
        return (self.starts + self.stops) // 2


class Sorts:
    def __init__(self, tree: Tree, salt: str, traffic: Traffic) -> None:
        self._tree: Final = tree
        self._circle: Final = tree.circle
        self._salt: Final = salt
        self._traffic: Final = traffic
        self.bytes_max = 0

    def known(self, sample: Sample) -> Indices:
        """In which round the owner of each element knows its place."""
        levels = [self._roots(sample)]
        while len((below := self._below(sample, levels[-1])).items):
            levels.append(below)
        met, counts = self._met(sample, levels)
        for at in range(len(levels) - 1, 0, -1):
            level, above = levels[at], levels[at - 1]
            to, copies = self._owners(above)[level.above], above.copies[level.above]
            came = self._report(
                sample, self._owners(level), to, met[at], level.items, copies, counts[at]
            )
            np.maximum.at(met[at - 1], level.above, came)
            np.add.at(counts[at - 1], level.above, counts[at])
        assert (counts[0] + 1 == sample.places).all(), "a place is not what was counted"
        top, none = levels[0], np.zeros(len(sample.owners), np.int64)
        return self._report(
            sample, self._owners(top), sample.owners, met[0], top.items, none, counts[0]
        )

    def _owners(self, knots: _Knots) -> Indices:
        owners: Indices = self._circle.owners[knots.keepers]
        return owners

    def _roots(self, sample: Sample) -> _Knots:
        total = len(sample.owners)
        items = np.arange(1, total + 1)
        points = np.array(
            [root(self._salt, sample.sort, item) for item in items.tolist()], np.uint64
        )
        rounds = sample.begun.copy()
        ends, _, away = self._circle.routes(sample.owners, points, self._watch(rounds))
        starts, stops = np.ones(total, np.int64), np.full(total, total + 1)
        self._note_branches(
            sample, items, starts, stops, np.zeros(total, np.int64), away > 0, edge=False
        )
        return _Knots(items, starts, stops, points, ends, rounds, np.arange(total))

    def _below(self, sample: Sample, level: _Knots) -> _Knots:
        copies = level.copies
        parts = []
        for bit, starts, stops in ((0, level.starts, copies), (1, copies + 1, level.stops)):
            who = np.flatnonzero(starts < stops)
            parts.append((who, starts[who], stops[who], np.full(len(who), bit)))
        who, starts, stops, bits = (np.concatenate(each) for each in zip(*parts, strict=True))
        points = (level.points[who] >> _ONE) + np.where(bits == 1, _HALF, np.uint64(0))
        rounds = level.rounds[who].copy()
        here, origins = level.keepers[who], level.points[who]
        ends, _, away = self._circle.edges(here, origins, points, self._watch(rounds))
        self._note_branches(
            sample, level.items[who], starts, stops, copies[who], away > 0, edge=True
        )
        return _Knots(level.items[who], starts, stops, points, ends, rounds, who)

    def _met(self, sample: Sample, levels: list[_Knots]) -> tuple[list[Indices], list[Indices]]:
        """In which round each place of the trees is told of its comparison, and how it went."""
        items = np.concatenate([level.items for level in levels])
        copies = np.concatenate([level.copies for level in levels])
        owners = self._circle.owners[np.concatenate([level.keepers for level in levels])]
        rounds = np.concatenate([level.rounds for level in levels])
        who = np.flatnonzero(items != copies)
        low, high = np.minimum(items, copies)[who], np.maximum(items, copies)[who]
        total = len(sample.owners)
        pairs, which = np.unique(low * (total + 1) + high, return_inverse=True)
        met = np.array(
            [meeting(self._salt, sample.sort, *divmod(pair, total + 1)) for pair in pairs.tolist()],
            np.uint64,
        )
        arrived = rounds[who].copy()
        ends, _, away = self._circle.routes(owners[who], met[which], self._watch(arrived))
        self._note_copies(sample, items[who], copies[who], away > 0)
        both = np.zeros(len(pairs), np.int64)
        np.maximum.at(both, which, arrived)
        smaller = np.zeros(len(items), np.int64)
        smaller[who] = sample.places[copies[who] - 1] < sample.places[items[who] - 1]
        rounds[who] = self._report(
            sample, self._circle.owners[ends], owners[who], both[which],
            items[who], copies[who], smaller[who],
        )  # fmt: skip
        cuts = np.cumsum([len(level.items) for level in levels])[:-1]
        return np.split(rounds, cuts), np.split(smaller, cuts)

    def _report(
        self, sample: Sample, sources: Indices, targets: Indices, rounds: Indices,
        items: Indices, copies: Indices, counts: Indices,
    ) -> Indices:  # fmt: skip
        """Counts go straight to nodes: in which rounds they come."""
        away = sources != targets
        came: Indices = rounds + away
        self._traffic.take(targets[away], came[away])
        base = sizes.letter(Smaller(sample.sort, 0, 0, 0))
        self._note(base, away, items, copies, counts)
        return came

    def _watch(self, rounds: Indices) -> Watch:
        def watch(moved: Indices, here: Indices) -> None:
            rounds[moved] += 1
            self._traffic.take(self._circle.owners[here[moved]], rounds[moved])

        return watch

    # --- sizes ------------------------------------------------------------------------------------

    def _note_branches(
        self, sample: Sample, items: Indices, starts: Indices, stops: Indices,
        copies: Indices, away: Mask, *, edge: bool,
    ) -> None:  # fmt: skip
        body = Branch(sample.sort, 0, _ELEMENT, 0, 0, _NAME, 0)
        more = sample.bytes[items - 1]
        self._note(sizes.visit(body, edge=edge), away, items, starts, stops, copies, more=more)

    def _note_copies(self, sample: Sample, items: Indices, others: Indices, away: Mask) -> None:
        body = Copy(sample.sort, 0, 0, _ELEMENT, _NAME)
        more = sample.bytes[items - 1]
        self._note(sizes.visit(body, edge=False), away, items, others, more=more)

    def _note(self, base: int, away: Mask, *fields: Indices, more: Indices | None = None) -> None:
        """The largest of these messages; those within a node are none."""
        if not away.any():
            return
        beyond = sum(sizes.of_numbers(field[away]) - 1 for field in fields)
        if more is not None:
            beyond = beyond + more[away]
        self.bytes_max = max(self.bytes_max, base + int(np.max(beyond)))
