"""Which neighbours a member should have: three graphs, and what their trees are worth.

Each is a function of the members' names, so that everybody finds the same neighbours by himself
from the same view. Chance is a hash of a name.
"""

from bisect import bisect
from collections.abc import Sequence
from enum import Enum
from hashlib import blake2b
from itertools import pairwise
from statistics import mean
from typing import Final

import msgspec
from benchmarks.arrow_directory_parts.tree_metric import TreeMetric

from snowmelt.core.names import NodeId
from snowmelt_lab.arrow.plan import Plan, graph_of, grown, name_of, ringed

LEAVERS: Final = 20
"""So many are seen leaving, one by one, on average."""


class GraphKind(Enum):
    """How neighbours are chosen."""

    RINGS = "rings"
    """A cluster's: half as many rings as the degree, each with the members in another order."""
    CHORDS = "chords"
    """One ring; and from each member chords to those that come next after points by chance."""
    HEAP = "heap"
    """No chance: the members by name, each the parent of so many of those that come later."""


class Worth(msgspec.Struct, frozen=True):
    """What a graph and the breadth-first tree on it are worth."""

    kind: str
    nodes: int
    degree: int
    """As it was asked for; on average it is nearly that."""
    degree_max: int
    children_max: int
    depth: int
    diameter: int
    mean: float
    """Edges of the tree between two members, on average."""
    stretch: int
    """Of two neighbours in the graph, at most."""
    mean_stretch: float
    moved: float
    """How many have another parent when one member has left who is not the root."""
    moved_root: float
    """The same, when it was the root."""


def worth(kind: GraphKind, nodes: int, degree: int, salt: int = 0) -> Worth:
    """Measures one graph; the salt makes others of the same kind.

    >>> told = worth(GraphKind.HEAP, 40, degree=4)
    >>> told.depth, told.stretch, told.children_max
    (3, 1, 3)
    """
    members = list(range(nodes))
    plan = grown_on(kind, members, degree, salt)
    metric = TreeMetric(plan)
    leavers = members[1 :: max(1, nodes // LEAVERS)]
    return Worth(
        kind=kind.value,
        nodes=nodes,
        degree=degree,
        degree_max=max(len(near) for near in plan.graph),
        children_max=max(len(below) for below in plan.children),
        depth=metric.depth,
        diameter=metric.diameter,
        mean=metric.mean,
        stretch=metric.stretch,
        mean_stretch=metric.mean_stretch,
        moved=mean(_moved(kind, plan, leaver, degree, salt) for leaver in leavers),
        moved_root=_moved(kind, plan, 0, degree, salt),
    )


def grown_on(kind: GraphKind, members: Sequence[int], degree: int, salt: int = 0) -> Plan:
    """The graph on these members, and the tree from the least; they are renumbered in order.

    >>> grown_on(GraphKind.HEAP, [3, 5, 8, 9, 11], degree=3).parents
    (None, 0, 0, 1, 1)
    """
    place = {member: number for number, member in enumerate(members)}
    match kind:
        case GraphKind.RINGS:
            return grown(ringed([_name(member, salt) for member in members], degree // 2))
        case GraphKind.CHORDS:
            pairs = _ring(members, f"{salt}.0") + _chords(members, degree // 2 - 1, salt)
        case GraphKind.HEAP:
            later = range(1, len(members))
            pairs = [(members[(one - 1) // (degree - 1)], members[one]) for one in later]
    return grown(graph_of(len(members), [(place[one], place[other]) for one, other in pairs]))


def _name(member: int, salt: int) -> NodeId:
    """What is drawn from names alone is another for other names."""
    return NodeId(f"{salt}.{member}") if salt else name_of(member)


def _ring(members: Sequence[int], salt: str) -> list[tuple[int, int]]:
    order = sorted(members, key=lambda member: _point(member, salt))
    return list(pairwise([*order, order[0]]))


def _chords(members: Sequence[int], each: int, salt: int) -> list[tuple[int, int]]:
    on_ring = sorted((_point(member, f"{salt}.0"), member) for member in members)
    points = [point for point, _ in on_ring]
    return [
        (member, on_ring[bisect(points, _point(member, f"{salt}.{chord}")) % len(members)][1])
        for member in members
        for chord in range(1, each + 1)
    ]


def _point(member: int, salt: str) -> int:
    return int.from_bytes(blake2b(f"{salt}.{member}".encode(), digest_size=8).digest())


def _moved(kind: GraphKind, plan: Plan, leaver: int, degree: int, salt: int) -> int:
    rest = [member for member in range(len(plan.parents)) if member != leaver]
    after = grown_on(kind, rest, degree, salt).parents
    parents = [None if parent is None else rest[parent] for parent in after]
    return sum(parent != plan.parents[member] for member, parent in zip(rest, parents, strict=True))
