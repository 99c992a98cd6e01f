"""What nodes say to each other. All of it names the view it is of; of another, it is nobody's."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Final, get_args

import msgspec

from snowmelt.core.batch import OFFSET_BYTES
from snowmelt.core.instant import Duration
from snowmelt.core.interval import Interval
from snowmelt.core.names import NodeId, OperationId
from snowmelt.core.spans import stretches
from snowmelt.core.times import Time, whole
from snowmelt.protocols.priority.anchor import Census
from snowmelt.protocols.priority.batches import (
    Batch,
    Grant,
    Order,
    Priority,
    Share,
    Shares,
    SharesInOrder,
    Somes,
)
from snowmelt.protocols.priority.fields import (
    OPERATIONS_MAX,
    Index,
    Numbered,
    OfEra,
    OfQueue,
    Operations,
    Place,
    Serial,
    Token,
    Weight,
)
from snowmelt.protocols.priority.phase_messages import Answered, Asked, Met, Ranked, Seek, Sought
from snowmelt.protocols.priority.settings import DELAY_LONGEST, Name, QueueSettings, Registered

CHANGES_MAX: Final = 1 << 17
"""A get has no more elements, and each has one standing."""
PIECES_MAX: Final = 100_000
"""A get has no more elements, and none of them has more than one piece."""
QUEUES_MAX: Final = 4_096
SEVERAL_MAX: Final = 256
SEVERAL_BYTES: Final = 1 << 20
"""So many messages go together, while they weigh no more than this; a larger one goes by itself."""

Length = Annotated[Duration, msgspec.Meta(ge=0, le=DELAY_LONGEST)]
Due = Annotated[int, msgspec.Meta(ge=-(1 << 62), le=(1 << 63) - 1)]
"""By the wall clock, in nanoseconds since 1970; whatever length is added to one is one."""


# --- the tree -------------------------------------------------------------------------------------


class Climb(OfQueue, frozen=True, tag="priority.climb", array_like=True):
    """A place hands the combined batch of its part of the tree to the place above.

    The first of an epoch, number 0, has a census in it; all others a batch.
    """

    index: Index
    """Which place of the sender's."""
    above: Index
    """Which place of the receiver's."""
    number: Serial
    batch: Batch = Batch()
    census: Census | None = None


class Granted(OfQueue, frozen=True, tag="priority.granted", array_like=True):
    """What a place below is given for its batch of this number."""

    index: Index
    number: Serial
    grant: Grant


class Food(OfQueue, frozen=True, tag="priority.food", array_like=True):
    """There are elements again: whoever waits for some may ask. It goes down the tree.

    If it is lost, whoever waits asks all the same, a little later.
    """

    index: Index


# --- elements -------------------------------------------------------------------------------------


