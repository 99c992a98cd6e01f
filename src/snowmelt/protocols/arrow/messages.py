"""What neighbours in the tree say to each other, and the facts that layers of one node share."""

from typing import Final, get_args

import msgspec

from snowmelt.core.ahead import Whole
from snowmelt.core.names import NodeId, NodeName, OperationId

NUMBERS: Final = 2**32
"""Observers are numbered modulo this: far more than a link can hold at a time."""


class OrderPlace(msgspec.Struct, frozen=True, array_like=True):
    """A place in the order: whose node asked for it, and under which name."""

    node: NodeName
    name: OperationId
    filler: bool = False
    """Whether healing made it, so that it stands for no request; its name is its node's count."""


# --- between neighbours ---------------------------------------------------------------------------


class Find(msgspec.Struct, frozen=True, tag="arrow.find", array_like=True):
    """Looks for the end of the queue, for this place."""

    place: OrderPlace


class Observer(msgspec.Struct, frozen=True, tag="arrow.observer", array_like=True):
    """Asks the child whether it points across; it comes behind all finds sent before."""

    number: Whole


class Observed(msgspec.Struct, frozen=True, tag="arrow.observed", array_like=True):
    """The child's answer to the observer of this number."""

    number: Whole
    points: bool
    """Whether the child's arrow was on the edge when the observer passed."""


class Claim(msgspec.Struct, frozen=True, tag="arrow.claim", array_like=True):
    """How far a node believes to be from the root, and through whom."""

    distance: Whole
    parent: NodeName | None
    """None at the root, and with a node that knows no way to it."""


Message = Find | Observer | Observed

MESSAGES: Final[tuple[type[msgspec.Struct], ...]] = (*get_args(Message), Claim)


# --- between the layers of one node ---------------------------------------------------------------


class Ground(msgspec.Struct, frozen=True):
    """What a tree grows on, as the membership's view has it."""

    root: NodeId
    nodes: int
    """How many there are; no distance reaches it."""
    neighbours: tuple[NodeId, ...]
    """Who shares an edge of the overlay with this node."""


class Branch(msgspec.Struct, frozen=True):
    """A node's part of the tree."""

    parent: NodeId | None
    children: tuple[NodeId, ...]


class RequestPlace(msgspec.Struct, frozen=True):
    """The layer above wants a place under this name; asked again, it is another find."""

    name: OperationId


class Followed(msgspec.Struct, frozen=True):
    """A place of this node has a successor: the only thing that anybody learns of the queue."""

    place: OrderPlace
    by: OrderPlace
