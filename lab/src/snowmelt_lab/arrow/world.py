"""A small world for many nodes: links that keep the order, clocks that agree, nobody who fails.

Faults are all at the beginning (`corruption.py`). After every step each edge that it touched is
judged (`watch.py`).
"""

from collections import Counter
from collections.abc import Callable, Iterable
from enum import Enum
from heapq import heappop, heappush
from random import Random
from typing import Any, Final

import msgspec

from snowmelt.core.instant import START, Instant
from snowmelt.core.names import NodeId, OperationId
from snowmelt.core.node import (
    Announce,
    Announced,
    CancelTimer,
    Effect,
    Event,
    Expired,
    Received,
    Send,
    SetTimer,
)
from snowmelt.protocols.arrow import (
    ArrowNode,
    ArrowSettings,
    Branch,
    Claim,
    Find,
    Followed,
    Ground,
    OrderPlace,
    RequestPlace,
    TreeNode,
    TreeSettings,
)
from snowmelt.protocols.arrow.edge import Phase
from snowmelt.protocols.arrow.node import EdgeAlarm
from snowmelt.protocols.arrow.tree import TreeAlarm
from snowmelt_lab.arrow.legality import EdgeState, whole_is_legal
from snowmelt_lab.arrow.link import Link, Pace
from snowmelt_lab.arrow.options import ROUND_TRIP, ArrowOptions, Corruption
from snowmelt_lab.arrow.plan import Plan, name_of, number_of, planned
from snowmelt_lab.arrow.watch import Watch

Make = Callable[[NodeId, ArrowSettings, Random], ArrowNode]

Seen = Callable[[int, Event[Any], list[Effect[Any]]], None]


class Due(msgspec.Struct, frozen=True):
    """Something that will happen: a message arrives, or an alarm rings if it is still set."""

    target: int
    source: int | None
    alarm: Enum | None


