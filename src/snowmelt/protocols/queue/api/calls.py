"""What clients ask of a queue, and what they are told. Items never travel one by one."""

from typing import Annotated, Final, get_args

import msgspec

from snowmelt.core.ahead import MANY, Blob, Count, Label, Number, Real, Text, Unsigned, Whole
from snowmelt.core.batch import OFFSET_BYTES
from snowmelt.core.instant import Duration, Length
from snowmelt.core.interval import Interval, backwards
from snowmelt.core.users import OwnName
from snowmelt.protocols.queue.api.backups import Restore, Restored, Save, Saved
from snowmelt.protocols.queue.api.deletes import Delete, Deleted
from snowmelt.protocols.queue.api.drains import Drain, Drained
from snowmelt.protocols.queue.api.places import NodeAddress as NodeAddress  # noqa: PLC0414
from snowmelt.protocols.queue.api.places import Span as Span  # noqa: PLC0414
from snowmelt.protocols.queue.api.schedules import (
    ListSchedules,
    Schedule,
    Scheduled,
    ScheduleRows,
    Unschedule,
)
from snowmelt.protocols.queue.api.settings import PRIORITIES_MAX, QueueSettings, Weights
from snowmelt.protocols.queue.api.statuses import (
    Consumers,
    HeldRun,
    ItemStatus,
    ListConsumers,
    ListQueues,
    OfItem,
    Overview,
    Overviewed,
    PeekHeld,
    QueueNames,
    TracedItem,
)
from snowmelt.protocols.queue.api.statuses import Describe as Describe  # noqa: PLC0414 - a call as others
from snowmelt.protocols.queue.api.statuses import QueueStatus as QueueStatus  # noqa: PLC0414

REASON_BYTES_MAX: Final = 1_000
"""A reason stays with its items, in each copy and in each answer with one of them."""
RECEIPTS_MAX: Final = 65_536
"""In one call."""
SHARES_MAX: Final = 10_000
COMMITTED_MAX: Final = 100
"""So many queues, and leases of one of them, take part in one transaction."""
PIECES_MAX: Final = 16_384
"""In so many intervals one call may settle items."""


class ItemRun(msgspec.Struct, frozen=True, array_like=True):
    """Items at adjacent positions, or in stretches: bodies as in `core.batch`, what is common."""

    start: Whole
    offsets: Blob
    blob: Blob
    headers: Blob = b""
    """The headers given with them, as msgpack of `Headers`; empty for none."""
    failures: Whole = 0
    """How often these were delivered before, in vain."""
    reason: Text = ""
    """Why the last of those deliveries failed."""
    times: Blob = b""
    """When they were put, as in `core.times`; empty where that is not known."""
    keys: Blob = b""
    """In a queue of any priorities, that of each, as in `keys.py`."""
    spans: Blob = b""
    """In which stretches they lie, where there are several (`core/spans.py`)."""

    @property
    def count(self) -> int:
        """How many items it has. O(1)."""
        return len(self.offsets) // OFFSET_BYTES - 1


# Looked at before any of them is unpacked: what is tiny on its way is an object here.
Receipts = Annotated[tuple["Receipt", ...], msgspec.Meta(max_length=2 * RECEIPTS_MAX)]
Intervals = Annotated[tuple[Interval, ...], msgspec.Meta(max_length=4 * PIECES_MAX)]
Shares = Annotated[tuple["Share", ...], msgspec.Meta(max_length=2 * SHARES_MAX)]
Settles = Annotated[tuple["Settle", ...], msgspec.Meta(max_length=2 * COMMITTED_MAX)]
Bounds = Annotated[tuple[Number, ...], msgspec.Meta(max_length=PRIORITIES_MAX)]


# --- opening -------------------------------------------------------------------------------------


class Open(msgspec.Struct, frozen=True, tag="fifo.open", array_like=True):
    """Asks which nodes serve a queue. It is made when it isn't there; None takes it as it is."""

    queue: Label
    settings: QueueSettings | None = None
    make: bool = True
    """Whether to make it though no settings are given: who only reads makes no queue."""
    may_make: bool = True
    """Whether the user may have it made; the door knows, and says no where that is so."""


