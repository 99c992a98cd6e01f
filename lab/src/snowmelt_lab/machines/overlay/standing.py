"""What the three places of one node must agree on: whether it comes or goes in an update."""

from enum import Enum
from typing import Final

from snowmelt.core.names import NodeId
from snowmelt_lab.machines.overlay.family import Family, Waves
from snowmelt_lab.machines.overlay.labels import Kind, Place


class Change(Enum):
    """What an update means for one node."""

    NONE = "none"
    COMES = "comes"
    GOES = "goes"


class Standing:
    """Fixed for an epoch when the first of the places is asked (rule 17)."""

    def __init__(
        self, node: NodeId, salt: str, family: Family, *, synchronous: bool = False
    ) -> None:
        self.node: Final = node
        self.salt: Final = salt
        self.family: Final = family
        self.waves: Final = Waves(family)
        self.synchronous: Final = synchronous
        self.member = False
        """Whether its virtual nodes have a place on the ring."""
        self.gone = False
        self.wants_to_leave = False
        self.hosts: dict[Kind, Place] = {}
        """Of a newcomer: who waits for its virtual nodes."""
        self._changes: dict[int, Change] = {}

    @property
    def ripe(self) -> bool:
        """Whether it can be spliced in: all three virtual nodes have a host."""
        return not self.member and len(self.hosts) == len(Kind)

    @property
    def ready_to_leave(self) -> bool:
        """Whether nothing of its own is without its answer."""
        return self.member and self.wants_to_leave and not self.family.pending

    def change_in(self, epoch: int) -> Change:
        """What the update that ends this epoch does with this node."""
        if epoch not in self._changes:
            change = Change.COMES if self.ripe else Change.NONE
            change = Change.GOES if self.ready_to_leave else change
            recent = {old: was for old, was in self._changes.items() if old >= epoch - 2}
            self._changes = {**recent, epoch: change}
        return self._changes[epoch]
