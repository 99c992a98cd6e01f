"""What a state is worth, as one who sees all of it can tell.

An edge is *legal* when its phi is 1 (definition 4.1). It is *fully legal* (definition 6.1) when
besides its parent is right about it: while observing it has counted rightly so far, and its one
observer is on the way; else it knows phi, and no observer is on the way that it would believe.

The whole is legal when it can come about without faults (definition 3.2). Told without phi: let
the finds that are on their way go on until none is left; then there must be one sink, to which all
arrows lead.
"""

from collections import deque
from collections.abc import Sequence

import msgspec

from snowmelt.core.names import NodeId, OperationId
from snowmelt.protocols.arrow.arrow import Arrow, Forward
from snowmelt.protocols.arrow.edge import ParentEdge, Phase
from snowmelt.protocols.arrow.messages import NUMBERS, Find, Observed, Observer, OrderPlace


class EdgeState(msgspec.Struct, frozen=True):
    """All there is on one edge. What is sent down goes from the parent to the child."""

    parent_points: bool
    child_points: bool
    edge: ParentEdge
    down: Sequence[object]
    """Messages on their way, the next to arrive first."""
    up: Sequence[object]

    @property
    def phi(self) -> int:
        """How often the end of the queue is looked for, or pointed at, across this edge."""
        finds = _finds(self.down) + _finds(self.up)
        return self.parent_points + self.child_points + finds

    @property
    def legal(self) -> bool:
        """Definition 4.1."""
        return self.phi == 1

    @property
    def fully_legal(self) -> bool:
        """Definition 6.1, with numbers: observers of earlier numbers do no harm."""
        phi = self.phi
        if phi != 1 or self._believable_later():
            return False
        down = _places(Observer, self.down, self.edge.number)
        up = _places(Observed, self.up, self.edge.number)
        if self.edge.phase is Phase.CORRECT:
            return self.edge.estimate == phi and not down and not up
        if len(down) + len(up) != 1:
            return False
        counted = self.edge.sent + self.parent_points
        if down:  # the paper's R1
            ahead = _finds(self.up) + _finds(list(self.down)[: down[0]])
            return phi == counted + self.child_points + ahead
        observed = list(self.up)[up[0]]
        assert isinstance(observed, Observed)
        ahead = _finds(list(self.up)[: up[0]])  # the paper's R2
        return phi == counted + observed.points + ahead

    def _believable_later(self) -> bool:
        """Whether a stray carries a number that the parent has yet to use."""
        return _has_later(Observer, self.down, self.edge) or _has_later(
            Observed, self.up, self.edge
        )


def _has_later(
    kind: type[Observer | Observed], messages: Sequence[object], edge: ParentEdge
) -> bool:
    return bool(messages) and any(
        isinstance(one, kind) and 0 < (one.number - edge.number) % NUMBERS < NUMBERS // 2
        for one in messages
    )


def _finds(messages: Sequence[object]) -> int:
    return sum(isinstance(one, Find) for one in messages) if messages else 0


def _places(kind: type[Observer | Observed], messages: Sequence[object], number: int) -> list[int]:
    if not messages:
        return []
    return [
        place
        for place, one in enumerate(messages)
        if isinstance(one, kind) and one.number == number
    ]


def whole_is_legal(points_at: dict[NodeId, NodeId], finds: Sequence[tuple[NodeId, NodeId]]) -> bool:
    """Whether the arrows and the finds, each with who sent it and to whom, could have come about.

    >>> a, b = NodeId("a"), NodeId("b")
    >>> whole_is_legal({a: b, b: b}, []), whole_is_legal({a: a, b: b}, [])
    (True, False)
    >>> whole_is_legal({a: a, b: b}, [(a, b)]), whole_is_legal({a: b, b: b}, [(a, b)])
    (True, False)
    """
    nobody = OrderPlace(NodeId("nobody"), OperationId(NodeId("nobody"), 0), filler=True)
    arrows = {name: Arrow(name, nobody) for name in points_at}
    for name, at in points_at.items():
        arrows[name].points_at = at
    waiting = deque(finds)
    for _ in range(len(arrows) * len(finds)):  # without faults each goes over every edge once
        if not waiting:
            break
        source, target = waiting.popleft()
        step = arrows[target].take(nobody, source)
        if isinstance(step, Forward):
            waiting.append((target, step.to))
    return not waiting and _leads_to_one_sink(arrows)


def _leads_to_one_sink(arrows: dict[NodeId, Arrow]) -> bool:
    sinks = [arrow for arrow in arrows.values() if arrow.is_sink]
    if len(sinks) != 1:
        return False
    leads = {sinks[0].me: True}
    for start in arrows:
        way = []
        at = start
        while at not in leads:
            leads[at] = False  # until it is known; who comes back here goes round
            way.append(at)
            at = arrows[at].points_at
        for name in way:
            leads[name] = leads[at]
    return all(leads.values())
