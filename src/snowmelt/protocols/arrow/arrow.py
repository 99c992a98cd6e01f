"""Path reversal at one node: rules 1 to 3."""

import msgspec

from snowmelt.core.names import NodeId
from snowmelt.protocols.arrow.messages import Followed, OrderPlace


class Forward(msgspec.Struct, frozen=True):
    """The find goes on, to the neighbour at which the arrow pointed."""

    to: NodeId
    place: OrderPlace


class Arrow:
    """Where the end of the queue lies, as seen from one node.

    >>> from snowmelt.core.names import OperationId
    >>> a, b = NodeId("a"), NodeId("b")
    >>> first, second = (OrderPlace(one, OperationId(one, 1)) for one in (a, b))
    >>> arrow = Arrow(a, first)
    >>> arrow.take(second, source=b).by is second, arrow.points_at
    (True, 'b')
    >>> arrow.ask(first).to, arrow.points_at
    ('b', 'a')
    """

    __slots__ = ("me", "points_at", "tail")

    def __init__(self, me: NodeId, tail: OrderPlace) -> None:
        self.me = me
        self.points_at = me
        self.tail = tail
        """The last place asked for here; the end of a queue while this node is a sink."""

    @property
    def is_sink(self) -> bool:
        """Whether the queue, as far as this node knows, ends here."""
        return self.points_at == self.me

    def ask(self, place: OrderPlace) -> Forward | Followed:
        step = self._flip(place, self.me)
        self.tail = place
        return step

    def take(self, place: OrderPlace, source: NodeId) -> Forward | Followed:
        """A find came from a neighbour: it goes on or ends, and the arrow turns, in one step."""
        return self._flip(place, source)

    def release(self, filler: OrderPlace) -> None:
        """Points at nobody any more; what comes now follows a filler's place."""
        self.points_at = self.me
        self.tail = filler

    def _flip(self, place: OrderPlace, towards: NodeId) -> Forward | Followed:
        step = Followed(self.tail, place) if self.is_sink else Forward(self.points_at, place)
        self.points_at = towards
        return step