class Origin(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Which operation made elements, and which of its own they are."""

    operation: OperationId
    first: Annotated[int, msgspec.Meta(ge=0, lt=1 << 31)]
    """The number of the first of them within the operation."""
    count: Annotated[int, msgspec.Meta(ge=0, lt=1 << 31)]
    order: Order = 0
    """Of the first of them, in the order of all operations."""
    again: bool = False
    """Whether it was begun anew, or gone on with: there may be other attempts (`attempts.py`)."""

    def part(self, skipped: int, count: int) -> "Origin":
        """So many of them, after the first so many."""
        first, order = self.first + skipped, self.order + skipped
        return Origin(self.operation, first, count, order, self.again)


class Attempt(msgspec.Struct, frozen=True, array_like=True):
    """What a node knows of some elements of a put: `attempts.py`, rules 2 and 3."""

    origin: Origin
    share: Share
    stamp: Annotated[int, msgspec.Meta(ge=0, lt=1 << 31)]
    """The last view in which its home had to do with it; or as of which it is void."""
    state: Annotated[int, msgspec.Meta(ge=0, le=6)]
    """Got for good, void, or neither, which is `State.FREE` whatever it is."""


class Elements(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Bodies, as in `core.batch`, with their positions, in the same order, and who made them."""

    shares: SharesInOrder
    origins: Annotated[tuple[Origin, ...], msgspec.Meta(max_length=OPERATIONS_MAX)]
    offsets: bytes
    blob: bytes
    headers: bytes = b""
    due: Due = 0
    """When it may be got, by the wall clock, in nanoseconds since 1970; 0 for at once."""
    keys: bytes = b""
    """Their priorities where these have no number (`core.keys`); else empty."""
    put_at: Time = 0
    """When their door sent them home (`core/times.py`); 0 in those of before."""


class Store(Numbered, frozen=True, tag="priority.store", array_like=True, gc=False):
    """A door brings elements home. `serial` is the door's own, so that it can be told again."""

    elements: Elements


class Stored(Numbered, frozen=True, tag="priority.stored", array_like=True, gc=False):
    """It is flushed by home and copies, but for what is void.

    With a reason not all of them had room, and what is not void may be with some of them alone.
    """

    copies: Annotated[int, msgspec.Meta(ge=0, le=64)]
    refused: str = ""
    void: Shares = ()
    """Positions that can't be had any more: an attempt at them was given up, or found no room."""
    phase: Order = 0
    """Before which phase they came in (`seap`, rule 4)."""


class Want(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What one get was granted of a home's positions: to be leased under its token."""

    operation: OperationId
    token: Token
    shares: Shares
    bytes_max: Weight = 16 << 20
    gathered: bool = False
    """Whether what lies in many stretches may be told as one piece."""
    ahead: bool = False


class Take(Numbered, frozen=True, tag="priority.take", array_like=True, gc=False):
    """A door wants what its gets were granted, leased for so long, each under its own token."""

    wants: Annotated[tuple[Want, ...], msgspec.Meta(max_length=OPERATIONS_MAX)]
    lease: Length


class Piece(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Elements at adjacent positions of one priority, or in stretches; what they have in common."""

    priority: Priority
    start: Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]
    """Where the first of them stands."""
    offsets: bytes
    blob: bytes
    headers: bytes = b""
    failures: Annotated[int, msgspec.Meta(ge=0, lt=1 << 31)] = 0
    reason: str = ""
    keys: bytes = b""
    """The priority of each, where these have no number (`core.keys`); else empty."""
    put_at: Time = 0
    """As in `Elements`."""
    spans: bytes = b""
    """Where the stretches begin and end, in order, where there are several (`gathered.py`)."""
    put_times: bytes = b""
    """When each was put, where there are several stretches (`core/times.py`)."""

    @property
    def count(self) -> int:
        return len(self.offsets) // OFFSET_BYTES - 1

    @property
    def times(self) -> bytes:
        """When they were put, as readers are told."""
        return self.put_times or (whole(self.count, self.put_at) if self.put_at else b"")

    @property
    def share(self) -> Share:
        """Where these stand."""
        if self.spans:
            return Share(self.priority, stretches(self.spans))
        return Share(self.priority, (Interval(self.start, self.start + self.count),))


Pieces = Annotated[tuple[Piece, ...], msgspec.Meta(max_length=PIECES_MAX)]


class Given(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The leased elements of one get; `void` are positions of which there is none to be had."""

    at: Place
    """Which of the wants of the `Take` it is."""
    pieces: Pieces
    void: Shares = ()
    left: Shares = ()
    """Leased as well, and not told: they weigh too much for one answer."""


class Taken(Numbered, frozen=True, tag="priority.taken", array_like=True, gc=False):
    """What is leased of a `Take`; the rest comes by itself, as soon as it is there."""

    given: Annotated[tuple[Given, ...], msgspec.Meta(max_length=OPERATIONS_MAX)]


class Word(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What a client says of one lease."""

    token: Token
    shares: Shares
    how: Annotated[int, msgspec.Meta(ge=0, le=11)]
    """One of `settings.How`."""
    reason: str = ""
    time: Length = Duration(0)
    """How long the lease is from now on, or how long what comes back is held."""


class End(Numbered, frozen=True, tag="priority.end", array_like=True, gc=False):
    """A door passes on what clients say of their leases."""

    words: Annotated[tuple[Word, ...], msgspec.Meta(max_length=OPERATIONS_MAX)]


class Refusal(msgspec.Struct, frozen=True, array_like=True):
    """What was refused of a word: the lease had ended, or went to another."""

    at: Place
    """Which of the words of the `End` it is."""
    shares: Shares


class Ended(Numbered, frozen=True, tag="priority.ended", array_like=True, gc=False):
    """What was refused. All else is so on all disks."""

    refusals: Annotated[tuple[Refusal, ...], msgspec.Meta(max_length=OPERATIONS_MAX)] = ()
    back: Shares = ()
    """What is free by these words: the door tells the anchor too."""
    gone: Shares = ()
    """What is gone by them, in a queue with a bound: the same."""


# --- copies ---------------------------------------------------------------------------------------


class Mark(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What became of elements since they were put. The latest counts, by epoch and turn."""

    shares: Shares
    epoch: Annotated[int, msgspec.Meta(ge=0, lt=1 << 31)]
    turn: Annotated[int, msgspec.Meta(ge=0, lt=1 << 31)]
    state: Annotated[int, msgspec.Meta(ge=0, le=6)]
    """One of `settings.State`."""
    token: Token = 0
    operation: OperationId | None = None
    """The get that leased them."""
    time: Length = Duration(0)
    """How long the lease is."""
    due: Due = 0
    """Until when they are held, by the wall clock; of what is leased, 1 where it waits for its turn
    (`core/failures.py`)."""
    failures: Annotated[int, msgspec.Meta(ge=0, lt=1 << 31)] = 0
    reason: str = ""


class Follow(OfEra, frozen=True, tag="priority.follow", array_like=True):
    """A home tells one who keeps copies what it did; in the order of the serials."""

    serial: Serial
    queue: Name
    elements: Annotated[tuple[Elements, ...], msgspec.Meta(max_length=OPERATIONS_MAX)] = ()
    marks: Annotated[tuple[Mark, ...], msgspec.Meta(max_length=CHANGES_MAX)] = ()


class Followed(Numbered, frozen=True, tag="priority.followed", array_like=True):
    """Flushed; or the disk had no room, and none of it is there."""

    refused: str = ""


# --- a new view -----------------------------------------------------------------------------------


class Kept(msgspec.Struct, frozen=True, array_like=True):
    """What a node keeps of the blocks of one home, in one queue."""

    queue: Name
    stored: Shares
    gone: Shares
    marks: Annotated[tuple[Mark, ...], msgspec.Meta(max_length=CHANGES_MAX)] = ()
    keys: bytes = b""
    """Of what is stored, in its order (`seap`, rule 1)."""


class Make(OfEra, frozen=True, tag="priority.make", array_like=True):
    """A door wants a queue to be; it asks the node where its anchor will be."""

    settings: QueueSettings


class Made(OfEra, frozen=True, tag="priority.made", array_like=True):
    """It is, with these settings, and all members have written that down."""

    settings: QueueSettings


class Declare(OfEra, frozen=True, tag="priority.declare", array_like=True):
    """There is this queue. Whoever hears of it writes it down."""

    settings: QueueSettings


class Declared(OfQueue, frozen=True, tag="priority.declared", array_like=True):
    """It is written down."""


class Anew(OfEra, frozen=True, tag="priority.anew", array_like=True):
    """Before all else in a view: which queues there are, and what was begun anew, or begins anew.

    Everybody tells everybody, also that there is nothing.
    """

    part: Serial
    last: bool
    queues: Annotated[tuple[Registered, ...], msgspec.Meta(max_length=QUEUES_MAX)] = ()
    redone: Annotated[tuple[tuple[Name, Attempt], ...], msgspec.Meta(max_length=CHANGES_MAX)] = ()
    interrupted: Annotated[
        tuple[tuple[Name, OperationId, Token], ...], msgspec.Meta(max_length=OPERATIONS_MAX)
    ] = ()
    """Gets that begin anew: what is leased to them under these tokens is free again."""


class Others(OfEra, frozen=True, tag="priority.others", array_like=True):
    """Then, if anybody has told of an attempt that was begun anew: what others there are.

    Everybody tells everybody what it knows of the same puts, also that it knows nothing.
    """

    part: Serial
    last: bool
    attempts: Annotated[tuple[tuple[Name, Attempt], ...], msgspec.Meta(max_length=CHANGES_MAX)] = ()


class Tell(OfEra, frozen=True, tag="priority.tell", array_like=True):
    """What the sender keeps for the receiver's blocks: a part of it, the last one when `last`.

    Everybody tells everybody, also that there is nothing.
    """

    part: Serial
    last: bool
    kept: Annotated[tuple[Kept, ...], msgspec.Meta(max_length=QUEUES_MAX)] = ()


class Told(OfEra, frozen=True, tag="priority.told", array_like=True):
    """This part was heard, of an `Anew`, of `Others`, or of a `Tell`."""

    part: Serial
    word: Annotated[int, msgspec.Meta(ge=0, le=2)]
    """Which of them: 0, 1 or 2."""


class Fetch(OfQueue, frozen=True, tag="priority.fetch", array_like=True):
    """A home wants elements that it lacks, of one who has them."""

    shares: Shares


class Fetched(OfQueue, frozen=True, tag="priority.fetched", array_like=True):
    """Elements, as many as one message takes; `lacking` are not there after all."""

    elements: Annotated[tuple[Elements, ...], msgspec.Meta(max_length=OPERATIONS_MAX)] = ()
    lacking: Shares = ()


class Spare(OfQueue, frozen=True, tag="priority.spare", array_like=True):
    """All who should keep these do: the receiver, who should not, may erase them."""

    shares: Shares


# --- one operation, once --------------------------------------------------------------------------


class Inquire(Numbered, frozen=True, tag="priority.inquire", array_like=True):
    """A door wants to know what there is of these operations, before it goes on with them."""

    operations: Operations = ()
    """None, when all it wants to know is whether the view still is (`confirming.py`)."""


class Trace(msgspec.Struct, frozen=True, array_like=True):
    """What a node knows of an operation."""

    operation: OperationId
    door: NodeId | None = None
    """Who has it in hand, or has answered it: ask there."""
    stored: Annotated[tuple[Attempt, ...], msgspec.Meta(max_length=CHANGES_MAX)] = ()
    leased: Annotated[tuple[Mark, ...], msgspec.Meta(max_length=CHANGES_MAX)] = ()


class Inquired(Numbered, frozen=True, tag="priority.inquired", array_like=True):
    """What there is; of operations that are not named there is nothing, and will be nothing."""

    traces: Annotated[tuple[Trace, ...], msgspec.Meta(max_length=OPERATIONS_MAX)] = ()


# --- looking --------------------------------------------------------------------------------------


class Look(Numbered, frozen=True, tag="priority.look", array_like=True):
    """A door wants to know what is next. The anchor can tell."""

    count: Annotated[int, msgspec.Meta(ge=0, le=100_000)]
    rank: Order = 0
    """Which one, from 1 on, instead of the first ones."""
    share: Annotated[float, msgspec.Meta(ge=0, le=1)] | None = None
    """The same as a part of how many there are."""


class Looked(Numbered, frozen=True, tag="priority.looked", array_like=True):
    """The next positions, or what has the rank."""

    shares: Shares


class Read(Numbered, frozen=True, tag="priority.read", array_like=True):
    """A door wants to see elements, not to have them; or to hear how they stand."""

    shares: Shares
    bytes_max: Weight = 4 << 20


class Seen(Numbered, frozen=True, tag="priority.seen", array_like=True):
    """What there is of them, and how all stand whose home this is."""

    pieces: Pieces
    leased: int = 0
    held: int = 0
    dead: Shares = ()
    free: Somes = ()
    """How many are free, by priority."""
    short: int = 0
    """How many are on fewer nodes than they should be."""
    more: bool = False
    """Of what was asked for, more is here than these pieces, and all of it is less urgent."""


One = (
    Climb | Granted | Food | Store | Stored | Take | Taken | End | Ended | Follow | Followed | Make
    | Made | Declare | Declared | Anew | Others | Tell | Told | Fetch | Fetched | Spare | Inquire
    | Inquired | Look | Looked | Read | Seen | Asked | Answered | Ranked | Met | Seek | Sought
)  # fmt: skip


class Several(msgspec.Struct, frozen=True, tag="priority.several", array_like=True):
    """All that one node had to say to another in one turn: heard in one turn, in this order."""

    messages: Annotated[tuple[One, ...], msgspec.Meta(max_length=SEVERAL_MAX)]


Message = One | Several

MESSAGES: Final[tuple[type[msgspec.Struct], ...]] = get_args(Message)
"""All that nodes say to each other."""

_ENCODE: Final = msgspec.msgpack.Encoder().encode


def together(messages: Sequence[One]) -> Iterator[Message]:
    """What is said to one node in one turn, in as few messages as hold it.

    >>> [type(one).__name__ for one in together([Followed(1, "q", at) for at in range(257)])]
    ['Several', 'Followed']
    """
    if len(messages) == 1:
        yield messages[0]
        return
    gathered: list[One] = []
    room = SEVERAL_BYTES
    for message in messages:
        size = len(_ENCODE(message))
        if gathered and (size > room or len(gathered) == SEVERAL_MAX):
            yield Several(tuple(gathered)) if len(gathered) > 1 else gathered[0]
            gathered, room = [], SEVERAL_BYTES
        gathered.append(message)
        room -= size
    yield Several(tuple(gathered)) if len(gathered) > 1 else gathered[0]