class World:
    """All nodes of an experiment, in a legal state without finds; the end of the queue is node 0.

    >>> world = World(ArrowOptions(nodes=3))
    >>> world.watch.healed_at
    0
    >>> _ = world.ask(2)
    >>> world.run(Instant(ROUND_TRIP)); world.followed[0].by.node, world.watch.breaks
    ('n0002', 0)
    """

    def __init__(self, options: ArrowOptions, make: Make = ArrowNode) -> None:
        self.options = options
        self.chance: Final = Random(options.seed)
        self.plan: Final[Plan] = planned(options.tree, options.nodes, self.chance)
        self.now = START
        self.sent: Counter[str] = Counter()
        self.finds: Counter[OrderPlace] = Counter()
        """How often a find was sent, by its place."""
        self.followed: list[Followed] = []
        self.tree_at: Instant | None = START
        """Since when every node is right about the tree; None while one is not."""
        self.seen: Seen | None = None
        """Is told of every step: at which node, what came, and what came of it."""
        settings = ArrowSettings(options.timeout)
        self.nodes = [make(name_of(one), settings, self.chance) for one in range(options.nodes)]
        self.trees = _trees(self.plan) if Corruption.TREE in options.corrupt else []
        self.links = _links(self.plan, self.chance)
        self.branches = branches_of(self.plan)
        self._wrong_branches: dict[int, None] = {}
        self._heap: list[tuple[Instant, int, Due]] = []
        self._turn = 0
        self._alarms: dict[tuple[int, Enum], Instant] = {}
        self._asked = 0
        self._excused = 0
        for one in range(options.nodes):
            settle(self.nodes[one], self.branches[one])
        self.begin()

    def begin(self) -> None:
        """Takes the state as it is for the beginning: sets all timers, and judges all edges."""
        timeout = self.options.timeout
        for one, node in enumerate(self.nodes):
            node.due = {child: Instant(self.chance.randint(0, timeout)) for child in node.edges}
            if node.due:
                self._set(one, EdgeAlarm.OBSERVE, min(node.due.values()))
        for one, tree in enumerate(self.trees):
            tree.due = Instant(self.chance.randint(0, ROUND_TRIP))
            self._set(one, TreeAlarm.BEAT, tree.due)
        wrong = [at for at, tree in enumerate(self.trees) if tree.branch != self.branches[at]]
        self._wrong_branches = dict.fromkeys(wrong)
        self.tree_at = None if self._wrong_branches else START
        self.watch = Watch([child for _, child in self.plan.edges], self._is_well)

    # --- what happens -----------------------------------------------------------------------------

    def ask(self, one: int) -> OrderPlace:
        self._asked += 1
        name = OperationId(name_of(one), self._asked)
        self._handle(one, None, Announced(RequestPlace(name)))
        return OrderPlace(name_of(one), name)

    def stray(self, source: int, target: int, message: object, at: Instant) -> None:
        arrival = self.links[source, target].stray(message, at)
        self._plan(arrival, Due(target, source, None))

    def run(self, until: Instant) -> None:
        while self.step(until):
            pass
        self.now = max(self.now, until)

    def step(self, until: Instant) -> bool:
        """Lets the next thing happen, if it is due by then."""
        while self._heap and self._heap[0][0] <= until:
            at, _, due = heappop(self._heap)
            if due.alarm is not None:
                if self._alarms.get((due.target, due.alarm)) != at:
                    continue  # it was set anew
                del self._alarms[due.target, due.alarm]
            self.now = at
            self._happen(due)
            return True
        return False

    # --- what is ----------------------------------------------------------------------------------

    @property
    def healed_at(self) -> Instant | None:
        """Since when all edges are fully legal, on a tree that all nodes know."""
        return None if self.tree_at is None else self.watch.healed_at

    @property
    def closure_breaks(self) -> int:
        """How often a legal edge became another, since all nodes know the tree."""
        return self.watch.breaks - self._excused

    def edge_state(self, child: int) -> EdgeState | None:
        """All there is on the edge above this node; None when one of its ends knows of no edge."""
        parent = self.plan.parents[child]
        assert parent is not None
        above, below = self.nodes[parent], self.nodes[child]
        edge = above.edges.get(below.me)
        if edge is None or below.parent != above.me:
            return None
        return EdgeState(
            above.arrow.points_at == below.me,
            below.arrow.points_at == above.me,
            edge,
            self.links[parent, child].messages,
            self.links[child, parent].messages,
        )

    @property
    def flying(self) -> list[tuple[int, int, OrderPlace]]:
        """All finds on their way in the tree: from whom, to whom, for which place."""
        ways = [way for pair in self.plan.edges for way in (pair, pair[::-1])]
        return [
            (source, target, message.place)
            for source, target in ways
            for message in self.links[source, target].messages
            if isinstance(message, Find)
        ]

    @property
    def whole_is_legal(self) -> bool:
        """Whether all nodes know the tree, and arrows and finds could have come about on it."""
        if self._wrong_branches:
            return False
        points_at = {node.me: node.arrow.points_at for node in self.nodes}
        finds = [(name_of(source), name_of(target)) for source, target, _ in self.flying]
        return whole_is_legal(points_at, finds)

    @property
    def tails(self) -> list[OrderPlace]:
        return [node.arrow.tail for node in self.nodes if node.arrow.is_sink]

    # --- how it goes ------------------------------------------------------------------------------

    def _happen(self, due: Due) -> None:
        if due.alarm is not None:
            self._handle(due.target, None, Expired(due.alarm))
            return
        assert due.source is not None
        message = self.links[due.source, due.target].arrive()
        self._handle(due.target, due.source, Received(name_of(due.source), message))

    def _handle(self, one: int, source: int | None, event: Event[Any]) -> None:
        """Gives an event to whom it is for, and carries out what comes of it."""
        node = self.nodes[one]
        at_first = node.arrow.points_at
        effects = self._answers(one, event)
        met = [at_first, node.arrow.points_at]
        if source is not None:
            met.append(name_of(source))
        for effect in effects:
            match effect:
                case Send(target, message):
                    self._send(one, number_of(target), message)
                    met.append(target)
                case SetTimer(alarm, at):
                    self._set(one, alarm, at)
                case CancelTimer(alarm):
                    self._alarms.pop((one, alarm), None)
                case Announce(Followed() as fact):
                    self.followed.append(fact)
                case Announce(Branch() as branch):
                    met += self._branched(one, branch)
                case _:
                    pass
        node.check()
        self.watch.look(self._edges_between(one, met), self.now)
        if self.tree_at is None:
            self._excused = self.watch.breaks
        if self.seen is not None:
            self.seen(one, event, effects)

    def _answers(self, one: int, event: Event[Any]) -> list[Effect[Any]]:
        match event:
            case Received(_, Claim()) | Expired(TreeAlarm()):
                effects = self.trees[one].handle(event, self.now)
                self.trees[one].check()
            case _:
                return self.nodes[one].handle(event, self.now)
        facts = [effect.fact for effect in effects if isinstance(effect, Announce)]
        told = [self.nodes[one].handle(Announced(fact), self.now) for fact in facts]
        return [*effects, *(effect for each in told for effect in each)]

    def _send(self, source: int, target: int, message: Any) -> None:
        self.sent[type(message).__name__] += 1
        if isinstance(message, Find):
            self.finds[message.place] += 1
        arrival = self.links[source, target].send(message, self.now, self.chance)
        self._plan(arrival, Due(target, source, None))

    def _set(self, one: int, alarm: Enum, at: Instant) -> None:
        if self._alarms.get((one, alarm)) != at:
            self._alarms[one, alarm] = at
            self._plan(at, Due(one, None, alarm))

    def _plan(self, at: Instant, due: Due) -> None:
        self._turn += 1  # what is due at the same time comes in the order it was planned
        heappush(self._heap, (at, self._turn, due))

    # --- what is judged ---------------------------------------------------------------------------

    def _is_well(self, child: int) -> bool:
        state = self.edge_state(child)
        return state is not None and state.fully_legal

    def _branched(self, one: int, branch: Branch) -> list[NodeId]:
        """A node has another idea of the tree; all its edges may be others than before."""
        if branch == self.branches[one]:
            self._wrong_branches.pop(one, None)
        else:
            self._wrong_branches[one] = None
        if self._wrong_branches:
            self.tree_at = None
        elif self.tree_at is None:
            self.tree_at = self.now
        truth = self.branches[one]
        return [*truth.children, *([truth.parent] if truth.parent else [])]

    def _edges_between(self, one: int, met: Iterable[NodeId]) -> list[int]:
        """The edges of the tree between this node and those, each by its child."""
        parents = self.plan.parents
        found: dict[int, None] = {}
        for name in met:
            other = number_of(name)
            if parents[other] == one:
                found[other] = None
            elif parents[one] == other:
                found[one] = None
        return list(found)


