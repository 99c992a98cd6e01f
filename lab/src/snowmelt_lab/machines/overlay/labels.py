"""Labels: points of [0, 1) in fixed point, drawn from public names by a public hash (rule 1)."""

from enum import IntEnum
from hashlib import blake2b
from typing import Final

import msgspec

from snowmelt.core.names import NodeId

BITS: Final = 64
CIRCLE: Final = 1 << BITS
"""Labels are whole numbers from 0 up to, not including, this one, which stands for 1."""


def label(salt: str, node: NodeId) -> int:
    """The label of a node, the same for everybody who knows its id.

    >>> label("jobs", NodeId("n1")) / CIRCLE < 1, label("jobs", NodeId("n1")) == label("x", "n1")
    (True, False)
    """
    return _hash(b"label", f"{salt}\0{node}")


def key(salt: str, *numbers: int) -> int:
    """Where on the circle something is kept that is known by numbers, as a priority and a block.

    >>> key("jobs", 1, 23) == key("jobs", 12, 3)
    False
    """
    return _hash(b"key", f"{salt}\0{','.join(map(str, numbers))}")


def _hash(use: bytes, text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=BITS // 8, person=use).digest(), "big")


class Kind(IntEnum):
    """Which of a node's three virtual nodes."""

    LEFT = 0
    MIDDLE = 1
    RIGHT = 2


class Place(msgspec.Struct, frozen=True, order=True, array_like=True):
    """One of the places that a node has in a tree."""

    node: NodeId
    index: int


class Virtual(msgspec.Struct, frozen=True, order=True, array_like=True):
    """A virtual node. Equal labels are told apart by kind and node, so that all are in one order.

    >>> left, middle, right = three("jobs", NodeId("n1"))
    >>> left < middle < right, left.label == middle.label // 2
    (True, True)
    """

    label: int
    kind: Kind
    node: NodeId

    @property
    def place(self) -> Place:
        """Its place in the aggregation tree."""
        return Place(self.node, int(self.kind))


def three(salt: str, node: NodeId) -> tuple[Virtual, Virtual, Virtual]:
    """The left, middle and right virtual node of a node: m/2, m and (m+1)/2."""
    middle = label(salt, node)
    return (
        Virtual(middle >> 1, Kind.LEFT, node),
        Virtual(middle, Kind.MIDDLE, node),
        Virtual((middle + CIRCLE) >> 1, Kind.RIGHT, node),
    )
