"""What nodes say to each other about fifos."""

from typing import Annotated, Final, get_args

import msgspec

from snowmelt.core.ahead import COUNT_MAX, Count, Whole
from snowmelt.core.errors import BadOption
from snowmelt.core.instant import Duration
from snowmelt.core.interval import backwards
from snowmelt.core.names import NodeId
from snowmelt.protocols.fifo.calls import REQUESTS
from snowmelt.protocols.fifo.settings import QueueSettings

TERM_MAX: Final = 1 << 22
"""Above the bits of a lease's token that count within a term, there is room for so many."""
TERMS_AHEAD: Final = 1 << 14
"""So many terms a node can have missed: four times a cluster was founded anew (`rescuing.py`)."""

Term = Annotated[int, msgspec.Meta(ge=0, lt=TERM_MAX)]
Step = Annotated[int, msgspec.Meta(ge=-1, le=COUNT_MAX)]
"""-1: nothing, or not told."""
Length = Annotated[Duration, msgspec.Meta(ge=0, le=COUNT_MAX)]
Name = Annotated[str, msgspec.Meta(max_length=100, pattern=r"^[A-Za-z0-9._-]+\Z")]
"""Of a queue. It is part of keys on the disk, and so are the next."""
Keeper = Annotated[str, msgspec.Meta(max_length=128, pattern=r"^[A-Za-z0-9._/-]*\Z")]
"""A node with its disk, or with its disk and its run (`streams.py`)."""
Key = Annotated[bytes, msgspec.Meta(max_length=280)]

Pairs = tuple[tuple[Key, bytes | None], ...]
"""Keys of a queue's journal with their new values; None where there is none any more."""


class Extent(msgspec.Struct, frozen=True, array_like=True):
    """A run of items in a stream: from index `first` up to, not including, `stop`."""

    stream: Keeper
    first: Count
    stop: Count

    def __post_init__(self) -> None:
        if self.first > self.stop:
            raise backwards(self.first, self.stop)


class OfTerm(msgspec.Struct, frozen=True, array_like=True):
    """About one queue, in one term of its master."""

    queue: Name
    term: Term


class OfJournal(OfTerm, frozen=True, array_like=True):
    """About one journal, of which a term may have two."""

    journal: Whole


# --- where a queue is at home ---------------------------------------------------------------------


class Home(OfTerm, frozen=True, tag="fifo.home", array_like=True):
    """Who is a queue's master in this term, and who else keeps its journal."""

    master: Keeper
    mirrors: tuple[Keeper, ...]
    settings: QueueSettings
    run: Keeper = ""
    """The run of the master for which this term was made."""
    active: bool = False
    """Whether the master has brought the journal over; only then it serves."""
    before: tuple[Keeper, ...] = ()
    """While it isn't active: the keepers of the journal in the last term that was."""
    before_term: Term = 0
    """Which term that was; 0 in the homes of before this was written down."""
    in_sync: tuple[Keeper, ...] = ()
    """Whose copies count (`queue/in_sync.py`); where none are named, all do."""
    sets: Count = 0
    """How often that was written down in this term."""

    def __post_init__(self) -> None:
        _check(self.settings)

    @property
    def counted(self) -> tuple[Keeper, ...]:
        """Whose copies count."""
        return self.in_sync or (self.master, *self.mirrors)

    @property
    def answers_needed(self) -> int:
        """Of how many of those before the newest must be sought, to miss nothing that was told."""
        copies = len(self.before)
        return max(1, copies - self.settings.quorum(copies) + 1)


class Where(msgspec.Struct, frozen=True, tag="fifo.where", array_like=True):
    """Asks where a queue is at home. With settings: make it if it isn't there."""

    queue: Name
    settings: QueueSettings | None = None
    client: str = ""
    """Who would have it made, where there are several to choose from (`founding.py`)."""

    def __post_init__(self) -> None:
        if self.settings is not None:
            _check(self.settings)


class Nowhere(msgspec.Struct, frozen=True, tag="fifo.nowhere", array_like=True):
    """There is no such queue, or it has other settings; the error, as in `Declined`."""

    queue: Name
    error: str
    text: str


class Claim(OfTerm, frozen=True, tag="fifo.claim", array_like=True):
    """A term as late as this is not mine to serve; I'd be master in a later one, in this run."""

    run: Keeper


class Activate(OfTerm, frozen=True, tag="fifo.activate", array_like=True):
    """The journal of this term, which this run began, is safe with its new keepers."""

    run: Keeper


class Quits(msgspec.Struct, frozen=True, tag="fifo.quits", array_like=True):
    """I am to leave in order, in this run: others are to have what I have."""

    run: Keeper


class Needs(msgspec.Struct, frozen=True, tag="fifo.needs", array_like=True):
    """So many queues need you still, of which these are some; none, and you may go."""

    run: Keeper
    queues: tuple[Name, ...]
    count: Count
    stuck: bool = False
    """Whether fewer nodes would be left than must keep them."""


class Among(OfTerm, frozen=True, tag="fifo.among", array_like=True):
    """From now on only these copies are to count, or these as well."""

    run: Keeper
    number: Count
    """One more than that of the set that is written down."""
    in_sync: tuple[Keeper, ...]


