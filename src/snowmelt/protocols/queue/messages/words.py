"""What those who have copies of a partition say to each other, and what waits until a step is safe.

All that waits is data: whoever reads it knows what it is for, and a state can be compared.
"""

from typing import Annotated, Any, Final, final, get_args

import msgspec

from snowmelt.core.ahead import MANY, Blob, Count, Label, Number, Unsigned, Whole
from snowmelt.core.instant import Duration, Instant, Length
from snowmelt.core.interval import Interval
from snowmelt.core.names import NodeId, NodeName, OperationId
from snowmelt.core.record import Found
from snowmelt.protocols.calling import Declined
from snowmelt.protocols.queue.api import calls
from snowmelt.protocols.queue.api.backups import Records
from snowmelt.protocols.queue.api.partition_names import Name
from snowmelt.protocols.queue.api.settings import PUT_BYTES_MAX
from snowmelt.protocols.queue.api.statuses import HeldRun
from snowmelt.protocols.queue.messages import home_words
from snowmelt.protocols.queue.messages import partition_words as parted
from snowmelt.protocols.queue.messages.home_words import Keeper, Keepers, OfTerm, Term
from snowmelt.protocols.queue.state.batches import StoredBatch
from snowmelt.protocols.queue.state.segments import Segment
from snowmelt.protocols.queue.state.spread import Lies

Key = Annotated[bytes, msgspec.Meta(max_length=280)]
Reason = Annotated[str, msgspec.Meta(max_length=4096)]
Pairs = Annotated[tuple[tuple[Key, Blob | None], ...], MANY]
"""Records by their keys; None for one that is there no more."""
ITEMS_MAX: Final = 1 << 20
"""In one put, in any case."""
PIECE_BYTES: Final = 1 << 20
"""So much of a copy travels at once, and one body more."""


class Head(msgspec.Struct, frozen=True, order=True, array_like=True, gc=False):
    """The last step of a copy, and in whose term it was made."""

    term: Term
    step: Count


NOTHING: Final = Head(0, 0)
"""The head of a copy that has no step."""