def settle(node: ArrowNode, branch: Branch) -> None:
    """Puts a node into the tree, pointing to the root, with every edge known to be legal."""
    node.parent = branch.parent
    node.edges = {child: node.new_edge() for child in branch.children}
    for edge in node.edges.values():
        edge.phase = Phase.CORRECT
    node.arrow.points_at = branch.parent or node.me


def _trees(plan: Plan) -> list[TreeNode]:
    trees = []
    for one, near in enumerate(plan.graph):
        tree = TreeNode(name_of(one), TreeSettings(ROUND_TRIP))
        neighbours = tuple(name_of(other) for other in near)
        tree.ground = Ground(name_of(0), len(plan.graph), neighbours)
        trees.append(tree)
    return trees


def _links(plan: Plan, chance: Random) -> dict[tuple[int, int], Link]:
    paces = list(Pace)
    return {
        (one, other): Link(chance.choice(paces))
        for one, near in enumerate(plan.graph)
        for other in near
    }


def branches_of(plan: Plan) -> list[Branch]:
    """Each node's part of the tree.

    >>> from snowmelt_lab.arrow.plan import plan_of
    >>> branches_of(plan_of([None, 0, 1]))[1]
    Branch(parent='n0000', children=('n0002',))
    """
    return [
        Branch(
            None if parent is None else name_of(parent),
            tuple(name_of(child) for child in children),
        )
        for parent, children in zip(plan.parents, plan.children, strict=True)
    ]
