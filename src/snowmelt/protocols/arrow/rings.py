"""Who is whose neighbour, on four rings through all nodes: what a view's tree grows on.

Each ring has the nodes in another order, drawn from their names alone, so that everybody finds the
same rings and nobody has to tell. A node has eight neighbours at most, the whole is wide as the
logarithm of the nodes, and one who comes or goes touches the edges of eight others. (Fewer rings
make finds longer, more make trees stars with a busy root: measured in docs/research/arrow.md.)
"""

from collections.abc import Sequence
from functools import partial
from hashlib import blake2b
from typing import Final

from snowmelt.core.names import NodeId

RINGS: Final = 4


def neighbours(me: NodeId, nodes: Sequence[NodeId]) -> tuple[NodeId, ...]:
    """The neighbours of one of these nodes, in the order of their names. O(n log n).

    >>> neighbours(NodeId("b"), [NodeId(name) for name in "abc"])
    ('a', 'c')
    >>> len(neighbours(NodeId("n7"), [NodeId(f"n{number}") for number in range(500)]))
    8
    """
    found: set[NodeId] = set()
    for order in orders(nodes):
        at = order.index(me)
        found.add(order[at - 1])
        found.add(order[(at + 1) % len(order)])
    found.discard(me)
    return tuple(sorted(found))


def orders(nodes: Sequence[NodeId], rings: int = RINGS) -> list[list[NodeId]]:
    """The nodes as they stand on each ring; the last stands before the first.

    >>> orders([NodeId(name) for name in "abcd"], rings=2)
    [['b', 'c', 'd', 'a'], ['b', 'a', 'c', 'd']]
    """
    return [sorted(nodes, key=partial(_point, ring)) for ring in range(rings)]


def _point(ring: int, node: NodeId) -> bytes:
    return blake2b(f"{ring}.{node}".encode(), digest_size=8).digest()