class Body(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The items of one put, as they lie on the disk, and where."""

    key: Key
    value: Blob


# --- what a leader says ---------------------------------------------------------------------------


class Append(OfTerm, frozen=True, tag="queue.append", array_like=True):
    """A step, and the one behind which it goes."""

    head: Head
    after: Head
    records: Pairs
    bodies: Annotated[tuple[Body, ...], MANY]
    over: Annotated[tuple[Interval, ...], MANY]
    """Where bodies lie that nobody needs any more."""
    linger: Length = Duration(0)
    """How late it may be flushed; with any, its follower answers at once."""

    @property
    def weight(self) -> int:
        """What it takes in memory, about."""
        return 200 + sum([len(one.value) for one in self.bodies]) + 40 * len(self.records)

    @property
    def size(self) -> int:
        """What it takes on its way, at most."""
        records = sum([len(value) for _, value in self.records if value is not None])
        return self.weight + records + 20 * (len(self.records) + len(self.over))


class Confirm(OfTerm, frozen=True, tag="queue.confirm", array_like=True):
    """Asks whether a later term was heard of."""

    number: Count


class Fence(OfTerm, frozen=True, tag="queue.fence", array_like=True):
    """Take nothing of an earlier term from now on."""

    keeper: Keeper
    """Whose copy is meant: a node with another disk has another one."""
    run: Keeper = ""
    """Of the keeper, which the leader knows of; its earlier runs told nothing above `head`."""
    head: Head = NOTHING
    since: Term = 0
    """With which term the queue was made: an older copy is of another one."""
    sought: Term = 0
    """Among the copies of which term the newest is sought."""


class SnapshotChunk(OfTerm, frozen=True, tag="queue.piece", array_like=True):
    """Some of a copy as of its head: its bodies first, and then its records."""

    head: Head
    number: Count
    last: bool
    bodies: Annotated[tuple[Body, ...], MANY]
    records: Pairs


class FetchBodies(OfTerm, frozen=True, tag="queue.fetch", array_like=True):
    """Asks for bodies that can not be read here."""

    batches: Annotated[tuple[tuple[Interval, Term], ...], MANY]
    """Where those of each batch lie, and in which term it was put."""


class Thinner(msgspec.Struct, frozen=True, array_like=True):
    """A body of which only this is to be left: stretches, counted from its first item on."""

    place: Interval
    term: Term
    left: Annotated[tuple[Count, ...], MANY]


class Thin(OfTerm, frozen=True, tag="queue.thin", array_like=True):
    """By this step the rest of these bodies is over, whoever leads."""

    head: Head
    bodies: Annotated[tuple[Thinner, ...], MANY]


# --- what lies on data nodes (`storing.py`) -------------------------------------------------------


class Offered(msgspec.Struct, array_like=True):
    """A put without its items."""

    producer: Label
    sequence: Whole
    count: Annotated[int, msgspec.Meta(ge=1, le=ITEMS_MAX)]
    size: Annotated[int, msgspec.Meta(ge=0, le=PUT_BYTES_MAX)]
    due: Number
    patience: Length
    hold: Length
    caller: Label
    turn: Whole
    priority: Unsigned
    names: Blob = b""
    """The keys of its items (`labels.keys_of`)."""
    home: Label = ""
    """As in `calls.Put`."""
    unique: Blob = b""
    unique_for: Length = Duration(0)


@final
class SpreadPut(Offered, kw_only=True):
    """The same at the leader, with what is known of its bodies."""

    operation: OperationId
    door: NodeId
    """The node at which its client asked."""
    asked: Instant
    """When that asked first."""
    heard: Instant
    """When that asked last."""
    place: Interval = Interval(0, 0)
    """Where the bodies lie; none where it was put before."""
    wanted: dict[str, None] = {}
    """Who is to have them."""
    has: dict[str, None] = {}
    """Who has, flushed."""
    refused: dict[str, str] = {}
    """Who can't take them, and why."""
    enough: Instant = Instant(0)
    """Since when so many have as must."""

    def lies(self, term: int) -> Lies:
        """Where, once it is let in."""
        return Lies(self.place.stop, term, tuple(self.has))


class Offer(OfTerm, frozen=True, tag="queue.offer", array_like=True):
    """A client of this node puts what is to lie on data nodes."""

    operation: OperationId
    put: Offered


class Goes(OfTerm, frozen=True, tag="queue.goes", array_like=True):
    """Its bodies go to that place, at those who have not got them yet."""

    operation: OperationId
    place: Interval
    wall: Whole
    """When it was put, by the leader's clock."""
    keepers: Keepers


class Admitted(msgspec.Struct, frozen=True, tag="queue.admitted", array_like=True):
    """A put is in the queue; as `PutDone`."""

    where: Interval
    copies: Whole
    flushed: bool
    repeated: bool


class PutReply(OfTerm, frozen=True, tag="queue.told", array_like=True):
    """What the client is told who put it."""

    operation: OperationId
    answer: Admitted | calls.Receipt | Declined


class StoreBody(OfTerm, frozen=True, tag="queue.store", array_like=True):
    """Keep this body, and say to whom it comes from, and to the leader, when it is flushed."""

    leader: NodeName
    body: Body


class BodyStored(OfTerm, frozen=True, tag="queue.stored", array_like=True):
    """A data node says that it has flushed a body."""

    leader: NodeName
    keeper: Keeper
    key: Key


class Lacks(OfTerm, frozen=True, tag="queue.lacks", array_like=True):
    """It is not, or can't be read any more."""

    keeper: Keeper
    key: Key
    reason: Reason


class CopyBody(OfTerm, frozen=True, tag="queue.pass", array_like=True):
    """Who has this body is to have another store it as well."""

    key: Key
    target: NodeName


class Spare(OfTerm, frozen=True, tag="queue.spare", array_like=True):
    """I have these, and ask which of them nobody needs."""

    keeper: Keeper
    keys: Annotated[tuple[Key, ...], MANY]
    leaves: bool = False
    """Whether others are to have all of them, since this node is to leave."""
    number: Whole = 0
    """Of what it said so far (`body_store.py`, rule 5)."""


class Spared(OfTerm, frozen=True, tag="queue.spared", array_like=True):
    """The leader's answer: nobody needs the bodies under these keys."""

    keys: Annotated[tuple[Key, ...], MANY]
    linger: Length = Duration(0)
    """Above 0: who is told so again after more than that may believe it."""
    number: Whole = 0
    """Where others have them, that of the question; 0 where nobody needs them."""


# --- what the others say --------------------------------------------------------------------------


class Appended(OfTerm, frozen=True, tag="queue.appended", array_like=True):
    """All up to this step is flushed."""

    keeper: Keeper
    head: Head


class AppendRejected(OfTerm, frozen=True, tag="queue.behind", array_like=True):
    """It can't take a step that came: this is all that it has, flushed."""

    keeper: Keeper
    head: Head


class NoRoom(OfTerm, frozen=True, tag="queue.no-room", array_like=True):
    """Its disk has none for a step that came; it tries again."""

    keeper: Keeper
    reason: Reason


class Confirmed(OfTerm, frozen=True, tag="queue.confirmed", array_like=True):
    """No later term was heard of: the leader may answer reads."""

    keeper: Keeper
    number: Count


class Fenced(OfTerm, frozen=True, tag="queue.fenced", array_like=True):
    """It takes nothing earlier; this is the last step that it has, flushed."""

    keeper: Keeper
    head: Head
    sure: bool = True
    """Whether it has all that it ever told (`copy.py`, rule 5)."""


class Bring(OfTerm, frozen=True, tag="queue.bring", array_like=True):
    """Of the copy with this head, send this piece; it has those before it."""

    keeper: Keeper
    head: Head
    number: Count


class FetchedBodies(OfTerm, frozen=True, tag="queue.fetched", array_like=True):
    """It has these of them, and no others."""

    keeper: Keeper
    batches: Annotated[tuple[tuple[Interval, Term], ...], MANY]
    bodies: Annotated[tuple[Body, ...], MANY]


class Decided(OfTerm, frozen=True, tag="queue.decided", array_like=True):
    """The home of a transaction tells a queue that has a part in it (`transactions.py`)."""

    to: Name
    producer: Label
    number: Count
    committed: bool
    """Or it was given up."""
    receipts: Annotated[tuple[calls.Receipt, ...], MANY] = ()
    """What is to be put."""


class PartDone(OfTerm, frozen=True, tag="queue.part-done", array_like=True):
    """A queue tells the home that its part is done, and safe."""

    to: Name
    producer: Label
    number: Count


class AskDecision(OfTerm, frozen=True, tag="queue.ask-decision", array_like=True):
    """A queue that has a part in a transaction asks its home what was decided."""

    to: Name
    producer: Label
    number: Count


class Superseded(OfTerm, frozen=True, tag="queue.superseded", array_like=True):
    """It heard of this term, which is later than that of whom it tells."""


ToFollower = Append | Confirm | Fence | SnapshotChunk | FetchBodies | Thin


class PassOn(msgspec.Struct, frozen=True, tag="queue.pass-on", array_like=True):
    """The coordinator is to tell a node what it may not hear from who says it."""

    source: NodeName
    target: NodeName
    word: Decided | PartDone | AskDecision | parted.Message


ToLeader = Appended | AppendRejected | NoRoom | Confirmed | Fenced | BodyStored | Lacks | Spare
ToOthers = (
    Bring
    | FetchedBodies
    | Superseded
    | Offer
    | Goes
    | PutReply
    | StoreBody
    | CopyBody
    | Spared
    | Decided
    | PartDone
    | AskDecision
    | PassOn
)
Message = ToFollower | ToLeader | ToOthers

MESSAGES: Final[tuple[type[msgspec.Struct], ...]] = (
    *get_args(ToFollower),
    *get_args(ToLeader),
    *get_args(ToOthers),
    *home_words.MESSAGES,
    *parted.MESSAGES,
    *calls.REQUESTS,
)


# --- what waits until a step is safe --------------------------------------------------------------


class ReplyTo(msgspec.Struct, frozen=True, gc=False):
    """An answer that is known."""

    operation: OperationId
    answer: msgspec.Struct


class Deliver(msgspec.Struct, frozen=True, gc=False):
    """The items of a lease."""

    operation: OperationId
    token: int
    refused: str
    """Why what came along to be settled was not."""


class Show(msgspec.Struct, frozen=True, gc=False):
    """Items that are only looked at."""

    operation: OperationId
    positions: tuple[Interval, ...]
    held: tuple[HeldRun, ...] = ()
    """In which runs they lie, where they are leased or delayed."""


class SaveOwed(msgspec.Struct, frozen=True, gc=False):
    """A piece of a backup: batches with what lives of each, and records."""

    operation: OperationId
    backup: int
    batches: tuple[tuple[StoredBatch, bytes], ...]
    records: Records
    last: bool


class EraseBodies(msgspec.Struct, frozen=True, gc=False):
    """A data node may erase these."""

    keeper: str
    keys: tuple[Key, ...]
    number: int = 0


class Say(msgspec.Struct):
    """What another node is told; whoever owes it sees whether it was."""

    target: NodeId
    message: parted.PartitionReport | parted.Numbers
    told: bool = False


class ToLeaderOf(msgspec.Struct, frozen=True):
    """For whoever leads a queue, on whichever node: it is said again if it does not arrive."""

    word: Decided | PartDone | AskDecision
    again: bool = False
    """Whether it was said before, and what is known of that queue's home may be old."""


Owed = ReplyTo | Deliver | Show | EraseBodies | Say | ToLeaderOf


class Placed(msgspec.Struct, frozen=True, gc=False):
    """A put that was let in: where its items are, and under which number; none if it is staged."""

    where: Interval
    producer: str = ""
    sequence: int = 0


# --- what a flush was for -------------------------------------------------------------------------


class OwnStep(msgspec.Struct, frozen=True, gc=False):
    """The leader's own copy of a step, or a follower's that was told before."""

    head: Head


class OwnFence(msgspec.Struct, frozen=True, gc=False):
    """Of the node that is to lead."""

    term: int


class SendWhenFlushed(msgspec.Struct, frozen=True, gc=False):
    """Another is told when it is flushed."""

    target: NodeId
    message: Appended | AppendRejected | Fenced | Bring | BodyStored | home_words.Erased


class Replaced(msgspec.Struct, frozen=True, gc=False):
    """Another's copy is this node's own now."""

    target: NodeId
    head: Head
    term: int


class Mended(msgspec.Struct, frozen=True, gc=False):
    """Bodies that could not be read are there again."""


class Thinned(msgspec.Struct, frozen=True, gc=False):
    """Bodies take less: nobody waits for that."""


Flush = OwnStep | OwnFence | SendWhenFlushed | Replaced | Mended | Thinned


# --- what parts of a node say to each other -------------------------------------------------------


class Again(msgspec.Struct, frozen=True):
    """A call whose leader leads no more, and that was not answered: whoever leads next is to."""

    operation: OperationId
    request: Any


class CallRouted(msgspec.Struct, frozen=True):
    """Where the queue of a call is at home, or why it is nowhere: the call goes on."""

    operation: OperationId
    request: Any
    home: home_words.Assignment | home_words.Nowhere


class AssignmentStored(msgspec.Struct, frozen=True):
    """A home that the coordinator decided on is flushed: it may be told."""

    home: home_words.Assignment
    also: NodeId | None
    """Whom else."""


class Undo(msgspec.Struct, frozen=True):
    """The records that the disk has of a copy are to be read: what found no room is given up."""

    queue: str
    start: bytes
    """From which key on."""
    found: list[Found]
    """Those that are before."""


class ReadBodies(msgspec.Struct, frozen=True):
    """Bodies are to be read from the disk for what is owed."""

    queue: str
    batches: tuple[StoredBatch, ...]
    owed: Deliver | Show | SaveOwed
    hand: dict[int, Segment]
    """Those that are at hand, by where their bodies begin."""
