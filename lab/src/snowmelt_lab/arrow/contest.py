"""Arrow against a directory with a home: the same requests, in a world of equal steps.

A message takes one step over an edge, and every node may need some time for each thing that it
takes: one after the other, so that who is asked by all is a bottleneck. No faults; the watch over
the edges rests. A *latency* is the time from a request until the place before it has its follower
told.
"""

from collections import Counter
from enum import Enum
from heapq import heappop, heappush
from random import Random
from statistics import mean
from typing import Any, Final

import msgspec

from snowmelt.core.instant import START, Duration, Instant, later
from snowmelt.core.names import NodeId, OperationId
from snowmelt.core.node import Announce, Announced, Effect, Event, Received, Send
from snowmelt.protocols.arrow import ArrowNode, ArrowSettings, Followed, OrderPlace, RequestPlace
from snowmelt_lab.arrow.metric import distances_from, median_of
from snowmelt_lab.arrow.options import NODES_MAX, REQUESTS_MAX, Arrivals, TreeKind
from snowmelt_lab.arrow.order import wrong_order
from snowmelt_lab.arrow.plan import Plan, name_of, number_of, planned
from snowmelt_lab.arrow.world import branches_of, settle
from snowmelt_lab.bounds import within


class Enlist(msgspec.Struct, frozen=True):
    """To the home: this place is the last one from now on."""

    place: OrderPlace


class Precede(msgspec.Struct, frozen=True):
    """To the node of the place that was the last one: who follows it."""

    followed: Followed


HomeMessage = Enlist | Precede
Effects = list[Effect[HomeMessage]]


class HomeNode:
    """One node's part, the home's or another's; the same facts in and out as an `ArrowNode`.

    >>> a, b = NodeId("a"), NodeId("b")
    >>> home = HomeNode(a, home=a)
    >>> place = OrderPlace(b, OperationId(b, 1))
    >>> home.handle(Received(b, Enlist(place)), Instant(0))[0].fact.by is place
    True
    """

    def __init__(self, me: NodeId, home: NodeId) -> None:
        self.me: Final = me
        self.home: Final = home
        self.tail = OrderPlace(me, OperationId(me, 1), filler=True)
        """The last place; only the home's means something."""

    def handle(self, event: Event[HomeMessage], _now: Instant) -> Effects:
        match event:
            case Announced(RequestPlace(name)):
                place = OrderPlace(self.me, name)
                if self.me == self.home:
                    return self._enlist(place)
                return [Send(self.home, Enlist(place))]
            case Received(_, Enlist(place)):
                return self._enlist(place)
            case Received(_, Precede(followed)):
                return [Announce(followed)]
            case _:
                return []

    def _enlist(self, place: OrderPlace) -> Effects:
        followed = Followed(self.tail, place)
        self.tail = place
        if followed.place.node == self.me:
            return [Announce(followed)]
        return [Send(followed.place.node, Precede(followed))]


STEP: Final = Duration(1_000)
"""What a message takes over one edge, in the machines' time."""
RATE_LEAST: Final = 0.001
RATE_MOST: Final = 1_000.0
WORK_MOST: Final = 100.0


class Rival(Enum):
    ARROW = "arrow"
    """Along the tree."""
    HOME = "home"
    """Through the home, by the shortest ways in the graph; it is where these are short."""
    DIRECT = "direct"
    """Through a home that is one step from everybody, and everybody from it."""


class ContestOptions(msgspec.Struct, frozen=True, kw_only=True):
    """One contest; times in steps.

    >>> ContestOptions(work=-1)
    Traceback (most recent call last):
    snowmelt.core.errors.BadOption: --work is -1; allowed: 0 to 100
    """

    nodes: int = 63
    tree: TreeKind = TreeKind.OVERLAY
    requests: int = 1_000
    arrivals: Arrivals = Arrivals.SEQUENCE
    rate: float = 1.0
    """Requests in a step, in all; of poisson arrivals."""
    work: float = 0.0
    """Steps that a node needs for a message or a request of its own."""
    begin: int = 0
    """The node at which the queue ends before."""
    seed: int = 1

    def __post_init__(self) -> None:
        within("--nodes", self.nodes, 2, NODES_MAX)
        within("--requests", self.requests, 1, REQUESTS_MAX)
        within("--rate", self.rate, RATE_LEAST, RATE_MOST)
        within("--work", self.work, 0, WORK_MOST)
        within("begin", self.begin, 0, self.nodes - 1)
        within("--seed", self.seed, 0, 2**63 - 1)


class Score(msgspec.Struct, frozen=True):
    rival: str
    hops: float
    """Edges that messages went over, a request."""
    latency: float
    """In steps, on average."""
    latency_p99: float
    latency_max: float
    busiest: float
    """Of all that nodes had to take, the share of the one that took most."""
    steps: float
    """Until the last request had its place."""
    wrong: str | None
    """What is wrong with the order, if something is."""


