"""What a client asks of a node about topics, and what it is told; see the package's rules."""

from typing import Annotated, Final, get_args

import msgspec

from snowmelt.core.ahead import MANY, Blob, Label, Unsigned, Whole
from snowmelt.core.instant import Length, seconds

POLL: Final = seconds(2)
"""A call that waits is answered after this, and the client calls again at once."""
PATIENCE: Final = seconds(3)
"""How long what is not numbered yet lives after `Underway` without being asked for again."""

BODY_BYTES_MAX: Final = 1 << 20
CALL_BYTES_MAX: Final = 8 << 20
CALL_BODIES_MAX: Final = 4_096


class Position(msgspec.Struct, frozen=True, order=True, array_like=True):
    """Where a message stands: all listeners see messages in the order of their positions.

    >>> Position(1, 7) < Position(1, 8) < Position(2, 0)
    True
    """

    era: Unsigned = 0
    """A larger one began after the topic's baton had been lost."""
    number: Unsigned = 0
    """Within an era they follow each other without gaps, from 0 on."""

    def __str__(self) -> str:
        return f"{self.era}.{self.number}"


class Publication(msgspec.Struct, frozen=True, array_like=True):
    """What was published in one call: bodies at adjacent positions."""

    first: Position
    ticket: Whole
    """Drawn by the client. Another publication with the same ticket is the same once more."""
    bodies: Annotated[tuple[Blob, ...], MANY]

    @property
    def stop(self) -> Position:
        """The position behind the last body."""
        return Position(self.first.era, self.first.number + len(self.bodies))

    @property
    def size(self) -> int:
        """How many bytes the bodies have. O(bodies)."""
        return sum(map(len, self.bodies))


class Publish(msgspec.Struct, frozen=True, tag="multicast.publish", array_like=True):
    """Everybody is to hear these. The same ticket again is the same publication."""

    name: Label
    ticket: Whole
    bodies: Annotated[tuple[Blob, ...], msgspec.Meta(max_length=2 * CALL_BODIES_MAX)]
    wait: Length
    """How long to wait before `Underway`; `POLL` at most."""


class Published(msgspec.Struct, frozen=True, tag="multicast.published", array_like=True):
    """Every node that is present has it; its first body stands here."""

    first: Position


class Underway(msgspec.Struct, frozen=True, tag="multicast.underway", array_like=True):
    """Not yet; ask again within `PATIENCE`, or it may be forgotten."""


class Listen(msgspec.Struct, frozen=True, tag="multicast.listen", array_like=True):
    """Tells what comes from this position on; None: from now on."""

    name: Label
    start: Position | None
    wait: Length
    """How long to wait for something; `POLL` at most."""


class Messages(msgspec.Struct, frozen=True, tag="multicast.messages", array_like=True):
    publications: Annotated[tuple[Publication, ...], MANY]
    next: Position | None
    """From where to listen on; None when this node does not know the end yet."""
    missed: bool = False
    """Whether something may be missing in these, or before them."""


Request = Publish | Listen
Response = Published | Underway | Messages

REQUESTS: Final[tuple[type[msgspec.Struct], ...]] = get_args(Request)
