"""What clients ask of how queues are, and what they are told."""

from enum import StrEnum
from typing import Annotated, Final, TypeAlias

import msgspec

from snowmelt.core.ahead import MANY, Count, Label, Number, Real, Text, Whole
from snowmelt.core.names import NodeName
from snowmelt.core.users import Patterns
from snowmelt.protocols.queue.api.settings import QueueSettings

ROWS_MAX: Final = 200
CONSUMERS_MAX: Final = 1_000
Place = Annotated[int, msgspec.Meta(ge=0, le=1 << 62)]
ClientName = Annotated[str, msgspec.Meta(max_length=64)]


class Describe(msgspec.Struct, frozen=True, tag="fifo.describe", array_like=True):
    """Asks how a queue is."""

    queue: Label


class QueueStatus(msgspec.Struct, frozen=True, tag="fifo.status", array_like=True):
    """How a queue is, at its leader."""

    queue: Label
    settings: QueueSettings
    leader: NodeName
    followers: Annotated[tuple[NodeName, ...], MANY]
    term: Number
    paused: bool
    ready: Number
    delayed: Number
    leased: Number
    dead: Number
    bytes: Number
    tail: Number
    """The position the next item gets; so many were put in all, not counting gaps."""
    done: Number
    """How many items were acknowledged."""
    lost: Number
    """How many were given up because no copy of them could be read."""
    waiting_gets: Number
    waiting_puts: Number
    blocks: Number
    """How many blocks of puts there are; each is a record (`queue/batches.py`)."""
    short_of_copies: Number
    """Items on fewer nodes than they should be: all, while a follower lacks its copy or is away."""
    producers: Number
    assigned: Number = 0
    """How many items groups hold."""
    staged: Number = 0
    """How many items wait to be published; they are not in the queue yet."""
    followers_behind: Number = 0
    """How many followers lack the last step; they are away, or it is on its way."""
    tails: Annotated[tuple[Number, ...], MANY] = ()
    """Where there are several priorities, how many were put of each."""
    ready_of: Annotated[tuple[Number, ...], MANY] = ()
    """And how many of each are ready."""
    copied: Number = 100
    """Of a hundred parts of its copy, how many the follower has that lacks most."""
    leaders: Annotated[tuple[Label, ...], MANY] = ()
    """Of several partitions, who leads each; "" of one that could not be asked."""
    away: Annotated[tuple[Number, ...], MANY] = ()
    """And which could not be: they are in none of the counts."""
    oldest_ready: Real | None = None
    """For how many seconds the oldest of these has been in the queue; None where there is none."""
    oldest_leased: Real | None = None
    oldest_delayed: Real | None = None
    delivery_age: Real | None = None
    """For how many seconds what was delivered in the last half minute had been in the queue."""
    delivery_ages: Real = 0.0
    """The same of all that was delivered in this term, as a sum of so many items:"""
    deliveries_timed: Number = 0
    put: Number = 0
    """How many items ever came in. This and those below only grow."""
    delivered: Number = 0
    """How often an item was given out."""
    returned: Number = 0
    """How often one came back: released, failed, or its lease was over."""
    failed: Number = 0
    """How often with a reason."""
    expired: Number = 0
    """How often since its lease was over."""
    died: Number = 0
    """How often one was set aside as dead."""
    purged: Number = 0
    """How many were removed by a purge."""
    aged: Number = 0
    """How many were older than the queue's retention."""
    schedules: Number = 0
    """How many it has that put items into it."""
    keys: Number = 0
    """How many keys its items have, where it gives them out by key."""

    @property
    def bounds(self) -> tuple[int, ...]:
        """How far it goes, by priority: a group may be given only what is there by now."""
        ranks = self.tails[::-1] if self.settings.largest_first else self.tails
        return ranks or (self.tail,)


class Overview(msgspec.Struct, frozen=True, tag="fifo.overview", array_like=True):
    """Asks the node that hears it how the queues are that it leads, by name, behind one.

    What it tells is not confirmed by followers: whoever leads no more may not know it yet.
    """

    after: Annotated[str, msgspec.Meta(max_length=200)] = ""
    rows_max: Annotated[int, msgspec.Meta(ge=1, le=ROWS_MAX)] = ROWS_MAX
    only: Patterns = ()
    """As in `ListQueues`."""


class Overviewed(msgspec.Struct, frozen=True, tag="fifo.overviewed", array_like=True):
    """So many of them are so, and perhaps there are more."""

    node: NodeName
    rows: Annotated[tuple[QueueStatus, ...], MANY]
    more: bool


class ListQueues(msgspec.Struct, frozen=True, tag="fifo.list", array_like=True):
    """Asks which queues there are."""

    only: Patterns = ()
    """Only those that fit one of these; the door says which the user may see. Without: all."""


class QueueNames(msgspec.Struct, frozen=True, tag="fifo.names", array_like=True):
    """All queues of the cluster."""

    names: Annotated[tuple[Label, ...], MANY]
    ranked: Annotated[tuple[Label, ...], MANY] = ()
    """Those of them with several priorities."""
    parted: Annotated[tuple[Label, ...], MANY] = ()
    """Those of them with several partitions."""


class ListConsumers(msgspec.Struct, frozen=True, tag="fifo.list-consumers", array_like=True):
    """Asks who uses a queue, by the names of clients, behind one."""

    queue: Label
    after: ClientName = ""
    rows_max: Annotated[int, msgspec.Meta(ge=1, le=CONSUMERS_MAX)] = CONSUMERS_MAX


