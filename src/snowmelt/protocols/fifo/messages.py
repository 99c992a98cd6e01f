"""What nodes say to each other about fifos."""

from typing import Final, get_args

import msgspec

from snowmelt.core.instant import Duration
from snowmelt.core.names import NodeId
from snowmelt.protocols.fifo.calls import REQUESTS
from snowmelt.protocols.fifo.settings import QueueSettings

Pairs = tuple[tuple[bytes, bytes | None], ...]
"""Keys of a queue's journal with their new values; None where there is none any more."""


class Extent(msgspec.Struct, frozen=True, array_like=True):
    """A run of items in a stream: from index `first` up to, not including, `stop`."""

    stream: str
    first: int
    stop: int


# --- where a queue is at home ---------------------------------------------------------------------


class Home(msgspec.Struct, frozen=True, tag="fifo.home", array_like=True):
    """Who is a queue's master in this term, and who else keeps its journal."""

    queue: str
    term: int
    master: str
    mirrors: tuple[str, ...]
    settings: QueueSettings
    run: str = ""
    """The run of the master for which this term was made."""
    active: bool = False
    """Whether the master has brought the journal over; only then it serves."""
    before: tuple[str, ...] = ()
    """While it isn't active: the keepers of the journal in the last term that was."""
    before_term: int = 0
    """Which term that was; 0 in the homes of before this was written down."""


class Where(msgspec.Struct, frozen=True, tag="fifo.where", array_like=True):
    """Asks where a queue is at home. With settings: make it if it isn't there."""

    queue: str
    settings: QueueSettings | None = None
    client: str = ""
    """Who would have it made, where there are several to choose from (`founding.py`)."""


class Nowhere(msgspec.Struct, frozen=True, tag="fifo.nowhere", array_like=True):
    """There is no such queue, or it has other settings; the error, as in `Declined`."""

    queue: str
    error: str
    text: str


class Claim(msgspec.Struct, frozen=True, tag="fifo.claim", array_like=True):
    """A term as late as this is not mine to serve; I'd be master in a later one, in this run."""

    queue: str
    term: int
    run: str


class Activate(msgspec.Struct, frozen=True, tag="fifo.activate", array_like=True):
    """The journal of this term, which this run began, is safe with its new keepers."""

    queue: str
    term: int
    run: str


class Unreached(msgspec.Struct, frozen=True, tag="fifo.unreached", array_like=True):
    """I am the master in this term, and that keeper does not answer me: a way round it, please."""

    queue: str
    term: int
    run: str
    keeper: str


class Seek(msgspec.Struct, frozen=True, tag="fifo.seek", array_like=True):
    """A coordinator that began asks whose journals you keep, of the queues behind `after`."""

    after: str


class Held(msgspec.Struct, frozen=True, array_like=True):
    """That a node keeps a copy of a queue's journal."""

    queue: str
    fence: int
    """The latest term that was announced to the copy."""
    home: Home | None
    """Of the term whose journal it is; None when the copy has none, or it can't be read."""


class Sought(msgspec.Struct, frozen=True, tag="fifo.sought", array_like=True):
    """Of these, in the order of their names; perhaps there are more behind them."""

    run: str
    after: str
    held: tuple[Held, ...]
    more: bool


class Roll(msgspec.Struct, frozen=True, tag="fifo.roll", array_like=True):
    """Asks which queues there are; `number` comes back in the answer."""

    number: int


class Rolled(msgspec.Struct, frozen=True, tag="fifo.rolled", array_like=True):
    """These."""

    number: int
    names: tuple[str, ...]


# --- the journal ----------------------------------------------------------------------------------
#
# A journal is named by its term and by the number that its master drew when it began it: a term
# that was given twice, by a coordinator whose disk is older than it should be, has two.


class Mirror(msgspec.Struct, frozen=True, tag="fifo.mirror", array_like=True):
    """What has changed in a queue's journal from step `since` to `step`, for who has `since`.

    With a linger the answer need not wait for the flush.
    """

    queue: str
    term: int
    journal: int
    since: int
    step: int
    linger: Duration
    pairs: Pairs
    bodies: "tuple[Copy, ...]" = ()
    """Of puts that this step admits before they were copied (`early.py`); each is answered."""


