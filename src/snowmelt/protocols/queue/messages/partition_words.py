"""What the partitions of a queue, its anchor, and the doors of its clients say to each other."""

from operator import gt
from typing import Annotated, Final, get_args

import msgspec

from snowmelt.core.ahead import COUNT_MAX, Count, Unsigned
from snowmelt.core.instant import Length
from snowmelt.core.keys import KEY_BYTES
from snowmelt.core.names import NodeId, NodeName, OperationId
from snowmelt.protocols.calling import Declined
from snowmelt.protocols.queue.api.calls import Leased
from snowmelt.protocols.queue.api.partition_names import Name
from snowmelt.protocols.queue.api.phase_stamp import NEVER, Parts, PhaseStamp
from snowmelt.protocols.queue.messages.home_words import OfTerm, Term

NUMBER_MAX: Final = 1 << 47
"""Half of what there are within a priority: nobody counts so far."""
ASKED_MAX: Final = 1 << 32
"""So many numbers at once."""
RUNS_MAX: Final = 1 << 19
PHASE_MAX: Final = 4_096
"""So many gets are served in one phase."""

Tail = Annotated[int, msgspec.Meta(ge=0, le=NUMBER_MAX)]
Edges = Annotated[tuple[Count, ...], msgspec.Meta(max_length=2 * RUNS_MAX)]
"""Where runs of positions begin and end, one after the other."""
Position = Annotated[int, msgspec.Meta(ge=-1, le=COUNT_MAX)]


# --- numbers for puts -----------------------------------------------------------------------------


class RequestNumbers(OfTerm, frozen=True, tag="parted.ask", array_like=True):
    """A partition would have so many numbers."""

    number: Count
    """Of this question, in the partition's term."""
    count: Annotated[int, msgspec.Meta(ge=1, le=ASKED_MAX)]
    above: Tail
    """It has given positions below this: none is to come again, though a disk was put back."""


class Numbers(OfTerm, frozen=True, tag="parted.numbers", array_like=True):
    """They begin here. The term is that of the partition."""

    anchor: Term
    number: Count
    first: Tail


# --- gets, and their phases -----------------------------------------------------------------------


class PartedGet(msgspec.Struct, frozen=True, tag="parted.want", array_like=True):
    """A client of the door that says this wants items."""

    queue: Name
    operation: OperationId
    items_max: Annotated[int, msgspec.Meta(ge=1, le=COUNT_MAX)]
    bytes_max: Annotated[int, msgspec.Meta(ge=1, le=COUNT_MAX)]
    patience: Length
    ahead: bool = False
    before: Position = -1
    since: Count = 0
    """When the door began to ask, by its clock."""
    made: Count = 0
    """With which term the queue was made that the client means; 0: whichever there is."""


class CancelPartedGet(msgspec.Struct, frozen=True, tag="parted.leave", array_like=True):
    """Nobody waits for that get any more."""

    queue: Name
    operation: OperationId
    since: Count = 0
    """0 when its client says so. Else its client's connections to that door closed, and this is
    when the door began to ask: the client may live, and ask again."""


class Grant(msgspec.Struct, frozen=True, array_like=True):
    """What of one partition one get is given."""

    operation: OperationId
    door: NodeName
    runs: Edges
    """Nothing: what it holds already is to be delivered again."""
    of: Parts
    """All partitions that give it some."""
    seen: PhaseStamp
    """In the phase in which it is given, and up to which number when it was given first."""
    ahead: bool = False
    since: Count = 0
    """As in `PartedGet`."""

    def __post_init__(self) -> None:
        starts, stops = self.runs[::2], self.runs[1::2]
        if len(starts) != len(stops) or any(map(gt, starts, stops)):
            raise ValueError("a run has a start, and a stop behind it")


