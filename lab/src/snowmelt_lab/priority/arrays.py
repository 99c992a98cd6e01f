"""The same experiment in arrays: what the tree does is known beforehand, and routes are walked."""

from collections import deque
from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from snowmelt_lab.machines.overlay.labels import Kind, key
from snowmelt_lab.machines.skeap.anchor import Anchor
from snowmelt_lab.machines.skeap.batches import Batch, Grant, Shares
from snowmelt_lab.overlay.arrays import Circle, Indices, Labels
from snowmelt_lab.priority.experiment import Measured, most_of_mean, told
from snowmelt_lab.priority.load import GET, Load
from snowmelt_lab.priority.options import PriorityOptions
from snowmelt_lab.priority.sizes import bits_max, counted
from snowmelt_lab.priority.tree import NOWHERE, Operations, Waves


def placed(options: PriorityOptions, waves: Waves, load: Load) -> tuple[Operations, list[Grant]]:
    """Phases 1 to 3: a position for each operation, as the anchor gives them to whole batches."""
    one = _sorted(waves, load)
    anchor, grants = Anchor(options.rows), list[Grant]()
    borders = np.flatnonzero(np.diff(one.waves)) + 1
    for part in np.split(np.arange(len(one.nodes)), borders):
        runs = np.split(part, np.flatnonzero(np.diff(one.runs[part])) + 1)
        batch = Batch(tuple([counted(one.priorities[run], options.rows) for run in runs]))
        grants.append(anchor.granted(batch))
        for run, granted in zip(runs, grants[-1].runs, strict=True):
            puts, gets = run[one.priorities[run] != GET], run[one.priorities[run] == GET]
            one.orders[puts] = granted.order + np.arange(len(puts))
            for share in granted.puts:
                mine = puts[one.priorities[puts] == share.priority]
                one.rows[mine], one.positions[mine] = _spread((share,))
            rows, positions = _spread(granted.gets)
            one.orders[gets] = granted.got_order + np.minimum(np.arange(len(gets)), len(rows))
            one.rows[gets[: len(rows)]] = rows
            one.positions[gets[: len(rows)]] = positions
    return one, grants


def _sorted(waves: Waves, load: Load) -> Operations:
    nodes, turns = (each.ravel() for each in np.indices(load.rounds.shape))
    made, priorities = load.rounds.ravel(), load.priorities.ravel()
    entries = waves.circle.places[Kind.LEFT][nodes]
    numbers = waves.taken_by(made, entries)
    gets = priorities == GET
    same = np.zeros(len(nodes), np.bool_)
    same[1:] = (nodes[1:] == nodes[:-1]) & (numbers[1:] == numbers[:-1])
    cuts = np.zeros(len(nodes), np.int64)
    cuts[1:] = same[1:] & gets[:-1] & ~gets[1:]
    total = np.cumsum(cuts)
    begins = np.maximum.accumulate(np.where(same, 0, np.arange(len(nodes))))
    runs = total - total[begins]
    order = np.lexsort((turns, waves.ranks[entries], gets, runs, numbers))
    empty = np.full(len(nodes), NOWHERE, np.int64)
    return Operations(
        nodes=nodes[order],
        turns=turns[order],
        made=made[order],
        priorities=priorities[order],
        waves=numbers[order],
        runs=runs[order],
        orders=empty.copy(),
        rows=empty.copy(),
        positions=empty.copy(),
    )


def _spread(shares: Shares) -> tuple[Indices, Indices]:
    if not shares:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    rows = [np.full(share.positions.size, share.priority) for share in shares]
    parts = [np.arange(share.positions.start, share.positions.stop) for share in shares]
    return np.concatenate(rows), np.concatenate(parts)