class Follow(msgspec.Struct, frozen=True, tag="fifo.follow", array_like=True):
    """This journal begins with that step of that earlier one; whoever keeps just that, goes on."""

    queue: str
    term: int
    journal: int
    base_term: int
    base_journal: int
    step: int
    home: Home


class Snapshot(msgspec.Struct, frozen=True, tag="fifo.snapshot", array_like=True):
    """A piece of a queue's whole journal. With the last piece it replaces what was kept."""

    queue: str
    term: int
    journal: int
    number: int
    """Of this attempt to send it."""
    piece: int
    """From 1 on. A later piece may write over what came with an earlier one."""
    step: int
    """With the last piece: the step that the whole is of. Otherwise -1."""
    home: Home
    pairs: Pairs


class Pieced(msgspec.Struct, frozen=True, tag="fifo.pieced", array_like=True):
    """I have this piece, flushed."""

    queue: str
    term: int
    journal: int
    number: int
    piece: int
    keeper: str


class Mirrored(msgspec.Struct, frozen=True, tag="fifo.mirrored", array_like=True):
    """I keep this journal up to this step, flushed."""

    queue: str
    term: int
    journal: int
    number: int
    """Of the snapshot that it came with; 0 when it came with none."""
    step: int
    keeper: str


class Vouch(msgspec.Struct, frozen=True, tag="fifo.vouch", array_like=True):
    """Say whether no later journal than this was announced to you."""

    queue: str
    term: int
    journal: int
    number: int


class Vouched(msgspec.Struct, frozen=True, tag="fifo.vouched", array_like=True):
    """None was, when this question came."""

    queue: str
    term: int
    journal: int
    number: int
    keeper: str


class Behind(msgspec.Struct, frozen=True, tag="fifo.behind", array_like=True):
    """I can't take that; of this journal I have `step` (-1: nothing)."""

    queue: str
    term: int
    journal: int
    number: int
    """Of the snapshot that I could not take a piece of; 0 when it was something else."""
    step: int
    keeper: str


class Fence(msgspec.Struct, frozen=True, tag="fifo.fence", array_like=True):
    """From now on take nothing of an earlier term, nor of another journal of this one."""

    queue: str
    term: int
    journal: int


class Fenced(msgspec.Struct, frozen=True, tag="fifo.fenced", array_like=True):
    """Done; what I keep is a journal as of a step of a term (term 0: none)."""

    queue: str
    term: int
    journal: int
    keeper: str
    kept_term: int
    kept_journal: int
    kept_step: int
    sound: bool
    """Whether every record of it can be read, as far as is known."""
    unbroken: bool = False
    """Whether it was in memory all the time, so that nothing of it was lost that lingered."""


class ReadJournal(msgspec.Struct, frozen=True, tag="fifo.read_journal", array_like=True):
    """Whom you are fenced for asks for what you keep, behind this key."""

    queue: str
    term: int
    journal: int
    after: bytes


class JournalRead(msgspec.Struct, frozen=True, tag="fifo.journal_read", array_like=True):
    """The next records in the order of keys; perhaps there are more behind them."""

    queue: str
    term: int
    journal: int
    keeper: str
    after: bytes
    pairs: Pairs
    last: bytes
    """The last key that was looked at."""
    more: bool
    sound: bool
    """Whether all of these could be read."""


class Superseded(msgspec.Struct, frozen=True, tag="fifo.superseded", array_like=True):
    """This journal of yours must stop: a term as late as that was announced to me by another."""

    queue: str
    term: int
    journal: int


# --- bodies ---------------------------------------------------------------------------------------


class Copy(msgspec.Struct, frozen=True, tag="fifo.copy", array_like=True):
    """Keep a copy of this segment."""

    queue: str
    stream: str
    stop: int
    linger: Duration
    body: bytes


class Copied(msgspec.Struct, frozen=True, tag="fifo.copied", array_like=True):
    """I keep it, flushed; or I can't, and `refused` says why."""

    queue: str
    stream: str
    stop: int
    keeper: str
    refused: str = ""


class Entry(msgspec.Struct, frozen=True, array_like=True):
    """One stored segment that asks to be admitted."""

    first: int
    stop: int
    bytes: int
    producer: str
    sequence: int
    due: int
    patience: int
    keepers: tuple[str, ...]
    hold: int = 0
    """So long it is to be held back, until it is published; 0: it is to be put at once."""
    caller: str = ""
    turn: int = 0
    """Of this caller; as in `calls.Put`."""
    age: Duration = Duration(0)
    """How long its node has had it."""