class Contest:
    """One rival's run.

    >>> contest = Contest(ContestOptions(nodes=7, tree=TreeKind.STAR, requests=1), Rival.DIRECT)
    >>> contest.run()
    >>> contest.score.hops <= 2
    True
    """

    def __init__(self, options: ContestOptions, rival: Rival) -> None:
        self.options: Final = options
        self.rival: Final = rival
        self.chance: Final = Random(options.seed)
        self.plan: Final[Plan] = planned(options.tree, options.nodes, self.chance)
        self.followed: list[Followed] = []
        self.now = START
        self._chosen = self._who()
        self._home = median_of(self.plan.graph) if rival is Rival.HOME else 0
        self._away = [1] * options.nodes
        """Steps to the home; with arrows, to the next in the tree."""
        if rival is Rival.HOME:
            self._away = distances_from(self.plan.graph, self._home)
        self._nodes = self._machines()
        self._work = Duration(round(options.work * STEP))
        self._heap: list[tuple[Instant, int, int, Event[Any], bool]] = []
        self._turn = 0
        self._free: dict[int, Instant] = {}
        """Since or from when each node is idle."""
        self._taken: Counter[int] = Counter()
        self._hops = 0
        self._asked: dict[OrderPlace, Instant] = {}
        self._told: dict[OrderPlace, Instant] = {}

    def run(self) -> None:
        at = START
        is_sequence = self.options.arrivals is Arrivals.SEQUENCE
        for one in self._chosen[:1] if is_sequence else self._chosen:
            at = later(at, self._gap())
            self._ask(one, at)
        while self._heap:
            at, _, one, event, is_done = heappop(self._heap)
            self.now = at
            if is_done or not self._work:
                self._take(one, event)
            else:
                idle = max(at, self._free.get(one, START))
                self._free[one] = later(idle, self._work)
                self._plan(self._free[one], one, event, is_done=True)

    @property
    def score(self) -> Score:
        count = len(self._told)
        took = sorted((at - self._asked[place]) / STEP for place, at in self._told.items())
        return Score(
            rival=self.rival.value,
            hops=self._hops / count,
            latency=mean(took),
            latency_p99=took[(count - 1) * 99 // 100],
            latency_max=took[-1],
            busiest=max(self._taken.values()) / self._taken.total(),
            steps=self.now / STEP,
            wrong=wrong_order(self.followed, list(self._asked), [], self._tails),
        )

    @property
    def _tails(self) -> list[OrderPlace]:
        if self.rival is Rival.ARROW:
            return [node.arrow.tail for node in self._nodes if node.arrow.is_sink]
        return [self._nodes[self._home].tail]

    def _machines(self) -> list[Any]:
        names = [name_of(one) for one in range(self.options.nodes)]
        if self.rival is not Rival.ARROW:
            homes = [HomeNode(name, names[self._home]) for name in names]
            homes[self._home].tail = homes[self.options.begin].tail
            return homes
        numbers = Random(self.options.seed)  # of observers; requests keep their own dice
        arrows = [ArrowNode(name, ArrowSettings(), numbers) for name in names]
        for node, branch in zip(arrows, branches_of(self.plan), strict=True):
            settle(node, branch)
        _end_at(arrows, self.plan, self.options.begin)
        return arrows

    # --- requests ---------------------------------------------------------------------------------

    def _who(self) -> list[int]:
        """Asks, in this order; all at once, nobody does twice before everybody has."""
        nodes, count = range(self.options.nodes), self.options.requests
        if self.options.arrivals is not Arrivals.ONE_SHOT:
            return self.chance.choices(nodes, k=count)
        rounds = -(-count // len(nodes))
        return [one for _ in range(rounds) for one in self.chance.sample(nodes, len(nodes))][:count]

    def _gap(self) -> Duration:
        if self.options.arrivals is not Arrivals.POISSON:
            return Duration(0)
        return Duration(round(self.chance.expovariate(self.options.rate) * STEP))

    def _ask(self, one: int, at: Instant) -> None:
        name = OperationId(name_of(one), len(self._asked) + 1)
        self._asked[OrderPlace(name_of(one), name)] = at
        self._plan(at, one, Announced(RequestPlace(name)))

    # --- how it goes ------------------------------------------------------------------------------

    def _take(self, one: int, event: Event[Any]) -> None:
        self._taken[one] += 1
        for effect in self._nodes[one].handle(event, self.now):
            match effect:
                case Send(target, message):
                    self._send(one, number_of(target), message)
                case Announce(Followed() as fact):
                    self._follow(fact)
                case _:
                    pass

    def _send(self, source: int, target: int, message: Any) -> None:
        hops = self._away[source if target == self._home else target]
        self._hops += hops
        at = later(self.now, Duration(hops * STEP))
        self._plan(at, target, Received(name_of(source), message))

    def _follow(self, fact: Followed) -> None:
        self.followed.append(fact)
        self._told[fact.by] = self.now
        if len(self._asked) < len(self._chosen):  # one after another
            self._ask(self._chosen[len(self._asked)], self.now)

    def _plan(self, at: Instant, one: int, event: Event[Any], *, is_done: bool = False) -> None:
        self._turn += 1
        heappush(self._heap, (at, self._turn, one, event, is_done))


def _end_at(arrows: list[ArrowNode], plan: Plan, begin: int) -> None:
    """Turns all arrows between this node and the root, so that the queue ends here."""
    arrows[begin].arrow.points_at = arrows[begin].me
    child, parent = begin, plan.parents[begin]
    while parent is not None:
        arrows[parent].arrow.points_at = arrows[child].me
        child, parent = parent, plan.parents[parent]
