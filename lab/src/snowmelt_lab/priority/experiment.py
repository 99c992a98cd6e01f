"""An experiment with the machines: `OverlayNode` with `Skeap` or `Seap` in synchronous rounds."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from snowmelt.core.names import NodeId
from snowmelt.core.node import Effect, Send
from snowmelt_lab.machines.overlay import DeBruijnTree, Ring
from snowmelt_lab.machines.overlay.messages import Routed, Word
from snowmelt_lab.machines.overlay.node import OverlayNode
from snowmelt_lab.machines.overlay.station import RingStation
from snowmelt_lab.overlay.arrays import name
from snowmelt_lab.priority.load import GET, Load
from snowmelt_lab.priority.options import PriorityOptions, Protocol
from snowmelt_lab.priority.seap import Seap
from snowmelt_lab.priority.skeap import Operation, Skeap
from snowmelt_world.check.conservation import check_conservation
from snowmelt_world.check.heap import check_heap
from snowmelt_world.check.history import History, Kind, Value
from snowmelt_world.check.history import Operation as Told
from snowmelt_world.check.sequence import check_linear, check_sequence
from snowmelt_world.check.verdict import Invalid, Valid, Verdict
from snowmelt_world.rounds import Rounds

PATIENCE: Final = 8
"""So many more waves than there is load for: then something hangs."""
PHASES_PATIENCE: Final = 96
"""The same where a phase takes many waves."""


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """What came out. Rounds are an operation's own, rule 3 of the package."""

    rounds_mean: float
    rounds_p99: int
    rounds_waiting_mean: float
    """Until the next wave takes the operation along."""
    rounds_climbing_mean: float
    """From then until its position is known."""
    rounds_table_mean: float
    """From then until it is done."""
    congestion_max: int
    """The most messages that any node took in one round."""
    message_bits_max: int
    tree_height: int
    """In virtual nodes."""
    tree_height_hops: int
    """In hops between nodes."""
    routing_hops_mean: float
    """Between nodes, of what is put and got at its position."""
    operations: int
    found_nothing: int
    """Gets, of these."""
    elements_most: float
    """At one node in the end, against the mean; 0 when there are none."""
    rounds: int
    """Of the whole."""
    consistent: bool
    wrong: str | None


class Experiment:
    def __init__(
        self, options: PriorityOptions, make: Callable[..., Skeap | Seap] | None = None
    ) -> None:
        self.options: Final = options
        self.phased: Final = options.protocol is Protocol.SEAP
        make = make or (Seap if self.phased else Skeap)
        self._round: int = 0
        self.names: Final = [name(number) for number in range(options.nodes)]
        ring = Ring(self.names, options.salt)
        self.tree: Final = DeBruijnTree(ring)
        self.families: Final = [
            make(one, options.salt, options.rows, lambda: self._round) for one in self.names
        ]
        self.hops = 0
        self._height = height_in_hops(self.tree)
        self.nodes: Final[dict[NodeId, OverlayNode]] = {
            one: OverlayNode(one, options.salt, family, ring, sync=True)
            for one, family in zip(self.names, self.families, strict=True)
        }
        self.rounds: Final = Rounds(dict(self.nodes), watch=self._count)

    def run(self) -> Iterator[int]:
        """Until every operation is done; tells each wave that is over."""
        wave = 2 * self._height
        due = self._asked(Load(self.options, wave))
        patience = PHASES_PATIENCE if self.phased else PATIENCE
        last = (self.options.waves + patience) * wave + 64 * wave.bit_length()
        left = self.options.operations
        done = 0
        while done < left:
            self._round += 1
            assert self._round <= last, f"{left - done} operations are not done"
            for number, operation in due.pop(self._round, ()):
                self.families[number].ask(operation)
            self.rounds.step()
            done = sum(len(family.done) for family in self.families)
            if self._round % wave == 0 and self._round <= self.options.waves * wave:
                yield self._round // wave

    def _asked(self, load: Load) -> dict[int, list[tuple[int, Operation]]]:
        due: dict[int, list[tuple[int, Operation]]] = {}
        rows = zip(load.rounds.tolist(), load.priorities.tolist(), strict=True)
        for number, (rounds, priorities) in enumerate(rows):
            for ticket, (made, priority) in enumerate(zip(rounds, priorities, strict=True)):
                one = Operation(ticket, None if priority == GET else priority, made)
                due.setdefault(made, []).append((number, one))
        return due

    def _count(self, _: NodeId, effect: Effect[Any]) -> None:
        match effect:
            case Send(_, Word(body=Routed())):
                self.hops += 1

    @property
    def done(self) -> list[Operation]:
        """Node after node, each in its own order."""
        return [
            one for each in self.families for one in sorted(each.done, key=lambda one: one.ticket)
        ]

    @property
    def stored(self) -> list[int]:
        return [
            family.elements
            + sum(
                len(station.virtual.table.stored)
                for station in node.stations.values()
                if isinstance(station, RingStation)
            )
            for node, family in zip(self.nodes.values(), self.families, strict=True)
        ]

    def measured(self) -> Measured:
        operations, statistics = self.done, self.rounds.statistics()
        routed = sum(one.at is not None for one in operations)
        columns = [(one.made, one.begun, one.granted, one.done) for one in operations]
        verdict = judged(self.names, self.families, phased=self.phased)
        wrong = str(verdict) if isinstance(verdict, Invalid) else None
        return told(
            np.array(columns),
            congestion_max=statistics.busiest,
            message_bits_max=statistics.bits_max,
            tree_height=self.tree.height,
            tree_height_hops=self._height,
            routing_hops_mean=round(self.hops / max(1, routed), 3),
            found_nothing=len(operations) - routed,
            elements_most=most_of_mean(np.array(self.stored)),
            rounds=statistics.rounds,
            consistent=wrong is None,
            wrong=wrong,
        )


