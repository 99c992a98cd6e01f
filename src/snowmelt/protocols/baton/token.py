"""The baton itself, while a node has it: rules 7 to 9."""

import msgspec

from snowmelt.core.instant import Instant
from snowmelt.core.names import NodeId
from snowmelt.protocols.arrow import OrderPlace
from snowmelt.protocols.baton.messages import BatonState, Version


class Holder(msgspec.Struct):
    ticket: int
    client: NodeId | None
    """From whom it was heard last; None for another machine of this node."""
    expires: Instant | None
    """When its lease is over; machines have none."""


class Token(msgspec.Struct):
    """One baton: there is one for a name, or none, once faults have ended."""

    fence: int
    made: int
    place: OrderPlace
    """Whose turn it is."""
    value: bytes = b""
    version: Version = Version()
    holder: Holder | None = None
    given: int = 0
    """How many values the hold with this fence has given (rule 14)."""
    moving: bool = False
    """Whether it is on its way to the place, and not yet known to have come."""

    @property
    def standing(self) -> BatonState:
        if self.moving:
            return BatonState.MOVING
        return BatonState.IDLE if self.holder is None else BatonState.HELD

    def next_version(self) -> Version:
        """Of another value that the hold with this fence gives."""
        self.given += 1
        return Version(self.fence, self.given - 1)

    def held_by(self, ticket: int) -> Holder | None:
        if self.holder is not None and self.holder.ticket == ticket:
            return self.holder
        return None
