"""What all parts of one node share: who it is, in which view, and what it was told last."""

from random import Random
from typing import Final

from snowmelt.core.instant import Instant
from snowmelt.core.names import NodeId
from snowmelt.protocols.baton.calls import ETCD_VALUE_BYTES_MAX, VALUE_BYTES_MAX, HeldAt
from snowmelt.protocols.baton.settings import BatonSettings
from snowmelt.protocols.calling import Payers
from snowmelt.protocols.membership import View

NEVER: Final = Instant(2**63)
STEPS_AT_ONCE: Final = 200
"""In one event: a step takes up to 0.2 ms."""


class NodeContext:
    """This node, as its own parts see it."""

    def __init__(
        self,
        me: NodeId,
        settings: BatonSettings,
        chance: Random,
        *,
        etcd: bool = False,
        alone: bool = False,
    ) -> None:
        self.me: Final = me
        self.etcd: Final = etcd
        """Whether etcd decides, so that any node may come to be the root."""
        self.alone: Final = alone
        """Whether all who ever held anything here were in processes that have ended."""
        self.reserved = 0
        """The last term in which batons may be handed on, as a root has told (rule 18)."""
        self.settings: Final = settings
        self.chance: Final = chance
        self.payers = Payers()
        self.view: View | None = None
        """The last one; None before the first, and while this node is cut off."""
        self.until = NEVER
        """How long this node is current, by its own clock, if it is not accepted again."""
        self.life = 0
        """This node's own, as the views have it."""
        self.again = False
        """Whether it is not the first on its disk."""
        self.steps = STEPS_AT_ONCE
        """So many steps may tokens still go here in this event, of places nobody wants any more."""
        self._members: dict[NodeId, int] = {}
        self._place: HeldAt | None = None

    @property
    def epoch(self) -> int:
        """The number of the view; 0 while there is none."""
        return 0 if self.view is None else self.view.epoch

    @property
    def value_bytes_max(self) -> int:
        return ETCD_VALUE_BYTES_MAX if self.etcd else VALUE_BYTES_MAX

    def enter(self, view: View) -> tuple[NodeId, ...]:
        """A new view; returns who of the last one is gone, or is there anew."""
        before, self._members = self._members, {one.id: one.life for one in view.members}
        self.view = view
        own = view.member(self.me)
        if own is not None:
            self.life, self.again = own.life, own.start > 1
            self._place = HeldAt(own.id, own.life, own.address)
        return tuple(node for node, life in before.items() if self._members.get(node) != life)

    def has(self, node: NodeId) -> bool:
        return node in self._members

    def life_of(self, node: NodeId) -> int | None:
        """Which life of a node is in the view."""
        return self._members.get(node)

    @property
    def root(self) -> NodeId:
        """Who looks for what was lost: the coordinator, which no view is without."""
        return self.view.coordinator if self.view is not None else self.me

    @property
    def led(self) -> View | None:
        """The view, if this node is its root."""
        view = self.view
        return view if view is not None and view.coordinator == self.me else None

    @property
    def place(self) -> HeldAt:
        """Where this node's batons are held."""
        assert self._place is not None, "nothing is granted before the first view"
        return self._place
