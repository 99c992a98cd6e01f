"""What nodes say to each other of where queues are at home."""

from typing import Annotated, Final, get_args

import msgspec

from snowmelt.core.ahead import COUNT_MAX, MANY, Count, Label, Text, Whole
from snowmelt.core.errors import BadOption
from snowmelt.core.names import NodeId, OperationId
from snowmelt.protocols.calling import Declined
from snowmelt.protocols.queue.api.deletes import Deleted
from snowmelt.protocols.queue.api.partition_names import Name, whole_of
from snowmelt.protocols.queue.api.settings import QueueSettings

TERM_MAX: Final = 1 << 22
"""Above the bits of a lease's token that count within a term, there is room for so many."""

Term = Annotated[int, msgspec.Meta(ge=0, lt=TERM_MAX)]
Step = Annotated[int, msgspec.Meta(ge=-1, le=COUNT_MAX)]
"""-1: nothing, or not told."""
Keeper = Annotated[str, msgspec.Meta(max_length=128, pattern=r"^[A-Za-z0-9._/-]*\Z")]
"""A node with its disk, or with its disk and its run (`streams.py`). It is part of keys, too."""
Keepers = Annotated[tuple[Keeper, ...], msgspec.Meta(max_length=64)]


class OfTerm(msgspec.Struct, frozen=True, array_like=True):
    """About one queue, in one term of its leader."""

    queue: Name
    term: Term


# --- where a queue is at home ---------------------------------------------------------------------


class End(msgspec.Struct, frozen=True, array_like=True):
    """That a queue was deleted, by which call, and what that was told."""

    by: OperationId
    told: Deleted
    moved_to: Label = ""
    """Into which queue its items went (`deleting.py`, rule 10)."""


class Assignment(OfTerm, frozen=True, tag="fifo.home", array_like=True):
    """Who leads a queue in this term, its master, and who follows: its mirrors."""

    master: Keeper
    mirrors: Keepers
    settings: QueueSettings
    run: Keeper = ""
    """The run of the master for which this term was made."""
    active: bool = False
    """Whether the first step of the term is safe; only then its leader serves."""
    before: Keepers = ()
    """While it isn't active: who had copies in the last term that was."""
    before_term: Term = 0
    """Which term that was; 0 in the homes of before this was written down."""
    in_sync: Keepers = ()
    """Whose copies count (`queue/in_sync.py`); where none are named, all do."""
    sets: Count = 0
    """How often that was written down in this term."""
    wanted: QueueSettings | None = None
    """What the settings are to be, once all followers have what the master has (`altering.py`)."""
    sought: Count = 0
    """Of how many of those before the newest must be sought, if other settings were theirs."""
    since: Term = 0
    """With which term the queue was made: what is older is of a deleted one of its name."""
    end: End | None = None
    """Of a queue that was deleted: it has no keepers, and this is its grave (`deleting.py`)."""
    maker: Label = ""
    """Whose share of names it takes (`calling.Came`); nobody's where that was not written down."""

    def __post_init__(self) -> None:
        _check(self.settings)
        if self.wanted is not None:
            _check(self.wanted)

    @property
    def asked_for(self) -> QueueSettings:
        """The settings that it has, or is to have."""
        return self.wanted or self.settings

    @property
    def counted(self) -> tuple[Keeper, ...]:
        """The keepers whose copies count for what is safe."""
        return self.in_sync or self.keepers

    @property
    def keepers(self) -> tuple[Keeper, ...]:
        """Who is to have a copy."""
        return (self.master, *self.mirrors)

    @property
    def settled(self) -> int:
        """The last term that was active, as this home knows; 0 for none."""
        return self.term if self.active else self.before_term

    @property
    def answers_needed(self) -> int:
        """Of how many of those before the newest must be sought, to miss nothing that was told."""
        copies = len(self.before)
        return self.sought or max(1, copies - self.settings.quorum(copies) + 1)


class LocateQueue(msgspec.Struct, frozen=True, tag="fifo.where", array_like=True):
    """Asks where a queue is at home. With settings: make it if it isn't there."""

    queue: Name
    settings: QueueSettings | None = None
    client: Label = ""
    """Who would have it made, where there are several to choose from (`founding.py`)."""
    payer: Label = ""
    """Who pays for that client (`calling.Came`)."""

    @property
    def asker(self) -> str:
        """Who takes turns with others."""
        return self.payer or self.client

    def __post_init__(self) -> None:
        if self.settings is not None:
            _check(self.settings)


class Nowhere(msgspec.Struct, frozen=True, tag="fifo.nowhere", array_like=True):
    """There is no such queue, or it has other settings; the error, as in `Declined`."""

    queue: Name
    error: Label
    text: Text
    first: Term = 0
    below: Term = 0
    """What has terms from `first` to below this is of one that was deleted."""

    @property
    def gone(self) -> bool:
        """Whether there is none, not even one that is not as it was asked for."""
        return self.error in ("NoSuchQueue", "QueueMoved")


def moved(queue: str, to: str, below: int) -> Nowhere:
    """The queue, or this partition of it, is none any more: what was in it is in another."""
    whole = whole_of(queue)
    text = (
        f"queue {whole!r} was moved: what was in it is in {to!r} now, so take that one. To use the "
        f"old name again, free it: snowmelt delete {whole} --if-empty"
    )
    return Nowhere(queue, "QueueMoved", text, 0, below)


class RequestTerm(OfTerm, frozen=True, tag="fifo.claim", array_like=True):
    """A term as late as this is not mine to serve; I'd be master in a later one, in this run."""

    run: Keeper


class Activate(OfTerm, frozen=True, tag="fifo.activate", array_like=True):
    """The first step of this term, which this run began, is safe."""

    run: Keeper


