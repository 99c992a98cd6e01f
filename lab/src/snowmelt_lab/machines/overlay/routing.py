"""Routing by the bits of the target, one step at a time (rules 12 and 13)."""

from typing import Final

import msgspec

from snowmelt.core.names import NodeId
from snowmelt_lab.machines.overlay.labels import BITS, CIRCLE, Kind, Virtual

_LAST: Final = NodeId("~")
"""Behind every id that a node may have."""


def point(key: int) -> Virtual:
    """A key as a target: behind every virtual node that has it as its label.

    >>> point(7) > Virtual(7, Kind.RIGHT, NodeId("zz")), point(7) < Virtual(8, Kind.LEFT, "a")
    (True, True)
    """
    return Virtual(key, Kind.RIGHT, _LAST)


class Route(msgspec.Struct, frozen=True, array_like=True):
    """What a message carries to find its way."""

    target: Virtual
    bits: int
    """How many of the target's first bits are still to be taken."""
    ideal: int
    """Where the message would be if there were a middle node everywhere."""
    leftward: bool = False
    """Which way the next middle node is looked for."""


def begin(here: Virtual, target: Virtual, nodes: int) -> Route:
    """A route from here, on an overlay of about so many nodes.

    >>> begin(Virtual(5, Kind.MIDDLE, NodeId("a")), point(9), nodes=1000).bits
    10
    """
    return Route(target, min(BITS, max(0, (nodes - 1).bit_length())), here.label)


def edge(here: Virtual, target: Virtual, origin: int, nodes: int) -> Route:
    """A route from a point kept here along one edge of the classical de Bruijn graph (rule 14).

    The keeper of a point beyond the seam takes all bits, or it would walk round the whole ring.

    >>> here = Virtual(5, Kind.MIDDLE, NodeId("a"))
    >>> edge(here, point(8 >> 1), 8, nodes=1000).bits, edge(here, point(3 >> 1), 3, 1000).bits
    (1, 10)
    """
    if origin < here.label:
        return begin(here, target, nodes)
    return Route(target, 1, origin)


def keeps(here: Virtual, succ: Virtual, target: Virtual) -> bool:
    """Whether the target lies between here and the next, round the seam when that is before us."""
    if here < succ:
        return here <= target < succ
    return here <= target or target < succ


def step(
    here: Virtual, pred: Virtual, succ: Virtual, route: Route
) -> tuple[Kind | Virtual | None, Route]:
    """Where to go from here, and what to carry on.

    A kind: to that virtual node of the same node, which costs nothing. A virtual node: to this
    neighbour. None: here it is.
    """
    if keeps(here, succ, route.target):
        return None, route
    if not route.bits:
        return (pred if route.target < here else succ), route
    if here.kind is Kind.MIDDLE:
        return _jump(here, route)
    seam = (here < pred) if route.leftward else (succ < here)
    if seam:
        route = msgspec.structs.replace(route, leftward=not route.leftward)
    return (pred if route.leftward else succ), route


def _jump(here: Virtual, route: Route) -> tuple[Kind, Route]:
    """Takes a bit: both the middle node and the ideal point are halved."""
    bit = route.target.label >> (BITS - route.bits) & 1
    ideal = (route.ideal + bit * CIRCLE) >> 1
    landed = (here.label + bit * CIRCLE) >> 1
    route = Route(route.target, route.bits - 1, ideal, leftward=ideal < landed)
    return (Kind.RIGHT if bit else Kind.LEFT), route