class Admit(msgspec.Struct, frozen=True, tag="fifo.admit", array_like=True):
    """These segments of my stream are safe; make them part of the queue."""

    queue: str
    stream: str
    entries: tuple[Entry, ...]
    low: int = 0
    """Of all below this index I have the verdicts, or ask for none."""


class Verdict(msgspec.Struct, frozen=True, array_like=True):
    """What became of the entry that began at `first`. With an error, nothing was put."""

    first: int
    start: int
    stop: int
    repeated: bool = False
    """Its producer had put it before."""
    dropped: bool = False
    """It is not in the queue under this name: it was refused, or is there under another."""
    error: str = ""
    """With `OutcomeUnknown` nobody knows whether it was."""
    text: str = ""
    copies: int = 0
    """On how many nodes what was put is."""


class Admitted(msgspec.Struct, frozen=True, tag="fifo.admitted", array_like=True):
    """It is done, and safe in the journal."""

    queue: str
    stream: str
    verdicts: tuple[Verdict, ...]


class Drop(msgspec.Struct, frozen=True, tag="fifo.drop", array_like=True):
    """Nobody needs these any more."""

    queue: str
    extents: tuple[Extent, ...]


class Keep(msgspec.Struct, frozen=True, tag="fifo.keep", array_like=True):
    """All that you, in this run, are to keep of this queue; erase the rest.

    `open` are streams that have not ended and how far they were admitted: beyond that, erase
    nothing.
    """

    queue: str
    term: int
    run: str
    extents: tuple[Extent, ...]
    open: tuple[tuple[str, int], ...]


class Kept(msgspec.Struct, frozen=True, tag="fifo.kept", array_like=True):
    """Done."""

    queue: str
    term: int
    run: str


class Replicate(msgspec.Struct, frozen=True, tag="fifo.replicate", array_like=True):
    """Get this extent from those who keep it, and keep it too; asked again, go on with it."""

    queue: str
    term: int
    number: int
    extent: Extent
    sources: tuple[NodeId, ...]


class Missing(msgspec.Struct, frozen=True, array_like=True):
    """What no source of a copy could give."""

    extent: Extent
    absent: tuple[str, ...]
    """The keepers that have nothing there at all; with the others it can't be read."""


class Replicated(msgspec.Struct, frozen=True, tag="fifo.replicated", array_like=True):
    """I keep that extent, but for what is missing; or there is no room here."""

    queue: str
    term: int
    number: int
    keeper: str
    stored: bool
    missing: tuple[Missing, ...]
    extent: Extent
    run: str
    """The run of the keeper in which it stored all of it."""


class Pull(msgspec.Struct, frozen=True, tag="fifo.pull", array_like=True):
    """Send me the segments of this extent, as many as fit."""

    queue: str
    extent: Extent


class Pulled(msgspec.Struct, frozen=True, tag="fifo.pulled", array_like=True):
    """Segments from the extent's first on: each its stop and its bytes as stored.

    What comes after them can't be read here, up to `bad_until`, when that is not 0. Where
    nothing is there at all, `absent` is who says so.
    """

    queue: str
    extent: Extent
    segments: tuple[tuple[int, bytes], ...]
    bad_until: int
    absent: str


class Broken(msgspec.Struct, frozen=True, tag="fifo.broken", array_like=True):
    """I was to read this, and have no copy that reads; it may have been dropped meanwhile."""

    queue: str
    extent: Extent
    keeper: str
    position: int
    """Where in the queue the extent's first item lies, as whoever asked for it said."""


Message = (
    Home
    | Where
    | Nowhere
    | Claim
    | Activate
    | Unreached
    | Seek
    | Sought
    | Roll
    | Rolled
    | Mirror
    | Follow
    | Snapshot
    | Pieced
    | Mirrored
    | Vouch
    | Vouched
    | Behind
    | Fence
    | Fenced
    | ReadJournal
    | JournalRead
    | Superseded
    | Copy
    | Copied
    | Admit
    | Admitted
    | Drop
    | Keep
    | Kept
    | Replicate
    | Replicated
    | Pull
    | Pulled
    | Broken
)

MESSAGES: Final[tuple[type[msgspec.Struct], ...]] = (*get_args(Message), *REQUESTS)
