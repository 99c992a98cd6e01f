"""Who takes part, as one node knows it."""

from typing import Final

from snowmelt.core.names import NodeId
from snowmelt.protocols.membership import View


class Circle:
    """This node and the other members of its view."""

    def __init__(self, me: NodeId) -> None:
        self.me: Final = me
        self.current = False
        """Whether the view counts: there was one, and this node is not cut off."""
        self.others: tuple[NodeId, ...] = ()
        self._starts: dict[NodeId, int] = {}

    def enter(self, view: View) -> frozenset[NodeId]:
        """A new view; returns who of the last one is gone, or is there anew."""
        before, self._starts = self._starts, {one.id: one.start for one in view.members}
        self.others = tuple(one for one in self._starts if one != self.me)
        self.current = self.me in self._starts
        return frozenset(one for one, start in before.items() if self._starts.get(one) != start)

    @property
    def start(self) -> int:
        """This node's own, as the views have it; 0 before the first."""
        return self._starts.get(self.me, 0)

    def has_start(self, node: NodeId, start: int) -> bool:
        """Whether a node is in the view, with this start."""
        return self._starts.get(node) == start

    def has(self, node: NodeId) -> bool:
        """Whether a node is in the view."""
        return node in self._starts
