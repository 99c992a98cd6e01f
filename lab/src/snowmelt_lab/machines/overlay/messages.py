"""What the virtual nodes of the overlay tell each other, and what nodes tell nodes.

Batches, grants, elements and the anchor's state are those of the family that lives on the overlay.
"""

from typing import Any, Final, get_args

import msgspec

from snowmelt.core.names import NodeId
from snowmelt_lab.machines.overlay.labels import Kind, Place, Virtual
from snowmelt_lab.machines.overlay.routing import Route
from snowmelt_lab.machines.overlay.table import Arc, Getter, Slot

# --- errands: what is routed to a point -----------------------------------------------------------


class Put(msgspec.Struct, frozen=True, tag="overlay.put", array_like=True):
    """Keep this element; its keeper answers `Kept` to the node that put it."""

    slot: Slot
    element: Any
    putter: Getter


class Get(msgspec.Struct, frozen=True, tag="overlay.get", array_like=True):
    """Take an element out, or wait for it."""

    slot: Slot
    getter: Getter


class Find(msgspec.Struct, frozen=True, tag="overlay.find", array_like=True):
    """A newcomer's virtual node looks for its future predecessor."""

    newcomer: Virtual
    asker: NodeId


class Visit(msgspec.Struct, frozen=True, tag="overlay.visit", array_like=True):
    """Something for the family where a point is kept (rule 14)."""

    point: int
    body: Any
    origin: int | None = None
    """The point it starts from, when that is one edge of the de Bruijn graph away."""


Errand = Put | Get | Find | Visit


# --- what climbs ----------------------------------------------------------------------------------


class Wave(msgspec.Struct, frozen=True, array_like=True):
    """A family's batch, if any, and how many wait to come in or to go (rule 16)."""

    batch: Any = None
    joins: int = 0
    leaves: int = 0


# --- between places -------------------------------------------------------------------------------


class Climb(msgspec.Struct, frozen=True, tag="overlay.climb", array_like=True):
    """A batch on its way up."""

    number: int
    wave: Wave


class Granted(msgspec.Struct, frozen=True, tag="overlay.granted", array_like=True):
    """Its answer on its way down; None when the wave brought no batch."""

    number: int
    share: Any


class Refusal(msgspec.Struct, frozen=True, tag="overlay.refusal", array_like=True):
    """An update has begun: this batch is to be sent again in the next epoch."""

    number: int


class Routed(msgspec.Struct, frozen=True, tag="overlay.routed", array_like=True):
    """An errand on its way."""

    route: Route
    errand: Errand


class Relay(msgspec.Struct, frozen=True, tag="overlay.relay", array_like=True):
    """A guest's errand, to be routed by its host."""

    errand: Errand


class Pause(msgspec.Struct, frozen=True, tag="overlay.pause", array_like=True):
    """An update begins: send nothing new (rule 17)."""


class Flush(msgspec.Struct, frozen=True, tag="overlay.flush", array_like=True):
    """To a neighbour on the ring: how much was routed to it in this epoch; no more comes."""

    sent: int
    leaving: bool


class Paused(msgspec.Struct, frozen=True, tag="overlay.paused", array_like=True):
    """To the parent or host: nothing is on its way in this subtree."""

    stays: bool
    """Whether anybody in it does not leave."""
    ripe: bool = False
    """Of a guest: whether it is spliced in now."""
    relayed: int = 0
    """Of a guest: how many errands it sent."""


class Splice(msgspec.Struct, frozen=True, tag="overlay.splice", array_like=True):
    """Nothing is on its way anywhere: change the ring (rule 18)."""

    keep: NodeId | None
    """A node that must stay, since all want to leave."""


class Guest(msgspec.Struct, frozen=True, array_like=True):
    """A newcomer's virtual node that waits behind its future predecessor."""

    virtual: Virtual
    ripe: bool = False


