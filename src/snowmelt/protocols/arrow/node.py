"""Arrow and watched edges of one node, as one machine; its rules are in the package's docstring."""

from enum import Enum
from random import Random
from typing import Final, assert_never

from snowmelt.core.instant import Instant, later
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
from snowmelt.protocols.arrow import messages
from snowmelt.protocols.arrow.arrow import Arrow, Forward
from snowmelt.protocols.arrow.edge import Mend, ParentEdge, answer
from snowmelt.protocols.arrow.settings import ArrowSettings

Effects = list[Effect[messages.Message]]


class EdgeAlarm(Enum):
    """The one timer of a node's edges: set to the first time-out among them."""

    OBSERVE = "arrow.observe"


class ArrowNode:
    """One node's part in the queue.

    It begins alone and as a sink, with a filler's place at the end; the tree comes as `Branch`.

    >>> node = ArrowNode(NodeId("a"), ArrowSettings(), Random(1))
    >>> wanted = Announced(messages.RequestPlace(OperationId(NodeId("client"), 1)))
    >>> followed = node.handle(wanted, Instant(0))[0].fact
    >>> followed.place.filler, followed.by.name.client
    (True, 'client')
    """

    def __init__(
        self, me: NodeId, settings: ArrowSettings, chance: Random, fillers: int = 0
    ) -> None:
        self.me: Final = me
        self.parent: NodeId | None = None
        self.edges: dict[NodeId, ParentEdge] = {}
        """By child."""
        self.due: dict[NodeId, Instant] = {}
        """When each of them is observed again."""
        self.dropped = 0
        """Messages from nodes that are no neighbours in the tree, or not on that side of it."""
        self.ignored = 0
        """Finds that were one too many (rule 8)."""
        self._settings = settings
        self._chance = chance
        self._fillers = fillers
        self.arrow: Final = Arrow(me, self._filler())

    def handle(self, event: Event[messages.Message], now: Instant) -> Effects:
        match event:
            case Received(source, message):
                return self._received(source, message)
            case Expired():
                return self._look(now)
            case Announced(messages.RequestPlace(name)):
                return self._carry_on(self.arrow.ask(messages.OrderPlace(self.me, name)))
            case Announced(messages.Branch() as branch):
                self.grow(branch, now)
                return self._look(now)
            case _:
                return []

    def check(self) -> None:
        """The arrow is on the tree, and every edge to a child is watched."""
        at = self.arrow.points_at
        assert at in (self.me, self.parent) or at in self.edges, f"{self.me} points at {at}"
        assert self.edges.keys() == self.due.keys(), f"{self.me} watches other edges than it has"
        assert self.parent not in self.edges, f"{self.parent} is above and below {self.me}"

    def grow(self, branch: messages.Branch, now: Instant) -> None:
        """The tree has changed here: edges that stay keep their state (rule 14).

        New ones are due to be observed at once, which is what `Expired` does.
        """
        self.parent = branch.parent
        self.edges = {child: self.edges.get(child) or self.new_edge() for child in branch.children}
        self.due = {child: self.due.get(child, now) for child in branch.children}
        at = self.arrow.points_at
        if not (self.arrow.is_sink or at == self.parent or at in self.edges):
            self.arrow.release(self._filler())

    # --- what comes across edges ------------------------------------------------------------------

    def _received(self, source: NodeId, message: messages.Message) -> Effects:
        points = self.arrow.points_at == source
        edge = self.edges.get(source)
        match message:
            case messages.Find() if edge is not None and edge.ignores():
                self.ignored += 1
                return []
            case messages.Find(place) if edge is not None or source == self.parent:
                return self._carry_on(self.arrow.take(place, source))
            case messages.Observer() if source == self.parent:
                return [Send(source, answer(message, points=points))]
            case messages.Observed() if edge is not None:
                return self._mend(source, edge.observed(message, points=points))
            case messages.Find() | messages.Observer() | messages.Observed():
                self.dropped += 1
                return []
            case _:
                assert_never(message)

    def _mend(self, child: NodeId, mend: Mend) -> Effects:
        match mend:
            case Mend.NOTHING:
                return []
            case Mend.INJECT:
                return [self._send_find(child, self._filler())]
            case Mend.RELEASE:
                self.arrow.release(self._filler())
                return []
            case _:
                assert_never(mend)

    def _carry_on(self, step: Forward | messages.Followed) -> Effects:
        match step:
            case messages.Followed():
                return [Announce(step)]
            case Forward(to, place):
                return [self._send_find(to, place)]
            case _:
                assert_never(step)

    def _send_find(self, to: NodeId, place: messages.OrderPlace) -> Send[messages.Message]:
        """The only way out for a find, so that none is sent uncounted (rule 6)."""
        edge = self.edges.get(to)
        if edge is not None:
            edge.count_sent()
        return Send(to, messages.Find(place))

    def _filler(self) -> messages.OrderPlace:
        self._fillers += 1
        return messages.OrderPlace(self.me, OperationId(self.me, self._fillers), filler=True)

    # --- the watch --------------------------------------------------------------------------------

    def _look(self, now: Instant) -> Effects:
        effects: Effects = []
        for child, at in self.due.items():
            if at <= now:
                effects.append(Send(child, self.edges[child].observe()))
                self.due[child] = later(now, self._settings.timeout)
        return [*effects, self._alarm()]

    def _alarm(self) -> SetTimer | CancelTimer:
        if not self.due:
            return CancelTimer(EdgeAlarm.OBSERVE)
        return SetTimer(EdgeAlarm.OBSERVE, min(self.due.values()))

    def new_edge(self) -> ParentEdge:
        """The watch over an edge to a new child; no number is like one of an earlier life."""
        return ParentEdge(self._chance.randrange(messages.NUMBERS))