def told(times: NDArray[np.int64], **others: Any) -> Measured:
    """Adds what follows from the rounds of all operations: made, begun, granted, done."""
    made, begun, granted, done = times.T
    rounds = done - made
    return Measured(
        rounds_mean=_mean(rounds),
        rounds_p99=int(np.quantile(rounds, 0.99, method="higher")),
        rounds_waiting_mean=_mean(begun - made),
        rounds_climbing_mean=_mean(granted - begun),
        rounds_table_mean=_mean(done - granted),
        operations=len(times),
        **others,
    )


def _mean(values: NDArray[np.int64]) -> float:
    return round(float(values.mean()), 3)


def most_of_mean(counts: NDArray[np.int64]) -> float:
    """The most, the mean being 1."""
    return round(float(counts.max() / counts.mean()), 3) if counts.any() else 0.0


def height_in_hops(tree: DeBruijnTree) -> int:
    """Of the tree, where edges within a node cost nothing."""
    depths: dict[Any, int] = {}
    for one in tree.ring.virtuals:  # a parent lies left of its children
        above = tree.parent(one.place)
        far = 0 if above is None else depths[above] + (above.node != one.node)
        depths[one.place] = far
    return max(depths.values())


def judged(names: list[NodeId], families: Sequence[Skeap | Seap], *, phased: bool) -> Verdict:
    """The one order, by the checkers.

    For sequential consistency a node's operations count as called one after another, which is more
    than a node that does not wait for answers is owed otherwise. Phases give no such order: there
    what was answered before another was asked for, by whomever, comes before it.
    """
    rows = [
        (node, sorted(family.done, key=lambda one: one.ticket))
        for node, family in zip(names, families, strict=True)
    ]
    turns = [
        _told(node, one, 2 * turn, 2 * turn + 1)
        for node, row in rows
        for turn, one in enumerate(row)
    ]
    history = History.of(
        [_told(node, one, one.made, one.done) for node, row in rows for one in row]
    )
    verdicts = (
        check_linear(history) if phased else check_sequence(History.of(turns)),
        check_heap(history),
        check_conservation(history),
        _once(history),
    )
    return next((one for one in verdicts if isinstance(one, Invalid)), verdicts[0])


def _told(node: NodeId, one: Operation, called: int, returned: int) -> Told:
    kind = Kind.GET if one.priority is None else Kind.PUT
    values = () if one.element is None else (one.element,)
    priorities, positions = ((one.at[0],), (one.at[1],)) if one.at else ((), ())
    return Told(
        str(node), kind, values, called, returned,
        priorities=priorities, positions=positions, orders=(one.order,),
    )  # fmt: skip


def _once(history: History) -> Verdict:
    """Nothing is leased here: an element is got once."""
    gets: dict[Value, Told] = {}
    for one in history.succeeded(Kind.GET):
        for value in one.values:
            if value in gets:
                return Invalid("once", f"{value!r} was got twice", (gets[value], one))
            gets[value] = one
    return Valid("once")


def run(options: PriorityOptions) -> Measured:
    """One experiment.

    >>> told = run(PriorityOptions(nodes=5, ops_per_node=2, waves=2))
    >>> told.operations, told.consistent
    (20, True)
    """
    experiment = Experiment(options)
    for _ in experiment.run():
        pass
    return experiment.measured()