class Inherit(msgspec.Struct, frozen=True, tag="overlay.inherit", array_like=True):
    """A virtual node that leaves gives all it has to the one before it."""

    after: Virtual
    """What stands behind it on the ring."""
    arc: Arc[Any]
    guests: tuple[Guest, ...]
    held: tuple[Errand, ...]


class Placed(msgspec.Struct, frozen=True, tag="overlay.placed", array_like=True):
    """A newcomer's virtual node is on the ring from now on, between these two."""

    pred: Virtual
    succ: Virtual
    arc: Arc[Any]
    guests: tuple[Guest, ...]


class Follow(msgspec.Struct, frozen=True, tag="overlay.follow", array_like=True):
    """Another one stands before you."""

    pred: Virtual


class Done(msgspec.Struct, frozen=True, tag="overlay.done", array_like=True):
    """`Placed` or `Follow` has come."""


class Spliced(msgspec.Struct, frozen=True, tag="overlay.spliced", array_like=True):
    """To the parent in the old tree: this subtree has its new neighbours."""

    virtuals: int
    """How many there are now behind those of this subtree, themselves among them."""
    leftmost: Virtual | None = None
    """Who is the first now, when that may have changed here."""


class AnchorMoves(msgspec.Struct, frozen=True, tag="overlay.anchor-moves", array_like=True):
    """The anchor's state goes to the new leftmost virtual node."""

    state: Any
    nodes: int


class Resume(msgspec.Struct, frozen=True, tag="overlay.resume", array_like=True):
    """Down the new tree: go on, in the next epoch (rule 19)."""

    nodes: int


Body = (
    Climb
    | Granted
    | Refusal
    | Routed
    | Relay
    | Pause
    | Flush
    | Paused
    | Splice
    | Inherit
    | Placed
    | Follow
    | Done
    | Spliced
    | AnchorMoves
    | Resume
)


class Word(msgspec.Struct, frozen=True, tag="overlay.word", array_like=True):
    """What one place tells another, in the sender's epoch."""

    epoch: int
    source: Place
    target: Place
    body: Body


# --- between nodes --------------------------------------------------------------------------------


class Ask(msgspec.Struct, frozen=True, tag="overlay.ask", array_like=True):
    """A newcomer to any node that it knows: find me hosts."""

    newcomers: tuple[Virtual, ...]


class Elsewhere(msgspec.Struct, frozen=True, tag="overlay.elsewhere", array_like=True):
    """To a newcomer: this node has left, ask that one."""

    node: NodeId


class Hosted(msgspec.Struct, frozen=True, tag="overlay.hosted", array_like=True):
    """To a newcomer: its virtual node of this kind is a guest of that place in this epoch."""

    kind: Kind
    host: Place
    epoch: int


class Refused(msgspec.Struct, frozen=True, tag="overlay.refused", array_like=True):
    """To a newcomer: its label is taken, by a node of its own name."""


class Kept(msgspec.Struct, frozen=True, tag="overlay.kept", array_like=True):
    """To who put: it is kept."""

    ticket: int


class Got(msgspec.Struct, frozen=True, tag="overlay.got", array_like=True):
    """To who got: here it is."""

    ticket: int
    element: Any


class Told(msgspec.Struct, frozen=True, tag="overlay.told", array_like=True):
    """To a node's family, from another's that knows the node."""

    body: Any


Letter = Ask | Elsewhere | Hosted | Refused | Kept | Got | Told
Message = Word | Letter

MESSAGES: Final[tuple[type[msgspec.Struct], ...]] = get_args(Message)


# --- from a place to its own node -----------------------------------------------------------------


class Mail(msgspec.Struct, frozen=True):
    """A letter to be sent to a node."""

    to: NodeId
    letter: Letter


class Share(msgspec.Struct, frozen=True):
    """The answer to this node's own part of a batch."""

    grant: Any


class TakenBack(msgspec.Struct, frozen=True):
    """This node's own part of a batch has come back unanswered."""


class Visited(msgspec.Struct, frozen=True):
    """A visit has come to a point that this node keeps."""

    point: int
    body: Any


Outcome = Word | Mail | Share | TakenBack | Visited