class ConsumerRow(msgspec.Struct, array_like=True):
    """One client that uses a queue."""

    client: ClientName
    items: Whole = 0
    """So many are leased to it."""
    held: Real = 0.0
    """For how many seconds it has had the oldest of these leases, as the leader knows it."""
    gets: Whole = 0
    """So many of its gets wait for items."""
    puts: Whole = 0
    """So many of its puts wait for room."""


class Consumers(msgspec.Struct, frozen=True, tag="fifo.consumers", array_like=True):
    """So many of them are so, and perhaps there are more."""

    rows: Annotated[tuple[ConsumerRow, ...], MANY]
    more: bool


class ItemStanding(StrEnum):
    """Where one item is."""

    READY = "ready"
    DELAYED = "delayed"
    LEASED = "leased"
    DEAD = "dead"
    WITH_A_GROUP = "with a group"
    ENDED = "ended"
    """Acknowledged, dropped, purged or lost: that is not remembered."""
    NEVER = "never put"


class DescribeItem(msgspec.Struct, frozen=True, tag="queue.describe-item", array_like=True):
    """Asks how one item is, and who has it."""

    queue: Label
    position: Place


class ItemStatus(msgspec.Struct, tag="queue.item-status", array_like=True):
    """How one item is, at its leader."""

    standing: ItemStanding
    bytes: Number = 0
    """Of its body, about: as many as those put with it have in the mean."""
    put_at: Number = 0
    """By the clock of the node that took it, to a second; 0 where that is not known."""
    failures: Number = 0
    """How many deliveries of it failed."""
    reason: Text = ""
    """Why the last of them did."""
    client: ClientName = ""
    """Who has it."""
    held: Real = 0.0
    """For how many seconds, as this leader knows it."""
    left: Real = 0.0
    """So many seconds its lease or its delay lasts still."""
    group: Annotated[str, msgspec.Meta(max_length=200)] = ""
    """The group that holds it."""


class TraceItem(msgspec.Struct, frozen=True, tag="queue.trace-item", array_like=True):
    """Asks for the life of one item, as far as its leader has records of it."""

    queue: Label
    position: Place
    names: bool = True
    """Whether clients are named; the door says whether the user may know them."""


class TraceKind(StrEnum):
    """What happened to an item."""

    PUT = "put"
    LEASED = "leased"
    EXTENDED = "extended"
    RELEASED = "released"
    """It came back, and that counts as no failure."""
    FAILED = "failed"
    """It came back with a reason, or since its lease ended."""
    DIED = "died"
    BROUGHT_BACK = "brought back"
    GIVEN = "given to a group"
    ACKNOWLEDGED = "acknowledged"
    REMOVED = "dropped or purged"
    AGED = "too old"
    LOST = "lost"
    ENDED = "ended"
    """Some ended by acknowledgements in that step, and others were removed."""


class TraceEvent(msgspec.Struct, array_like=True):
    """Something that happened to an item."""

    kind: TraceKind
    term: Count = 0
    step: Count = 0
    """Of the queue's log; 0 where it is not known which."""
    after: Count = 0
    """It was not before this moment of the leader's wall clock; 0 where that is not known."""
    before: Count = 0
    """And not behind this one."""
    who: Label = ""
    """The client, the producer or the group that did it."""
    number: Count = 0
    """Of a put, that of its producer; of a lease, its token."""
    length: Real = 0.0
    """For how many seconds it was leased."""
    times: Number = 0
    """How often it had failed by then."""
    reason: Text = ""
    due: Count = 0
    """When it is to be given, by the wall clock; 0 where it was not delayed."""


class TracedItem(msgspec.Struct, frozen=True, tag="queue.traced-item", array_like=True):
    """How an item is, and what is known to have happened to it, the first first."""

    status: ItemStatus
    events: Annotated[tuple[TraceEvent, ...], MANY]
    since: Count
    """What happened in steps up to this one is not known any more."""
    begun: Count
    """When that step was made at the latest, by the wall clock; 0 where that is not known."""
    head: Count
    """The last step of the log."""
    left_out: Count = 0
    """So many events are not told, the earliest."""


class ShowItem(msgspec.Struct, frozen=True, tag="queue.show-item", array_like=True):
    """Shows one item, whoever has it; answered as `Peek` is, with nothing where it has ended."""

    queue: Label
    position: Place


class PeekHeld(msgspec.Struct, frozen=True, tag="queue.peek-held", array_like=True):
    """Shows items that are leased, the longest held first; or that are delayed, the next due first.

    Answered as `Peek` is, with the runs in which they lie.
    """

    queue: Label
    items_max: Number
    bytes_max: Number
    delayed: bool = False
    names: bool = True
    """Whether clients are named; the door says whether the user may know them."""


class HeldRun(msgspec.Struct, frozen=True, array_like=True):
    """Items at adjacent positions that one lease has, or that are delayed until one moment."""

    start: Place
    stop: Place
    left: Real
    """So many seconds the lease or the delay lasts still."""
    held: Real = 0.0
    """For how many seconds it has been leased, as this leader knows it."""
    client: ClientName = ""
    """To whom."""


class ChangeItem(msgspec.Struct, frozen=True, tag="queue.change-item", array_like=True):
    """Ends one item, or makes it ready, whoever has it."""

    queue: Label
    position: Place
    drop: bool
    dead: bool = False
    """Only where it is a dead letter still."""


OfItem: TypeAlias = DescribeItem | ShowItem | TraceItem | ChangeItem
"""What is asked about one item."""
