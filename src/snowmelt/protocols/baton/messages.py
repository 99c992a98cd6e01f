"""What nodes say to each other about batons; see the package's rules."""

from enum import Enum
from typing import Final, get_args

import msgspec

from snowmelt.core.ahead import Blob, Label, Text, Unsigned
from snowmelt.core.names import NodeName
from snowmelt.protocols.arrow.messages import Find, Observed, Observer, OrderPlace
from snowmelt.protocols.baton.calls import REQUESTS


class Unwatched(msgspec.Struct, frozen=True, tag="arrow.unwatched", array_like=True):
    """A child's word to its parent: nobody has observed our edge for long (rule 4)."""


class OfBaton(msgspec.Struct, frozen=True, array_like=True):
    """About one baton."""

    name: Label


class OfFence(OfBaton, frozen=True, array_like=True):
    """About one hold of it."""

    fence: Unsigned


class OfBefore(OfBaton, frozen=True, array_like=True):
    """About a place, and the one before it."""

    place: OrderPlace
    before: OrderPlace


class Along(OfBaton, frozen=True, tag="baton.along", array_like=True):
    """A word of the arrow protocol, for one name, along an edge of the tree (rule 3)."""

    life: Unsigned
    """The sender's, as the view has it."""
    number: Unsigned
    """It grows with every word to the same node, so that none is taken twice or out of order."""
    message: Find | Observer | Observed | Unwatched


class Predecessor(OfBefore, frozen=True, tag="baton.behind", array_like=True):
    """Your place has this one before it (rule 6)."""

    taken: bool = False
    """Whether somebody has that one, or waits for it: then the baton does not come at once."""


class CheckPredecessor(OfBefore, frozen=True, tag="baton.doubt", array_like=True):
    """A place that has waited long asks the one before it whether it is still behind (rule 6)."""


class Apart(OfBefore, frozen=True, tag="baton.apart", array_like=True):
    """Your place does not get the baton from that one, or not soon: its chain is torn (rule 6)."""


class Version(msgspec.Struct, frozen=True, order=True, array_like=True):
    """How new a value is: the fence of the hold that gave it, and how many that hold had given."""

    fence: Unsigned = 0
    count: Unsigned = 0


class CensusRound(msgspec.Struct, frozen=True, order=True, array_like=True):
    """One round of questions: the view in which all are asked, and the root's count."""

    epoch: Unsigned = 0
    number: Unsigned = 0


class Pass(OfBaton, frozen=True, tag="baton.pass", array_like=True):
    """The baton itself, for this place; sent again until `Arrived` (rule 8)."""

    by: NodeName
    life: Unsigned
    """The receiver's, as the sender's view has it: no later one takes it."""
    place: OrderPlace
    fence: Unsigned
    made: Unsigned
    value: Blob
    version: Version
    census: CensusRound
    """The last that the sender had answered; whoever answered a later one lets it fall."""


class Arrived(OfFence, frozen=True, tag="baton.arrived", array_like=True):
    """The baton with this fence is here, or was."""


class Complaint(OfBaton, frozen=True, tag="baton.complaint", array_like=True):
    """To the root: this place waits in vain (rule 10)."""

    place: OrderPlace
    orphan: bool
    """Whether nobody is known to stand before it."""


class CensusQuery(OfBaton, frozen=True, tag="baton.tell", array_like=True):
    """From the root to all: they are to say what they have of this baton (rule 11)."""

    census: CensusRound


class BatonState(Enum):
    """What a node has of a baton."""

    NOTHING = "elsewhere"
    HELD = "held"
    IDLE = "idle"
    MOVING = "moving"


class CensusReply(OfBaton, frozen=True, tag="baton.told", array_like=True):
    """What a node has of the baton, for the root's census."""

    census: CensusRound
    standing: BatonState
    fence: Unsigned
    """Of the baton that is here, or the largest that was."""
    version: Version
    """Of the newest value that is known here."""
    asleep: bool = False
    """Whether nobody uses the name here, nor has for a while (rule 15)."""


class Follow(OfFence, frozen=True, tag="baton.follow", array_like=True):
    """From the root: if the baton is idle with you and has this fence, it goes to this place."""

    place: OrderPlace