class Unreached(OfTerm, frozen=True, tag="fifo.unreached", array_like=True):
    """I am the master in this term, and that keeper does not answer me: a way round it, please."""

    run: Keeper
    keeper: Keeper


class Seek(msgspec.Struct, frozen=True, tag="fifo.seek", array_like=True):
    """A coordinator that began asks whose journals you keep, of the queues behind `after`."""

    after: str


class Held(msgspec.Struct, frozen=True, array_like=True):
    """That a node keeps a copy of a queue's journal."""

    queue: Name
    fence: Term
    """The latest term that was announced to the copy."""
    home: Home | None
    """Of the term whose journal it is; None when the copy has none, or it can't be read."""


class Sought(msgspec.Struct, frozen=True, tag="fifo.sought", array_like=True):
    """Of these, in the order of their names; perhaps there are more behind them."""

    run: Keeper
    after: str
    held: tuple[Held, ...]
    more: bool


class Roll(msgspec.Struct, frozen=True, tag="fifo.roll", array_like=True):
    """Asks which queues there are; `number` comes back in the answer."""

    number: Whole


class Rolled(msgspec.Struct, frozen=True, tag="fifo.rolled", array_like=True):
    """These."""

    number: Whole
    names: tuple[str, ...]


# --- the journal ----------------------------------------------------------------------------------
#
# A journal is named by its term and by the number that its master drew when it began it: a term
# that was given twice, by a coordinator whose disk is older than it should be, has two.


class Mirror(OfJournal, frozen=True, tag="fifo.mirror", array_like=True):
    """What has changed in a queue's journal from step `since` to `step`, for who has `since`.

    With a linger the answer need not wait for the flush.
    """

    since: Step
    step: Step
    linger: Length
    pairs: Pairs
    bodies: "tuple[Copy, ...]" = ()
    """Of puts that this step admits before they were copied (`early.py`); each is answered."""


class Follow(OfJournal, frozen=True, tag="fifo.follow", array_like=True):
    """This journal begins with that step of that earlier one; whoever keeps just that, goes on."""

    base_term: Term
    base_journal: Whole
    step: Step
    home: Home


class Snapshot(OfJournal, frozen=True, tag="fifo.snapshot", array_like=True):
    """A piece of a queue's whole journal. With the last piece it replaces what was kept."""

    number: Whole
    """Of this attempt to send it."""
    piece: Whole
    """From 1 on. A later piece may write over what came with an earlier one."""
    step: Step
    """With the last piece: the step that the whole is of. Otherwise -1."""
    home: Home
    pairs: Pairs


class Pieced(OfJournal, frozen=True, tag="fifo.pieced", array_like=True):
    """I have this piece, flushed."""

    number: Whole
    piece: Whole
    keeper: Keeper


class Mirrored(OfJournal, frozen=True, tag="fifo.mirrored", array_like=True):
    """I keep this journal up to this step, flushed."""

    number: Whole
    """Of the snapshot that it came with; 0 when it came with none."""
    step: Step
    keeper: Keeper


class Vouch(OfJournal, frozen=True, tag="fifo.vouch", array_like=True):
    """Say whether no later journal than this was announced to you."""

    number: Whole


class Vouched(OfJournal, frozen=True, tag="fifo.vouched", array_like=True):
    """None was, when this question came."""

    number: Whole
    keeper: Keeper


class Behind(OfJournal, frozen=True, tag="fifo.behind", array_like=True):
    """I can't take that; of this journal I have `step` (-1: nothing)."""

    number: Whole
    """Of the snapshot that I could not take a piece of; 0 when it was something else."""
    step: Step
    keeper: Keeper


class Fence(OfJournal, frozen=True, tag="fifo.fence", array_like=True):
    """From now on take nothing of an earlier term, nor of another journal of this one."""


class Fenced(OfJournal, frozen=True, tag="fifo.fenced", array_like=True):
    """Done; what I keep is a journal as of a step of a term (term 0: none)."""

    keeper: Keeper
    kept_term: Term
    kept_journal: Whole
    kept_step: Step
    sound: bool
    """Whether every record of it can be read, as far as is known."""
    unbroken: bool = False
    """Whether it was in memory all the time, so that nothing of it was lost that lingered."""


class ReadJournal(OfJournal, frozen=True, tag="fifo.read_journal", array_like=True):
    """Whom you are fenced for asks for what you keep, behind this key."""

    after: bytes


class JournalRead(OfJournal, frozen=True, tag="fifo.journal_read", array_like=True):
    """The next records in the order of keys; perhaps there are more behind them."""

    keeper: Keeper
    after: bytes
    pairs: Pairs
    last: bytes
    """The last key that was looked at."""
    more: bool
    sound: bool
    """Whether all of these could be read."""


class Superseded(OfJournal, frozen=True, tag="fifo.superseded", array_like=True):
    """This journal of yours must stop: a term as late as that was announced to me by another."""


# --- bodies ---------------------------------------------------------------------------------------