class Opened(msgspec.Struct, frozen=True, tag="fifo.opened", array_like=True):
    """The grant: put at `store` and get at `master`, until told otherwise: both are its leader."""

    queue: Label
    settings: QueueSettings
    master: NodeAddress
    store: NodeAddress
    other: NodeAddress | None = None
    """Whom to ask when these are gone: any node, by chance."""
    door: NodeAddress | None = None
    """Where to put what has more bytes than `inline_max`: any node; None where the leader is."""
    since: Whole = 0
    """With which term it was made: another queue of its name has a later one."""


# --- items in ------------------------------------------------------------------------------------


class PriorityRun(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """So many items of one priority."""

    priority: Number
    count: Whole


Runs = Annotated[tuple[PriorityRun, ...], msgspec.Meta(max_length=PRIORITIES_MAX)]


class Put(msgspec.Struct, frozen=True, tag="fifo.put", array_like=True):
    """Puts a batch at the tail. The same sequence number is the same batch.

    Its items are of priority 0, or of those that `runs` names, one behind the other. They come in
    at one moment, each run at the tail of its priority.
    """

    queue: Label
    producer: OwnName
    sequence: Number
    offsets: Blob
    blob: Blob
    headers: Blob = b""
    due: Number = 0
    """Not to be delivered before this moment (ns since 1970); below 0, so long from when the queue
    has it (ns, by its leader's clock); 0 for at once."""
    patience: Length = Duration(0)
    """How long to wait for room in a full queue."""
    hold: Length = Duration(0)
    """Out of the queue until `PublishStaged` names it, or so much time is over; 0: don't."""
    caller: Label = ""
    """Who puts, by a name of its own for each that counts `turn`; empty: the client that calls."""
    turn: Number = 0
    """Counts the caller's puts. A retry has the turn of what it repeats; a new try a later one."""
    runs: Runs = ()
    """The most urgent first, and each priority once."""
    keys: Blob = b""
    """In a queue of any priorities, that of each item, as in `keys.py`."""
    since: Number = 0
    """For the queue that was made with this term, and no later one of its name; 0: for any."""
    home: Label = ""
    """With a `hold`: of which queue's transaction it is, with this producer and number."""
    unique: Blob = b""
    """Its uniqueness key (`uniques.py`); none where it is empty."""
    unique_for: Length = Duration(0)
    """For so long nothing more is put under that key; 0: while what is put now is in the queue."""

    @property
    def count(self) -> int:
        """How many items are in it."""
        return len(self.offsets) // OFFSET_BYTES - 1

    @property
    def size(self) -> int:
        """What counts of it: bodies and headers, which go with each run."""
        size = len(self.blob) + len(self.headers)
        return size + len(self.headers) * (len(self.runs) - 1) if self.runs else size


class Receipt(msgspec.Struct, frozen=True, tag="fifo.staged", array_like=True):
    """The answer to a put with a `hold`: under this name the batch waits to be published."""

    stream: Label
    first: Whole
    stop: Whole
    bytes: Whole

    def __post_init__(self) -> None:
        if self.first > self.stop:
            raise backwards(self.first, self.stop)


class PublishStaged(msgspec.Struct, frozen=True, tag="fifo.publish", array_like=True):
    """Puts staged batches at the tail, all of them in one step, in the order named.

    The same number is the same publication, whatever it names then; another digest is refused.
    """

    queue: Label
    producer: OwnName
    sequence: Number
    receipts: Receipts
    digest: Unsigned = 0
    """A number made of what the items are; 0 when that is not to be compared."""


class Share(msgspec.Struct, frozen=True, array_like=True):
    """What of a publication goes into one queue."""

    queue: Label
    receipts: Receipts
    digest: Unsigned


class Plan(msgspec.Struct, frozen=True, tag="fifo.plan", array_like=True):
    """Writes down what is to be published into several queues, before any of them has its share.

    What was written down first under a number stands: it is told, and is what is to be published.
    A `PublishStaged` without receipts into this queue, under the same number, ends it.
    """

    queue: Label
    producer: OwnName
    sequence: Number
    shares: Shares
    digest: Unsigned = 0
    """Of all shares; as in `PublishStaged`."""


class Planned(msgspec.Struct, frozen=True, tag="fifo.planned", array_like=True):
    """This is to be published; or all of it was, and has ended."""

    shares: Annotated[tuple[Share, ...], MANY]
    ended: bool = False


class PutDone(msgspec.Struct, frozen=True, tag="fifo.put-done", array_like=True):
    """The batch is in the queue. `stop` 0: it was put before, and where is no longer known."""

    start: Whole
    stop: Whole
    copies: Whole
    """On how many nodes it is; of a repeated one, what of it is in the queue now: 0 for nothing."""
    flushed: bool
    """Whether those had flushed before this was said."""
    repeated: bool = False
    """Whether this sequence number had been put before; then nothing was put again."""
    others: Annotated[tuple[Whole, ...], MANY] = ()
    """Where those of its less urgent priorities are: a start, its stop, the next start."""

    @property
    def where(self) -> list[Interval]:
        """Where its items are, the most urgent first.

        >>> PutDone(4, 6, 1, True, others=(9, 10)).where
        [Interval(start=4, stop=6), Interval(start=9, stop=10)]
        """
        edges = self.start, self.stop, *self.others
        return list(map(Interval, edges[::2], edges[1::2]))


# --- items out -----------------------------------------------------------------------------------


SECRET_BYTES: Final = 8
Secret = Annotated[bytes, msgspec.Meta(max_length=SECRET_BYTES)]
"""Drawn for a lease, so that nobody settles it who was not told: tokens can be guessed."""


class Settle(msgspec.Struct, frozen=True, tag="fifo.settle", array_like=True):
    """Of a lease these are done, those go back, and the rest is still worked on."""

    queue: Label
    token: Number
    done: Intervals = ()
    back: Intervals = ()
    due: Number = 0
    """What goes back is not to be delivered before this moment; as in `Put`."""
    reason: Text = ""
    """Why it goes back, in `REASON_BYTES_MAX` of UTF-8; empty when it counts as no delivery."""
    extend: bool = False
    """Give what is left the whole time of a lease anew."""
    dead: bool = False
    """What goes back with a reason is dead at once, as after as many deliveries as it may have."""
    lease: Length = Duration(0)
    """With `extend`: how long it lasts from now on, and when it is extended again; 0: as before."""
    secret: Secret = b""
    """As it came with the lease."""
    alone: Intervals = ()
    """Extend these alone, for as long as `lease` says (`settling.py`, rule 2)."""


class Settled(msgspec.Struct, frozen=True, tag="fifo.settled", array_like=True):
    """Done; so many items are still held under the lease."""

    left: Whole
    lease: Length = Duration(0)
    """For how long, from when that was asked, if it was extended."""
    lost: Intervals = ()
    """These were to be done, and are not held under it any more."""


class Promise(msgspec.Struct, frozen=True, tag="fifo.promise", array_like=True):
    """What these leases have ends with a transaction of another queue, or goes back with it.

    Answered by `Settled`.
    """

    queue: Label
    producer: OwnName
    sequence: Number
    home: Label
    settles: Settles


class Commit(msgspec.Struct, frozen=True, tag="fifo.commit", array_like=True):
    """Decides a transaction: these items of this queue end, and all else that is its part is done.

    A number that was committed is not committed again, whatever it names the second time.
    """

    queue: Label
    producer: OwnName
    sequence: Number
    settles: Settles
    shares: Shares
    sources: Annotated[tuple[Label, ...], msgspec.Meta(max_length=2 * COMMITTED_MAX)] = ()
    """Other queues in which items are promised to it."""
    patience: Length = Duration(0)
    """How long to wait until all parts are done."""
    give_up: bool = False
    """What is not decided never is, and is refused as `NotStaged`."""


class Committed(msgspec.Struct, frozen=True, tag="fifo.committed", array_like=True):
    """It was decided; in so many queues its part is not done yet, and will be."""

    left: Whole = 0


class Get(msgspec.Struct, frozen=True, tag="fifo.get", array_like=True):
    """Leases the first items there are, waiting for one; settles an earlier lease on the way."""

    queue: Label
    items_max: Number
    bytes_max: Number
    patience: Length
    settle: Settle | None = None
    ahead: bool = False
    """Whether items wait at the client for their turn: what it had not begun has not failed."""
    before: Number = -1
    """Lease only what comes before the item at this position, and don't wait; -1: any."""
    since: Number = 0
    """As in `Put`."""
    lease: Length = Duration(0)
    """How long these are leased, in a queue of one partition; 0: as the queue's settings say."""
    together: bool = False
    """Whether several items of one key may come at once, in order (`by_key.py`, rule 4)."""


class CancelGet(msgspec.Struct, frozen=True, tag="fifo.leave", array_like=True):
    """Nobody waits any more for the get that this client asked under that number."""

    queue: Label
    number: Count


class GetCancelled(msgspec.Struct, frozen=True, tag="fifo.left", array_like=True):
    """It waits no more, and has nothing: what it was leased has gone back, and has not failed."""


class Leased(msgspec.Struct, frozen=True, tag="fifo.leased", array_like=True):
    """These are yours for so long. `token` 0 with nothing in it: nothing came in the time given.

    What fits one answer comes along as parts; the rest is to be fetched by spans.
    """

    token: Whole
    parts: Annotated[tuple[ItemRun, ...], MANY]
    spans: Annotated[tuple[Span, ...], MANY]
    lease: Length
    refused: Text = ""
    """Why the lease that came along could not be settled; empty when it was, or none came."""
    away: Intervals = ()
    """The first of what waits before all others, for nodes that are away."""
    secret: Secret = b""
    """Whoever settles the lease says it."""


class Fetch(msgspec.Struct, frozen=True, tag="fifo.fetch", array_like=True):
    """Items of one span, from one that keeps them; as many as fit, at least one."""

    queue: Label
    span: Span
    bytes_max: Number


class Fetched(msgspec.Struct, frozen=True, tag="fifo.fetched", array_like=True):
    """Items from the span's start on; `damaged` counts those after them that can't be read."""

    parts: Annotated[tuple[ItemRun, ...], MANY]
    damaged: Whole = 0
    gone: Whole = 0
    """So many after the parts are not there: dropped since they are settled, or lost there."""


class Peek(msgspec.Struct, frozen=True, tag="fifo.peek", array_like=True):
    """Shows the first items from a position on, taking nothing; of the dead ones if asked."""

    queue: Label
    items_max: Number
    bytes_max: Number
    start: Number = 0
    dead: bool = False


class Select(msgspec.Struct, frozen=True, tag="fifo.select", array_like=True):
    """Shows the item of a rank, from 1 on, or at a share of all that are ready, taking nothing.

    With a key, it is the last item of that key (or of that priority, where they have numbers).

    Answered as `Peek` is, with nothing where there is none, or where it went as it was read.
    """

    queue: Label
    rank: Number = 0
    share: Real = 0.0
    """Where no rank is given: of so large a part of them it is the last, or it is the first."""
    key: Number | None = None


class Peeked(msgspec.Struct, frozen=True, tag="fifo.peeked", array_like=True):
    """What is there, as in `Leased`."""

    parts: Annotated[tuple[ItemRun, ...], MANY]
    spans: Annotated[tuple[Span, ...], MANY]
    held: Annotated[tuple[HeldRun, ...], MANY] = ()
    """All that `PeekHeld` found, in its order. Of those of large bodies only some come along."""


# --- items for a group: its own for good, until it says that it is past them ----------------------


class Assign(msgspec.Struct, frozen=True, tag="fifo.assign", array_like=True):
    """A group is done with its first `done` items, and wants to know what comes next.

    What it was given before and is not done with is named again; only when there is none of that
    are the first ready items given to it. They have no time-out. `lease` 0 begins: it ends any
    earlier lease of the group, and is refused when the group has begun to read. Refused as well is
    who knows of less than the group is done with.
    """

    queue: Label
    group: OwnName
    lease: Number
    reader: Label
    """Who asks, by a name made up for this: who begins twice under one name begins once."""
    done: Number
    items_max: Number
    bytes_max: Number
    below: Bounds = ()
    """Give of each priority only positions below its bound (`QueueStatus.bounds`); all without."""


class Assigned(msgspec.Struct, frozen=True, tag="fifo.assigned", array_like=True):
    """The group has been given so many items since it began, and reads them under this lease."""

    lease: Whole
    given: Whole
    ready: Whole
    """How many wait behind them."""
    located: Whole = 0
    """So many of them were located: above `done`, they were in a batch that was planned before."""


class Locate(msgspec.Struct, frozen=True, tag="fifo.locate", array_like=True):
    """Asks where a group's items lie, from its `after`-th on up to, not including, its `until`-th.

    Asked again it tells the same items, in the same order, until the group is done with them.
    """

    queue: Label
    group: OwnName
    lease: Number
    after: Number
    until: Number


class Located(msgspec.Struct, frozen=True, tag="fifo.located", array_like=True):
    """There; so many others are lost: no copy of them can be read."""

    spans: Annotated[tuple[Span, ...], MANY]
    lost: Whole
    bytes: Whole
    """About how large they are together."""


class Survey(msgspec.Struct, frozen=True, tag="fifo.survey", array_like=True):
    """Asks where ready items lie, from a position on. Takes nothing; answered by `Located`."""

    queue: Label
    start: Number
    items_max: Number


class ReleaseGroup(msgspec.Struct, frozen=True, tag="fifo.release", array_like=True):
    """Forgets a group; what it was given and was not done with goes back to its positions."""

    queue: Label
    group: OwnName


class ListGroups(msgspec.Struct, frozen=True, tag="fifo.list-groups", array_like=True):
    """Asks which groups a queue has."""

    queue: Label


class GroupStatus(msgspec.Struct, frozen=True, array_like=True):
    """How far a group is, and what it holds."""

    name: OwnName
    lease: Whole
    done: Whole
    """With so many items it is done, since it began."""
    given: Whole
    """So many it was given in all; the rest it holds."""
    heard: Whole
    """When it was last given something or done with something (ns since 1970)."""


class Groups(msgspec.Struct, frozen=True, tag="fifo.groups", array_like=True):
    """All groups of a queue."""

    groups: Annotated[tuple[GroupStatus, ...], MANY]


# --- the queue as a whole ------------------------------------------------------------------------


class Alter(msgspec.Struct, frozen=True, tag="fifo.alter", array_like=True):
    """From now on these are so, as `QueueSettings` names them; other keys keep their weights."""

    queue: Label
    settings: Annotated[tuple[tuple[Label, Number], ...], MANY]
    weights: Annotated[Weights, MANY] = ()


class Purge(msgspec.Struct, frozen=True, tag="fifo.purge", array_like=True):
    """Removes all items that wait (or all dead ones), and what is leased if that is said."""

    queue: Label
    dead: bool = False
    leased: bool = False


class Pause(msgspec.Struct, frozen=True, tag="fifo.pause", array_like=True):
    """Stops the handing out of items, or lets it go on; puts are taken all the time."""

    queue: Label
    paused: bool
    moving_to: Label = ""
    """In place of that: new puts wait for a while, since its items go into this queue."""


class Redrive(msgspec.Struct, frozen=True, tag="fifo.redrive", array_like=True):
    """Brings dead items back to their positions, at most so many a second (0: all at once)."""

    queue: Label
    per_second: Number = 0


class Changed(msgspec.Struct, frozen=True, tag="fifo.changed", array_like=True):
    """It is so; it was done to so many items."""

    items: Whole


Request = (
    Open | Put | PublishStaged | Plan | Commit | Promise | Get | CancelGet | Settle | Fetch | Peek
    | Select | Assign | Locate | Survey | ReleaseGroup | ListGroups | Alter | Purge | Pause
    | Redrive | Describe | Delete | ListQueues | Overview | Drain | ListConsumers | Save | Restore
    | Schedule | Unschedule | ListSchedules | OfItem | PeekHeld
)  # fmt: skip
Response = (
    Opened | PutDone | Receipt | Planned | Committed | Leased | GetCancelled | Settled | Fetched
    | Peeked | Assigned | Located | Groups | Changed | QueueStatus | Deleted | QueueNames
    | Overviewed | Drained | Consumers | Saved | Restored | Scheduled | ScheduleRows | ItemStatus
    | TracedItem
)  # fmt: skip

REQUESTS: Final[tuple[type[msgspec.Struct], ...]] = get_args(Request)