class Void(OfFence, frozen=True, tag="baton.void", array_like=True):
    """From the root: what you have with this fence, or a smaller one, is the baton no more."""


class Yield(OfBaton, frozen=True, tag="baton.yield", array_like=True):
    """From the root: send me the value that you know."""


class Quiet(OfBaton, frozen=True, tag="baton.quiet", array_like=True):
    """To the root: nothing has happened to this name here for long (rule 15)."""

    fence: Unsigned
    """The largest that was here."""


class Fold(OfFence, frozen=True, tag="baton.fold", array_like=True):
    """From the root: the baton rests with me at this fence; whoever does not use it may fold it."""


class Backup(OfBaton, frozen=True, tag="baton.backup", array_like=True):
    """To the root: keep this value, if it is the newest."""

    version: Version
    value: Blob
    number: Unsigned = 0
    """Which `Stored` is asked for; 0 for none."""
    behind: bool = False
    """Whether nobody waits for it: it may go to etcd a little later (rule 20)."""
    epoch: Unsigned = 0
    """The sender's view."""


class Stored(OfBaton, frozen=True, tag="baton.stored", array_like=True):
    """The root keeps it; or it does not, by an error of `core.errors`, and why."""

    number: Unsigned
    error: Label = ""
    text: Text = ""


class Spoiled(OfBaton, frozen=True, tag="baton.spoiled", array_like=True):
    """From the root: the baton is lost, and its value can't be read; who waits is to be told."""

    text: Text


class Forgo(OfBaton, frozen=True, tag="baton.forgo", array_like=True):
    """To the root: who waits here needs no value; let the baton begin anew."""


class Reached(OfFence, frozen=True, tag="baton.reached", array_like=True):
    """To the root, now and then: so far has this baton come (rule 12)."""


class Reserved(OfBaton, frozen=True, tag="baton.reserved", array_like=True):
    """From the root: batons may be handed on in this term, and in those before it (rule 18)."""

    term: Unsigned


# --- between the machines of one node -------------------------------------------------------------


class SeekBaton(msgspec.Struct, frozen=True):
    """Another machine of this node wants the baton, under a ticket that it drew."""

    name: str
    ticket: int


class BatonGot(msgspec.Struct, frozen=True):
    """It has it, until it says `Drop`; there is no lease."""

    name: str
    ticket: int
    fence: int
    made: int
    value: bytes


class Drop(msgspec.Struct, frozen=True):
    """It gives it up, with a value or (None) as it got it."""

    name: str
    ticket: int
    value: bytes | None


class BatonTaken(msgspec.Struct, frozen=True):
    """It had it, and has it no longer."""

    name: str
    ticket: int


Message = (
    Along
    | Predecessor
    | CheckPredecessor
    | Apart
    | Pass
    | Arrived
    | Complaint
    | CensusQuery
    | CensusReply
    | Follow
    | Void
    | Yield
    | Quiet
    | Fold
    | Backup
    | Stored
    | Spoiled
    | Forgo
    | Reached
    | Reserved
)

SAFE: Final = 1 << 63
"""Fences and versions of other nodes are below this: there is room to count on from them."""
SAFE_FOR_ALL: Final = SAFE // 2
"""And those from which batons of every name go on, below this: so all nodes take these batons."""
TERMS: Final = 1 << 41
"""Of them, so many terms (`fences.py`)."""

MESSAGES: Final[tuple[type[msgspec.Struct], ...]] = (*get_args(Message), *REQUESTS)


def sound(message: Message) -> bool:
    """Whether one can count on from all its fences and versions (rule 16)."""
    numbers: tuple[int, ...]
    match message:
        case Reached(_, fence):
            return 0 <= fence < SAFE_FOR_ALL
        case Reserved(_, term):
            return 0 <= term < TERMS
        case Pass(fence=fence, made=made, version=version):
            numbers = (fence, made, version.fence, version.count)
        case CensusReply(fence=fence, version=version):
            numbers = (fence, version.fence, version.count)
        case Backup(version=version):
            numbers = (version.fence, version.count)
        case _:  # what is only compared with what is here
            return True
    return min(numbers) >= 0 and max(numbers) < SAFE
