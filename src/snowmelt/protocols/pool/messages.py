"""What the processes of a pool say to each other; see the package's rules for when.

A message with a field `blob` may be large. Whoever carries it sends the blob in pieces between
other messages, and delivers the message when the last piece has come.
"""

from typing import Annotated, Final, get_args

import msgspec

from snowmelt.core.ahead import Blob, Real, Whole
from snowmelt.core.batch import OFFSET_BYTES
from snowmelt.core.instant import Duration, Length
from snowmelt.core.interval import Interval
from snowmelt.core.names import NodeName
from snowmelt.protocols.pool.settings import ASKED_BYTES_MAX, ASKED_OBJECTS_MAX, HOPS_MAX

HOPS_COUNTED: Final = 1 << 32
TOKENS_AT_ONCE: Final = 4_096
"""So many loans are named in one word; who has more says several."""
SPANS_AT_ONCE: Final = 16_384
"""So many parcels are given in one answer."""
PIECES_MAX: Final = 1 << 18
"""As many intervals may be named in one word."""

# What is longer is not unpacked. Older processes name more at once than this one does.
Number = Annotated[int, msgspec.Meta(ge=0, le=1 << 62)]
Hop = Annotated[int, msgspec.Meta(ge=0, le=HOPS_COUNTED)]
Tokens = Annotated[tuple[Whole, ...], msgspec.Meta(max_length=4 * TOKENS_AT_ONCE)]
Pieces = Annotated[tuple[Interval, ...], msgspec.Meta(max_length=PIECES_MAX)]


class ObjectSpan(msgspec.Struct, frozen=True, array_like=True):
    """Objects at adjacent numbers of their producer's; their bodies lie one after another."""

    start: Number
    offsets: Blob
    """As in `core.batch`, from 0."""

    @property
    def count(self) -> int:
        return len(self.offsets) // OFFSET_BYTES - 1

    @property
    def size(self) -> int:
        """How many bytes their bodies have together."""
        return int.from_bytes(self.offsets[-OFFSET_BYTES:], "little", signed=True)

    @property
    def interval(self) -> Interval:
        return Interval(self.start, self.start + self.count)


class Request(msgspec.Struct, frozen=True, tag="pool.request", array_like=True):
    """A consumer wants objects; on its way from producer to producer until one has some.

    The consumer has drawn the whole way when it began: `route` is what is left of it. With none
    left, the request waits in line where it is.
    """

    consumer: NodeName
    number: Whole
    attempt: Whole
    hop: Hop
    route: Annotated[tuple[NodeName, ...], msgspec.Meta(max_length=HOPS_MAX)]
    objects_max: Annotated[int, msgspec.Meta(ge=1, le=ASKED_OBJECTS_MAX)] = 1
    bytes_max: Annotated[int, msgspec.Meta(ge=1, le=ASKED_BYTES_MAX)] = ASKED_BYTES_MAX
    wait: Length = Duration(0)
    """For how long it waits in line; 0 is for ever."""
    once: bool = False
    """Whether what it is given may never be given to another, unless the consumer says so."""
    takes_over: bool = False
    """Whether a producer that leaves is asked, and what it gives is the other's for good."""


class Inquire(msgspec.Struct, frozen=True, tag="pool.inquire", array_like=True):
    """A consumer that has waited asks a producer what it has, and no more than that."""


class Stocked(msgspec.Struct, frozen=True, tag="pool.stocked", array_like=True):
    """The answer: so many objects are there for whoever comes first."""

    count: Number


class ObjectsLent(msgspec.Struct, frozen=True, tag="pool.found", array_like=True):
    """A producer gives objects to the consumer that asked, on loan until they are settled."""

    number: Whole
    attempt: Whole
    hop: Hop
    token: Whole
    lease: Length
    rate: Real
    """How many objects a second this producer makes when it is not held up; 0 when not known."""
    spans: Annotated[tuple[ObjectSpan, ...], msgspec.Meta(max_length=4 * SPANS_AT_ONCE)]
    blob: Blob
    """The bodies of all spans, one after another."""
    heir: bool = False
    """Whether its sender leaves: they are the other's own as soon as they are safe there."""


class Cancel(msgspec.Struct, frozen=True, tag="pool.cancel", array_like=True):
    """This attempt is over: the consumer has used, and will use, nothing that came for it."""

    number: Whole
    attempt: Whole


class SettleLoan(msgspec.Struct, frozen=True, tag="pool.settle", array_like=True):
    """These are done and may be forgotten. `number` is 0 when no answer is wanted."""

    number: Whole
    token: Whole
    intervals: Pieces = ()
    """Empty for all of the loan."""


class LoanSettled(msgspec.Struct, frozen=True, tag="pool.settled", array_like=True):
    """They are forgotten, or, when `lost`, they were taken back before and may be another's."""

    number: Whole
    lost: bool = False


class GiveBack(msgspec.Struct, frozen=True, tag="pool.give-back", array_like=True):
    """These were not used, or in vain; the producer offers them again."""

    token: Whole
    intervals: Pieces = ()
    used: bool = False
    """Whether they may have been used: at most once, they are dropped then.

    An heir's are kept by the one who leaves: they may be another's by now (rule 16).
    """


class Hold(msgspec.Struct, frozen=True, tag="pool.hold", array_like=True):
    """The consumer lives and holds these loans still."""

    tokens: Tokens


class Over(msgspec.Struct, frozen=True, tag="pool.over", array_like=True):
    """The loans under these tokens are over."""

    tokens: Tokens


class Invite(msgspec.Struct, frozen=True, tag="pool.invite", array_like=True):
    """A producer that leaves asks another to take over what it has left."""


Message = (
    Request
    | Inquire
    | Stocked
    | ObjectsLent
    | Cancel
    | SettleLoan
    | LoanSettled
    | GiveBack
    | Hold
    | Over
    | Invite
)

MESSAGES: Final[tuple[type[msgspec.Struct], ...]] = get_args(Message)