class Arrays:
    def __init__(self, options: PriorityOptions) -> None:
        self.options: Final = options
        self.circle: Final = Circle(options.nodes, options.salt)
        self.waves: Final = Waves(self.circle)
        load = Load(options, 2 * self.waves.height)
        self.one, self.grants = placed(options, self.waves, load)
        entries = self.circle.places[Kind.LEFT][self.one.nodes]
        self.granted: Final = self.waves.answered(self.one.waves, entries)
        self.begun: Final = np.choose(
            np.minimum(self.one.waves, 2) - 1,
            [self.waves.sent(1, entries), self._sent_later(entries)],
        )
        self.done: Final = self.granted.copy()
        self._met: list[Indices] = []
        """Of each message, node and round in which it was taken, as one number."""
        self._hops = 0

    def _sent_later(self, entries: Indices) -> Indices:
        return self.waves.sent(2, entries) + (self.one.waves - 2) * 2 * self.waves.height

    def run(self) -> Iterator[int]:
        arrived = np.full(len(self.one.nodes), NOWHERE, np.int64)
        keepers = np.full(len(self.one.nodes), NOWHERE, np.int64)
        for wave in range(1, int(self.one.waves.max()) + 1):
            who = np.flatnonzero((self.one.waves == wave) & self.one.found)
            arrived[who], keepers[who] = self._routed(who)
            yield wave
        self._answer(arrived, keepers)

    def _routed(self, who: Indices) -> tuple[Indices, Indices]:
        if not len(who):
            return who, who
        starts, granted = self.one.nodes[who], self.granted[who]

        rounds = granted.copy()

        def watch(moved: Indices, here: Indices) -> None:
            rounds[moved] += 1
            self._take(self.circle.owners[here[moved]], rounds[moved])

        ends, _, away = self.circle.routes(starts, self._keys(who), watch)
        self._hops += int(away.sum())
        return granted + away, self.circle.owners[ends]

    def _keys(self, who: Indices) -> Labels:
        salt = self.options.salt
        rows, positions = self.one.rows[who].tolist(), self.one.positions[who].tolist()
        pairs = zip(rows, positions, strict=True)
        return np.array([key(salt, row, position) for row, position in pairs], np.uint64)

    def _answer(self, arrived: Indices, keepers: Indices) -> None:
        """A get is answered when its put has come too."""
        one = self.one
        gets = one.found & (one.priorities == GET)
        puts = np.flatnonzero(one.priorities != GET)
        names = one.rows * (int(one.positions.max()) + 1) + one.positions
        puts = puts[np.argsort(names[puts])]
        theirs = puts[np.searchsorted(names[puts], names[gets])]
        met = arrived.copy()
        met[gets] = np.maximum(arrived[gets], arrived[theirs])
        found = np.flatnonzero(one.found)
        away = found[keepers[found] != one.nodes[found]]
        self.done[found] = met[found]
        self.done[away] += 1
        self._take(one.nodes[away], self.done[away])
        kept = np.bincount(keepers[puts], minlength=self.options.nodes)
        self.stored: NDArray[np.int64] = kept - np.bincount(
            keepers[gets], minlength=self.options.nodes
        )

    def _take(self, nodes: Indices, rounds: Indices) -> None:
        self._met.append(nodes * (1 << 32) + rounds)

    def congestion(self) -> int:
        """The most messages that a node takes in a round, up to the last one."""
        last = int(self.done.max())
        waves, owners = self.waves, self.circle.owners
        below = np.flatnonzero(owners[waves.above] != owners)
        number = 1
        while (2 * number - 3) * waves.height <= last:
            self._take(owners[waves.above[below]], waves.sent(number, below) + 1)
            self._take(owners[below], waves.answered(np.array(number), below))
            number += 1
        met = np.concatenate(self._met)
        _, counts = np.unique(met[met % (1 << 32) <= last], return_counts=True)
        return int(counts.max())

    def measured(self) -> Measured:
        one = self.one
        routed = int(one.found.sum())
        wrong = replayed(one)
        return told(
            np.stack([one.made, self.begun, self.granted, self.done], axis=1),
            congestion_max=self.congestion(),
            message_bits_max=bits_max(
                self.waves, one, self.grants, self.options.rows, self.options.salt
            ),
            tree_height=int(self.circle.depths().max()),
            tree_height_hops=self.waves.height,
            routing_hops_mean=round(self._hops / max(1, routed), 3),
            found_nothing=len(one.nodes) - routed,
            elements_most=most_of_mean(self.stored),
            rounds=int(self.done.max()),
            consistent=wrong is None,
            wrong=wrong,
        )


def replayed(one: Operations) -> str | None:
    """What is wrong when all is done one after another in the one order; None when nothing is."""
    own = np.lexsort((one.turns, one.nodes))
    same = np.diff(one.nodes[own]) == 0
    turned = (np.diff(one.orders[own]) < 0) & same
    if turned.any():
        return f"node {one.nodes[own[np.argmax(turned)]]} has an operation before its last one"
    rows: list[deque[int]] = [deque() for _ in range(int(one.rows.max()) + 1)]
    order = np.lexsort((~one.found, one.orders))  # what found nothing comes last
    columns = (one.priorities, one.rows, one.positions, one.orders)
    for wanted, row, position, at in zip(*(each[order].tolist() for each in columns), strict=True):
        if wanted != GET:
            rows[row].append(position)
            continue
        least = next((number for number, each in enumerate(rows) if each), NOWHERE)
        if least != row or (row != NOWHERE and rows[row].popleft() != position):
            return f"the get of order {at} had {row}, {position}: not the most urgent"
    return None


def run(options: PriorityOptions) -> Measured:
    """One experiment.

    >>> told = run(PriorityOptions(nodes=5, ops_per_node=2, waves=2))
    >>> told.operations, told.consistent
    (20, True)
    """
    arrays = Arrays(options)
    for _ in arrays.run():
        pass
    return arrays.measured()
