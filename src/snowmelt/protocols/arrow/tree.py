"""The tree under the arrows, breadth first: rule 13. It tells the arrows with `Branch`."""

from enum import Enum
from typing import Final

from snowmelt.core.instant import START, Duration, Instant, later
from snowmelt.core.names import NodeId
from snowmelt.core.node import (
    Announce,
    Announced,
    Effect,
    Event,
    Expired,
    Received,
    Send,
    SetTimer,
    Started,
)
from snowmelt.protocols.arrow.messages import Branch, Claim, Ground
from snowmelt.protocols.arrow.settings import TreeSettings

Effects = list[Effect[Claim]]

HASTE: Final = 10
"""A claim that has changed is told after this part of a beat."""


class TreeAlarm(Enum):
    """When claims are told again."""

    BEAT = "arrow.beat"


class TreeNode:
    """One node's part of the tree.

    >>> a, b = NodeId("a"), NodeId("b")
    >>> tree = TreeNode(b, TreeSettings())
    >>> _ = tree.handle(Announced(Ground(root=a, nodes=2, neighbours=(a,))), Instant(0))
    >>> tree.handle(Received(a, Claim(0, None)), Instant(0))[0]
    Announce(fact=Branch(parent='a', children=()))
    """

    def __init__(self, me: NodeId, settings: TreeSettings) -> None:
        self.me = me
        self.ground = Ground(me, 1, ())
        self.claims: dict[NodeId, Claim] = {}
        """What each neighbour said last."""
        self.claim = Claim(0, None)
        """What this node says."""
        self.branch = Branch(None, ())
        self.due = START
        """When claims are told again."""
        self._settings = settings

    def handle(self, event: Event[Claim], now: Instant) -> Effects:
        match event:
            case Received(source, Claim() as claim) if source in self.ground.neighbours:
                return self._hear(source, claim, now)
            case Expired() | Started():
                return [*self._judge(), *self._tell(now)]
            case Announced(Ground() as ground):
                self.ground = ground
                self.claims = {
                    name: claim for name, claim in self.claims.items() if name in ground.neighbours
                }
                return [*self._judge(), *self._tell(now)]
            case _:
                return []

    def check(self) -> None:
        assert 0 <= self.claim.distance <= self.ground.nodes, f"{self.me}: {self.claim}"

    def _hear(self, source: NodeId, claim: Claim, now: Instant) -> Effects:
        before = self.claim
        self.claims[source] = claim
        effects = self._judge()
        if claim.distance > self.claim.distance + 1:
            effects.append(Send(source, self.claim))
        if self.claim != before:
            effects += self._hurry(now)
        return effects

    def _tell(self, now: Instant) -> Effects:
        claims: Effects = [Send(name, self.claim) for name in self.ground.neighbours]
        self.due = later(now, self._settings.beat)
        return [*claims, SetTimer(TreeAlarm.BEAT, self.due)]

    def _hurry(self, now: Instant) -> Effects:
        # Not at once: claims that no root stands behind grow step by step until they are given up,
        # and each step would be told everywhere as fast as the links carry it.
        soon = later(now, Duration(self._settings.beat // HASTE))
        if soon >= self.due:
            return []
        self.due = soon
        return [SetTimer(TreeAlarm.BEAT, soon)]

    def _judge(self) -> Effects:
        """Believes the least claim, and tells the arrows when this node's branch has changed."""
        self.claim = self._best()
        parent = self.claim.parent
        children = tuple(
            name
            for name in self.ground.neighbours
            if name != parent and name in self.claims and self.claims[name].parent == self.me
        )
        branch = Branch(parent, children)
        if branch == self.branch:
            return []
        self.branch = branch
        return [Announce(branch)]

    def _best(self) -> Claim:
        if self.me == self.ground.root:
            return Claim(0, None)
        ways = [(max(0, claim.distance), name) for name, claim in self.claims.items()]
        distance, parent = min(ways, default=(self.ground.nodes, self.me))
        if distance + 1 >= self.ground.nodes:
            return Claim(self.ground.nodes, None)
        return Claim(distance + 1, parent)
