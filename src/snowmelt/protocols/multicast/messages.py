"""What nodes say to each other about topics; see the package's rules."""

from typing import Annotated, Final, get_args

import msgspec

from snowmelt.core.ahead import MANY, Label, Unsigned
from snowmelt.protocols.multicast.calls import REQUESTS, Position, Publication


class Broadcast(msgspec.Struct, frozen=True, tag="multicast.said", array_like=True):
    """This was published. Sent until `Acknowledge` (rule 4), or once for `FetchPublications`."""

    name: Label
    publications: Annotated[tuple[Publication, ...], MANY]


class Acknowledge(msgspec.Struct, frozen=True, tag="multicast.heard", array_like=True):
    """Where the publications stand that came."""

    name: Label
    life: Unsigned
    """The speaker's, as the views have it: what an earlier process heard was forgotten."""
    here: Annotated[tuple[Position, ...], MANY]
    """These are kept here, or were."""
    beyond: Annotated[tuple[Position, ...], MANY]
    """These came too late: this node has gone past them (rule 5)."""


class Upto(msgspec.Struct, frozen=True, tag="multicast.upto", array_like=True):
    """So far has this node come (rule 9)."""

    name: Label
    end: Position


class FindFirst(msgspec.Struct, frozen=True, tag="multicast.ask", array_like=True):
    """Asks for the first that a node has from here on (rule 7)."""

    name: Label
    start: Position


class Have(msgspec.Struct, frozen=True, tag="multicast.have", array_like=True):
    """The first publication that a node has, for the node that asked."""

    name: Label
    start: Position
    """As it was asked."""
    first: Position | None
    """None for nothing."""
    end: Position
    """How far what it has goes."""


class FetchPublications(msgspec.Struct, frozen=True, tag="multicast.fetch", array_like=True):
    """Send what you have from here on (rule 8)."""

    name: Label
    start: Position


Message = Broadcast | Acknowledge | Upto | FindFirst | Have | FetchPublications

SAFE: Final = 1 << 63
"""Eras and numbers of other nodes are below this: there is room to count on from them."""

MESSAGES: Final[tuple[type[msgspec.Struct], ...]] = (*get_args(Message), *REQUESTS)


def sound(message: Message) -> bool:
    """Whether all positions in it are such that one can count on from them (rule 13)."""
    match message:
        case Broadcast():
            return all(_sound(one.first) and one.bodies for one in message.publications)
        case Have(first=first, end=end):
            return _sound(end) and (first is None or _sound(first))
        case Upto(end=end):
            return _sound(end)
        case _:  # what is only compared with what is here
            return True


def _sound(position: Position) -> bool:
    return 0 <= position.era < SAFE and 0 <= position.number < SAFE