class Copy(msgspec.Struct, frozen=True, tag="fifo.copy", array_like=True):
    """Keep a copy of this segment."""

    queue: Name
    stream: Keeper
    stop: Count
    linger: Length
    body: bytes


class Copied(msgspec.Struct, frozen=True, tag="fifo.copied", array_like=True):
    """I keep it, flushed; or I can't, and `refused` says why."""

    queue: Name
    stream: Keeper
    stop: Count
    keeper: Keeper
    refused: str = ""


class Entry(msgspec.Struct, frozen=True, array_like=True):
    """One stored segment that asks to be admitted."""

    first: Count
    stop: Count
    bytes: Count
    producer: str
    sequence: Count
    due: Annotated[int, msgspec.Meta(ge=-COUNT_MAX, le=COUNT_MAX)]
    patience: Count
    keepers: tuple[Keeper, ...]
    hold: Count = 0
    """So long it is to be held back, until it is published; 0: it is to be put at once."""
    caller: str = ""
    turn: Count = 0
    """Of this caller; as in `calls.Put`."""
    age: Length = Duration(0)
    """How long its node has had it."""

    def __post_init__(self) -> None:
        if self.first > self.stop:
            raise backwards(self.first, self.stop)


class Admit(msgspec.Struct, frozen=True, tag="fifo.admit", array_like=True):
    """These segments of my stream are safe; make them part of the queue."""

    queue: Name
    stream: Keeper
    entries: tuple[Entry, ...]
    low: Count = 0
    """Of all below this index I have the verdicts, or ask for none."""


class Verdict(msgspec.Struct, frozen=True, array_like=True):
    """What became of the entry that began at `first`. With an error, nothing was put."""

    first: Count
    start: Count
    stop: Count
    repeated: bool = False
    """Its producer had put it before."""
    dropped: bool = False
    """It is not in the queue under this name: it was refused, or is there under another."""
    error: str = ""
    """With `OutcomeUnknown` nobody knows whether it was."""
    text: str = ""
    copies: Count = 0
    """On how many nodes what was put is."""

    def __post_init__(self) -> None:
        if self.start > self.stop:
            raise backwards(self.start, self.stop)


class Admitted(msgspec.Struct, frozen=True, tag="fifo.admitted", array_like=True):
    """It is done, and safe in the journal."""

    queue: Name
    stream: Keeper
    verdicts: tuple[Verdict, ...]


class Drop(msgspec.Struct, frozen=True, tag="fifo.drop", array_like=True):
    """Nobody needs these any more."""

    queue: Name
    extents: tuple[Extent, ...]


class Keep(OfTerm, frozen=True, tag="fifo.keep", array_like=True):
    """All that you, in this run, are to keep of this queue; erase the rest.

    `open` are streams that have not ended and how far they were admitted: beyond that, erase
    nothing.
    """

    run: Keeper
    extents: tuple[Extent, ...]
    open: tuple[tuple[Keeper, Count], ...]


class Kept(OfTerm, frozen=True, tag="fifo.kept", array_like=True):
    """Done."""

    run: Keeper


class Replicate(OfTerm, frozen=True, tag="fifo.replicate", array_like=True):
    """Get this extent from those who keep it, and keep it too; asked again, go on with it."""

    number: Whole
    extent: Extent
    sources: tuple[NodeId, ...]


class Missing(msgspec.Struct, frozen=True, array_like=True):
    """What no source of a copy could give."""

    extent: Extent
    absent: tuple[Keeper, ...]
    """The keepers that have nothing there at all; with the others it can't be read."""


class Replicated(OfTerm, frozen=True, tag="fifo.replicated", array_like=True):
    """I keep that extent, but for what is missing; or there is no room here."""

    number: Whole
    keeper: Keeper
    stored: bool
    missing: tuple[Missing, ...]
    extent: Extent
    run: Keeper
    """The run of the keeper in which it stored all of it."""


class Pull(msgspec.Struct, frozen=True, tag="fifo.pull", array_like=True):
    """Send me the segments of this extent, as many as fit."""

    queue: Name
    extent: Extent


class Pulled(msgspec.Struct, frozen=True, tag="fifo.pulled", array_like=True):
    """Segments from the extent's first on: each its stop and its bytes as stored.

    What comes after them can't be read here, up to `bad_until`, when that is not 0. Where
    nothing is there at all, `absent` is who says so.
    """

    queue: Name
    extent: Extent
    segments: tuple[tuple[Count, bytes], ...]
    bad_until: Count
    absent: str


class Broken(msgspec.Struct, frozen=True, tag="fifo.broken", array_like=True):
    """I was to read this, and have no copy that reads; it may have been dropped meanwhile."""

    queue: Name
    extent: Extent
    keeper: Keeper
    position: Count
    """Where in the queue the extent's first item lies, as whoever asked for it said."""


def _check(settings: QueueSettings) -> None:
    """Raises what makes a message one that does not read."""
    try:
        settings.checked()
    except BadOption as error:
        raise ValueError(str(error)) from error


Message = (
    Home
    | Where
    | Nowhere
    | Claim
    | Activate
    | Among
    | Quits
    | Needs
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
