"""Who takes part, as one node knows it."""

from typing import Final

from snowmelt.core.names import NodeId
from snowmelt.protocols.membership import View


class Circle:
    def __init__(self, me: NodeId) -> None:
        self.me: Final = me
        self.current = False
        """Whether the view counts: there was one, and this node is not cut off."""
        self.others: tuple[NodeId, ...] = ()
        self._lives: dict[NodeId, int] = {}

    def enter(self, view: View) -> frozenset[NodeId]:
        """A new view; returns who of the last one is gone, or is there anew."""
        before, self._lives = self._lives, {one.id: one.life for one in view.members}
        self.others = tuple(one for one in self._lives if one != self.me)
        self.current = self.me in self._lives
        return frozenset(one for one, life in before.items() if self._lives.get(one) != life)

    @property
    def life(self) -> int:
        """This node's own, as the views have it; 0 before the first."""
        return self._lives.get(self.me, 0)

    def has_life(self, node: NodeId, life: int) -> bool:
        """Whether a node is in the view, and in this life."""
        return self._lives.get(node) == life

    def has(self, node: NodeId) -> bool:
        return node in self._lives