class Quits(msgspec.Struct, frozen=True, tag="fifo.quits", array_like=True):
    """I am to leave in order, in this run: others are to have what I have."""

    run: Keeper


class Needs(msgspec.Struct, frozen=True, tag="fifo.needs", array_like=True):
    """So many queues need you still, of which these are some; none, and you may go."""

    run: Keeper
    queues: Annotated[tuple[Name, ...], MANY]
    count: Count
    stuck: bool = False
    """Whether fewer nodes would be left than must keep them."""
    there: Count = 0
    """So many need you, stuck or not."""


class Among(OfTerm, frozen=True, tag="fifo.among", array_like=True):
    """From now on only these copies are to count, or these as well."""

    run: Keeper
    number: Count
    """One more than that of the set that is written down."""
    in_sync: Keepers


class ChangeSettings(OfTerm, frozen=True, tag="fifo.alter-home", array_like=True):
    """I am the master in this term, and somebody would have the queue with these settings."""

    run: Keeper
    settings: QueueSettings

    def __post_init__(self) -> None:
        _check(self.settings)


class Unreached(OfTerm, frozen=True, tag="fifo.unreached", array_like=True):
    """I am the master in this term, and that keeper does not answer me: a way round it, please."""

    run: Keeper
    keeper: Keeper


class Aside(OfTerm, frozen=True, tag="fifo.aside", array_like=True):
    """I am the master in this term, and my disk is full: that keeper has room, and all there is."""

    run: Keeper
    keeper: Keeper


# --- how a queue ends -----------------------------------------------------------------------------


class DeleteQueue(msgspec.Struct, frozen=True, tag="fifo.end", array_like=True):
    """A client has a queue deleted."""

    queue: Name
    operation: OperationId
    if_empty: bool = False
    lost: bool = False
    moved_to: Label = ""


class DeleteAnswered(msgspec.Struct, frozen=True, tag="fifo.done", array_like=True):
    """What that client is told."""

    operation: OperationId
    answer: Deleted | Declined


class Close(OfTerm, frozen=True, tag="fifo.close", array_like=True):
    """Asks its leader to serve a queue no more, and to count what is in it."""

    if_empty: bool
    lost: bool = False
    """Also while steps are open that it decided (`transactions.py`, rule 8)."""


class CopyClosed(OfTerm, frozen=True, tag="fifo.closed", array_like=True):
    """So much is; it is served no more, unless it was to be empty and is not."""

    held: Deleted | None
    """None where this node does not lead in that term."""
    open: Count = 0
    """So many steps have parts that are not done: it goes on."""


class EraseCopy(OfTerm, frozen=True, tag="fifo.erase", array_like=True):
    """What you have of a queue from before this term is of one that was deleted."""

    moved_to: Label = ""
    """Where its items went."""
    lives: bool = False
    """Whether there is a later queue of that name."""


class Erased(OfTerm, frozen=True, tag="fifo.erased", array_like=True):
    """I have nothing of it, in this run."""

    run: Keeper


# --- what the controller asks, which begins -------------------------------------------------------


class ListCopies(msgspec.Struct, frozen=True, tag="fifo.seek", array_like=True):
    """A coordinator that began asks which copies you have, of the queues behind `after`."""

    after: Label


class CopyReport(msgspec.Struct, frozen=True, array_like=True):
    """That a node has a copy of a queue."""

    queue: Name
    fence: Term
    """The latest term that was announced to the copy."""
    home: Assignment | None
    """Of the term of its last step; None when the copy has none, or it can't be read."""
    deleted: bool = False
    """Whether the queue was deleted by that term, and the copy erased."""
    left: bool = False
    """Whether the copy was erased since that home, which is active, does not name it."""


class CopiesListed(msgspec.Struct, frozen=True, tag="fifo.sought", array_like=True):
    """Of these, in the order of their names; perhaps there are more behind them."""

    run: Keeper
    after: Label
    held: Annotated[tuple[CopyReport, ...], MANY]
    more: bool


class Roll(msgspec.Struct, frozen=True, tag="fifo.roll", array_like=True):
    """Asks which queues there are; `number` comes back in the answer."""

    number: Whole


class Rolled(msgspec.Struct, frozen=True, tag="fifo.rolled", array_like=True):
    """The answer to `Roll`: which queues there are."""

    number: Whole
    names: Annotated[tuple[Label, ...], MANY]
    ranked: Annotated[tuple[Label, ...], MANY] = ()
    """Those of them with several priorities."""
    parted: Annotated[tuple[Label, ...], MANY] = ()
    """Those of them with several partitions."""


UNKNOWN: Final = End(OperationId(NodeId(""), 0), Deleted(counted=False))
"""That of a queue of which is only known that it was deleted."""


def buried(queue: str, term: int, end: End = UNKNOWN) -> Assignment:
    """The grave of a queue."""
    return Assignment(queue, term, "", (), QueueSettings(), active=True, end=end)


def _check(settings: QueueSettings) -> None:
    """Raises what makes a message one that does not read."""
    try:
        settings.checked()
    except BadOption as error:
        raise ValueError(str(error)) from error


Message = (
    Assignment
    | LocateQueue
    | Nowhere
    | RequestTerm
    | Activate
    | Among
    | ChangeSettings
    | Unreached
    | Aside
    | Quits
    | Needs
    | DeleteQueue
    | DeleteAnswered
    | Close
    | CopyClosed
    | EraseCopy
    | Erased
    | ListCopies
    | CopiesListed
    | Roll
    | Rolled
)
MESSAGES: Final[tuple[type[msgspec.Struct], ...]] = get_args(Message)