class NextPhase(OfTerm, frozen=True, tag="parted.turn", array_like=True):
    """A phase ends with its grants, and the next begins, if anything is looked for."""

    anchor: Term
    number: Count
    granted: Count
    """With which turn these grants were sent first."""
    grants: Annotated[tuple[Grant, ...], msgspec.Meta(max_length=2 * PHASE_MAX)] = ()
    numbers: Numbers | None = None
    """The last that were told."""
    count: Annotated[int, msgspec.Meta(ge=0, le=ASKED_MAX)] = 0
    """So many items are looked for; 0: none."""
    size: Count = 0
    """In so many bytes, and one item in any case."""
    upto: Tail = 0
    """Of those below this number: all of these were told before the phase began."""
    asked: Annotated[tuple[OperationId, ...], msgspec.Meta(max_length=2 * PHASE_MAX)] = ()
    """Gets that an earlier anchor may have served."""
    befores: Annotated[tuple[Count, ...], msgspec.Meta(max_length=2 * PHASE_MAX)] = ()
    """Positions of items of which somebody wants what comes before them."""
    left: Annotated[tuple[OperationId, ...], msgspec.Meta(max_length=2 * PHASE_MAX)] = ()
    """Gets that nobody waits for: what they were leased goes back, behind these grants."""


class Holds(msgspec.Struct, frozen=True, array_like=True):
    """A get has a lease of this partition, or had one."""

    at: Count
    """Which of those that were asked after."""
    count: Count
    """How many items are left in it; 0: it is over."""
    rank: tuple[Unsigned, Count] = (0, 0)
    """The last of them: its key, or 0, and its position."""
    seen: PhaseStamp = NEVER
    """As it was given, or given again."""


class PartitionReport(OfTerm, frozen=True, tag="parted.report", array_like=True):
    """The first that are ready; all grants of that turn are safe."""

    anchor: Term
    number: Count
    runs: Annotated[tuple[Count, ...], msgspec.Meta(max_length=3 * RUNS_MAX)] = ()
    """Of each where it begins, where it ends, and how many bytes an item has."""
    keys: Annotated[bytes, msgspec.Meta(max_length=8 * RUNS_MAX)] = b""
    """In a queue of any priorities that of each run, which is one item then."""
    more: bool = False
    """Whether there are others behind them."""
    holds: Annotated[tuple[Holds, ...], msgspec.Meta(max_length=2 * PHASE_MAX)] = ()
    live: Annotated[tuple[tuple[Count, Unsigned], ...], msgspec.Meta(max_length=2 * PHASE_MAX)] = ()
    """Which of the `befores` live here, and the key of each, or 0."""

    def __post_init__(self) -> None:
        count, odd = divmod(len(self.runs), 3)
        if odd or len(self.keys) not in (0, KEY_BYTES * count):
            raise ValueError(f"{count} runs have as many keys, or none, and three numbers each")


class Ready(OfTerm, frozen=True, tag="parted.ready", array_like=True):
    """Something is, where nothing was."""


class PartialAnswer(OfTerm, frozen=True, tag="parted.given", array_like=True):
    """One partition's piece of an answer, for the door."""

    operation: OperationId
    anchor: Term
    number: Count
    of: Parts
    away: Parts
    leased: Leased
    since: Count = 0
    """As in `PartedGet`: a piece is for that asking alone."""


class Nothing(msgspec.Struct, frozen=True, tag="parted.nothing", array_like=True):
    """There is nothing for that get, or it can't be had."""

    queue: Name
    operation: OperationId
    away: Parts = ()
    refused: Declined | None = None


class PartedGetCancelled(msgspec.Struct, frozen=True, tag="parted.left", array_like=True):
    """That get waits no more, and holds nothing."""

    queue: Name
    operation: OperationId


ToAnchor = RequestNumbers | PartedGet | CancelPartedGet | PartitionReport | Ready
ToPart = Numbers | NextPhase
ToDoor = PartialAnswer | Nothing | PartedGetCancelled
Message = ToAnchor | ToPart | ToDoor

MESSAGES: Final[tuple[type[msgspec.Struct], ...]] = get_args(Message)


# --- within a node --------------------------------------------------------------------------------


class Post(msgspec.Struct, frozen=True):
    """For the anchor, wherever it is: it is said again if it does not arrive."""

    queue: str
    word: RequestNumbers | Ready | PartedGet | CancelPartedGet
    again: bool = False
    """Whether it was said before, and had no answer."""


class News(msgspec.Struct, frozen=True):
    """What is known of this partition's home may be old."""

    queue: str


class OwedGrant(msgspec.Struct, frozen=True):
    """What a partition owes a door: it stands in place of a client's call."""

    door: NodeId
    anchor: int
    number: int
    of: tuple[int, ...]
    away: tuple[int, ...]
    since: int
