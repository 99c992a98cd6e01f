"""What a person may choose about membership, and what a node says of itself."""

import msgspec

from snowmelt.core.errors import BadOption
from snowmelt.core.instant import MILLISECOND, SECOND, Duration, milliseconds, spelled
from snowmelt.core.names import Address, NodeId


class MembershipSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How closely members watch each other; the same on every node of a cluster.

    Blizzard (2.2.4) has three seconds, and three in a row; stalls of four are rare enough. Two
    beats a second, so that who follows a leader that died is soon looked for.

    >>> MembershipSettings().lease == 4 * SECOND, MembershipSettings().lead_seconds
    (True, 2)
    """

    interval: Duration = milliseconds(500)
    misses: int = 8
    grace: Duration = milliseconds(167)

    def __post_init__(self) -> None:
        if self.interval < 10 * MILLISECOND:
            raise BadOption("heartbeat interval", spelled(self.interval), "at least 10ms")
        if not 1 <= self.misses <= 100:
            raise BadOption("misses", self.misses, "1 to 100")
        if self.grace <= 0:
            raise BadOption("grace", spelled(self.grace), "more than nothing")

    @property
    def lease(self) -> Duration:
        """How long a member stays current after sending what was accepted (rule 8)."""
        return Duration(self.interval * self.misses)

    @property
    def patience(self) -> Duration:
        """How long the coordinator bears a member's silence (rule 4)."""
        return Duration(self.lease + self.grace)

    @property
    def lead_seconds(self) -> int:
        """The length of a leader's lease in etcd (rule 14), which counts in whole seconds."""
        return max(2, -(-3 * self.interval // (2 * SECOND)))


class Identity(msgspec.Struct, frozen=True, kw_only=True):
    """What a node is told about itself when it is made."""

    id: NodeId
    address: Address
    contacts: tuple[NodeId, ...] = ()
