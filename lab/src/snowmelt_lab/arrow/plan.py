"""The trees: who hangs from whom, and the graph they grow on. Nodes are numbers; 0 is the root."""

from collections import deque
from collections.abc import Sequence
from itertools import pairwise
from random import Random

import msgspec

from snowmelt.core.names import NodeId
from snowmelt.protocols.arrow.rings import RINGS, orders
from snowmelt_lab.arrow.options import TreeKind


class Plan(msgspec.Struct, frozen=True):
    """A rooted tree within a graph."""

    parents: tuple[int | None, ...]
    """Of each node; None is the root's."""
    graph: tuple[tuple[int, ...], ...]
    """The neighbours of each node; those in the tree are among them."""

    @property
    def edges(self) -> list[tuple[int, int]]:
        """Parent and child of each edge of the tree."""
        return [(parent, child) for child, parent in enumerate(self.parents) if parent is not None]

    @property
    def children(self) -> list[list[int]]:
        found: list[list[int]] = [[] for _ in self.parents]
        for parent, child in self.edges:
            found[parent].append(child)
        return found

    @property
    def depth(self) -> int:
        found = [0] * len(self.parents)
        deepest = 0
        waiting = deque([0])
        below = self.children
        while waiting:
            node = waiting.popleft()
            for child in below[node]:
                found[child] = found[node] + 1
                deepest = max(deepest, found[child])
                waiting.append(child)
        return deepest


def name_of(number: int) -> NodeId:
    """How the machines know a node; names are in the order of the numbers.

    >>> name_of(7)
    'n0007'
    """
    return NodeId(f"n{number:04}")


def number_of(name: NodeId) -> int:
    """Back again.

    >>> number_of(name_of(7))
    7
    """
    return int(name[1:])


def planned(kind: TreeKind, nodes: int, chance: Random) -> Plan:
    """A tree of this shape.

    >>> planned(TreeKind.BINARY, 6, Random(1)).parents
    (None, 0, 0, 1, 1, 2)
    >>> planned(TreeKind.PATH, 4, Random(1)).depth
    3
    """
    match kind:
        case TreeKind.PATH:
            return plan_of([None, *range(nodes - 1)])
        case TreeKind.STAR:
            return plan_of([None, *[0] * (nodes - 1)])
        case TreeKind.BINARY:
            return plan_of([None, *[(child - 1) // 2 for child in range(1, nodes)]])
        case TreeKind.RANDOM:
            return plan_of([None, *[chance.randrange(child) for child in range(1, nodes)]])
        case TreeKind.OVERLAY:
            return grown(ringed([name_of(one) for one in range(nodes)]))


def plan_of(parents: list[int | None]) -> Plan:
    """A tree that is its own graph.

    >>> plan_of([None, 0, 0]).graph
    ((1, 2), (0,), (0,))
    """
    pairs = [(parent, child) for child, parent in enumerate(parents) if parent is not None]
    return Plan(tuple(parents), graph_of(len(parents), pairs))


def graph_of(nodes: int, pairs: list[tuple[int, int]]) -> tuple[tuple[int, ...], ...]:
    """The graph with an edge for each of these pairs; who is its own neighbour is not.

    >>> graph_of(3, [(0, 1), (1, 0), (2, 1), (2, 2)])
    ((1,), (0, 2), (1,))
    """
    near: list[dict[int, None]] = [{} for _ in range(nodes)]
    for one, other in pairs:
        if one != other:
            near[one][other] = near[other][one] = None
    return tuple(tuple(sorted(each)) for each in near)


def ringed(names: Sequence[NodeId], rings: int = RINGS) -> tuple[tuple[int, ...], ...]:
    """The graph of all neighbours on the rings of a cluster; nodes are numbers in this order.

    >>> ringed([NodeId("a"), NodeId("b"), NodeId("c")])
    ((1, 2), (0, 2), (0, 1))
    """
    place = {name: number for number, name in enumerate(names)}
    pairs = [
        (place[one], place[other])
        for order in orders(names, rings)
        for one, other in pairwise([*order, order[0]])
    ]
    return graph_of(len(names), pairs)


def grown(graph: tuple[tuple[int, ...], ...]) -> Plan:
    """Breadth first from 0; of several neighbours at the least distance the least is the parent.

    >>> grown(graph_of(4, [(0, 1), (1, 3), (0, 2), (2, 3)])).parents
    (None, 0, 0, 1)
    """
    distances = {0: 0}
    waiting = deque([0])
    while waiting:
        node = waiting.popleft()
        for other in graph[node]:
            if other not in distances:
                distances[other] = distances[node] + 1
                waiting.append(other)
    parents = [
        min(graph[node], key=lambda other: (distances[other], other)) if node else None
        for node in range(len(graph))
    ]
    return Plan(tuple(parents), graph)
