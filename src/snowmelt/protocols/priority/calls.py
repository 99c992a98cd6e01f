"""What clients ask of a priority queue, and what they are told. Nothing travels one by one."""

from typing import Annotated, Final, get_args

import msgspec

from snowmelt.core.instant import Duration
from snowmelt.core.names import Address, NodeId
from snowmelt.protocols.priority.batches import Order, Priority, Shares, SharesInOrder, Some
from snowmelt.protocols.priority.fields import Token, Weight
from snowmelt.protocols.priority.messages import Piece
from snowmelt.protocols.priority.settings import Name, QueueSettings

GET_ITEMS: Final = 100_000
PARTS_MAX: Final = 1_024


Said = Annotated[tuple[Name, ...], msgspec.Meta(max_length=16)]


class Via(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One life of a node. A call that names another than it reaches may have been begun there."""

    node: NodeId
    life: int


# --- opening --------------------------------------------------------------------------------------


class Open(msgspec.Struct, frozen=True, tag="priority.open", array_like=True):
    """Asks for a queue's settings. It is made when it isn't there; None takes it as it is."""

    queue: Name
    settings: QueueSettings | None = None
    make: bool = True
    """Whether to make it though no settings are given: who only reads makes no queue."""
    said: Said = ()
    """Which of the settings a queue that is there must have; all of them when none is named."""


class Opened(msgspec.Struct, frozen=True, tag="priority.opened", array_like=True):
    """The queue's settings; and which life of which node answers, to be named in what is asked."""

    settings: QueueSettings
    via: Via
    address: Address
    """Where it is: an operation that is asked there first needs no inquiry."""
    home: Address | None = None
    """Where another is, with which all of the queue lies: it answers in fewer steps. None where
    this node is that one, or each has a part."""


class Queues(msgspec.Struct, frozen=True, tag="priority.queues", array_like=True):
    """Asks which queues there are."""


class QueuesAre(msgspec.Struct, frozen=True, tag="priority.queues_are", array_like=True):
    """All of them."""

    settings: tuple[QueueSettings, ...]


# --- elements in ----------------------------------------------------------------------------------


class Part(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Elements of one priority, in order: bodies as in `core.batch`."""

    priority: Priority
    offsets: bytes
    blob: bytes
    keys: bytes = b""
    """The priority of each, where priorities have no number (`core.keys`)."""


class Put(msgspec.Struct, frozen=True, tag="priority.put", array_like=True, gc=False):
    """Puts elements. Any node takes them; asked again under its number it is the same put."""

    queue: Name
    via: Via
    """The node that was asked first, in the life in which it was asked."""
    parts: Annotated[tuple[Part, ...], msgspec.Meta(max_length=PARTS_MAX)]
    headers: bytes = b""
    """The headers of all of them, as msgpack of `Headers`; empty for none."""
    delay: Duration = Duration(0)
    patience: Duration = Duration(0)
    """How long to wait for room in a full queue."""

    @property
    def size(self) -> int:
        """How many bytes it has. O(parts)."""
        sizes = [len(one.offsets) + len(one.blob) + len(one.keys) for one in self.parts]
        return sum(sizes) + len(self.headers)


class PutDone(msgspec.Struct, frozen=True, tag="priority.put_done", array_like=True, gc=False):
    """They are in the queue, in the order of the parts, flushed by so many nodes."""

    shares: SharesInOrder
    copies: int
    orders: tuple[int, ...]
    """When, in the order of all operations: the order of the first of each stretch of elements
    that follow each other in it. More than one only for what had to be begun anew."""


# --- elements out ---------------------------------------------------------------------------------


class Receipt(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Elements held under one lease."""

    token: Token
    shares: Shares


Receipts = Annotated[tuple[Receipt, ...], msgspec.Meta(max_length=16_384)]


class Settle(msgspec.Struct, frozen=True, tag="priority.settle", array_like=True, gc=False):
    """About elements held under leases: these are done, those go back, those are worked on still.

    What is not held any more is named in the answer; all else is done.
    """

    queue: Name
    done: Receipts = ()
    back: Receipts = ()
    delay: Duration = Duration(0)
    """How long what goes back is held."""
    reason: str = ""
    """Why it goes back; empty when nothing failed, and then it doesn't count as a delivery."""
    renew: Receipts = ()
    dead: bool = False
    """What goes back with a reason is dead at once, however often it may be delivered."""


class Settled(msgspec.Struct, frozen=True, tag="priority.settled", array_like=True, gc=False):
    """Done, but for these, which were not held any more.

    What is said again since a view ended may be named here though its first saying took effect.
    """

    lost: Receipts = ()


class Get(msgspec.Struct, frozen=True, tag="priority.get", array_like=True, gc=False):
    """Leases the most urgent elements there are, waiting for one."""

    queue: Name
    via: Via
    items_max: Annotated[int, msgspec.Meta(ge=1, le=GET_ITEMS)]
    patience: Duration
    settle: Settle | None = None
    """To be done first."""
    bytes_max: Weight = 16 << 20
    """What they weigh at most, though one is handed out whatever it weighs."""
    gathered: bool = False
    """Whether what lies in many stretches may be told as one piece; who says nothing knows none."""
    heard: Duration = Duration(0)
    """How long its answer is waited for: what comes later than that goes back. 0 for ever."""
    ahead: bool = False
    """Whether items wait at the client for their turn: what it had not begun has not failed."""


class Leased(msgspec.Struct, frozen=True, tag="priority.leased", array_like=True, gc=False):
    """These are yours for so long; nothing when none came in the time given.

    Most urgent first; where priorities have no number as they lie, each with its key (`seap`, 9).
    """

    token: Token
    pieces: tuple[Piece, ...]
    lease: Duration
    order: int
    """In the order of all operations: of the first of them, or of the get that found nothing; 0 for
    one that comes again when nothing of what it got is held any more, or nobody knows its phase."""
    lost: Receipts = ()
    """Of what was to be settled first: not held any more."""


# --- looking, and the rest ------------------------------------------------------------------------


class Peek(msgspec.Struct, frozen=True, tag="priority.peek", array_like=True):
    """Shows the next elements, taking nothing; or the dead ones."""

    queue: Name
    items_max: Annotated[int, msgspec.Meta(ge=1, le=GET_ITEMS)]
    dead: bool = False


class Select(msgspec.Struct, frozen=True, tag="priority.select", array_like=True):
    """Shows the element of a rank, from 1 on, or at a share of all that is ready, taking nothing.

    Answered as `Peek` is, with nothing when there is none.
    """

    queue: Name
    rank: Order = 0
    share: Annotated[float, msgspec.Meta(ge=0, le=1)] | None = None


class Peeked(msgspec.Struct, frozen=True, tag="priority.peeked", array_like=True):
    """What is there."""

    pieces: tuple[Piece, ...]


class Statistics(msgspec.Struct, frozen=True, tag="priority.statistics", array_like=True):
    """Asks how a queue stands."""

    queue: Name


class Status(msgspec.Struct, frozen=True, tag="priority.status", array_like=True):
    """How many there are to be got, by priority; and leased, held, and dead ones."""

    settings: QueueSettings
    anchor: NodeId
    ready: tuple[Some, ...]
    leased: int
    held: int
    dead: int
    short_of_copies: int = 0
    """Elements on fewer nodes than they should be."""


class Purge(msgspec.Struct, frozen=True, tag="priority.purge", array_like=True):
    """Empties a queue of what is ready; or of its dead elements. Leased ones are left alone."""

    queue: Name
    via: Via
    dead: bool = False


class Redrive(msgspec.Struct, frozen=True, tag="priority.redrive", array_like=True):
    """Makes dead elements ready again, as if never delivered."""

    queue: Name
    via: Via


class Counted(msgspec.Struct, frozen=True, tag="priority.counted", array_like=True):
    """So many."""

    count: int


Request = Open | Queues | Put | Settle | Get | Peek | Statistics | Purge | Redrive | Select
Response = Opened | QueuesAre | PutDone | Settled | Leased | Peeked | Status | Counted

CALLS: Final[tuple[type[msgspec.Struct], ...]] = get_args(Request)
"""All that clients ask."""
