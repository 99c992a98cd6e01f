"""How far nodes are from each other in a tree, and how much farther than in its graph."""

from typing import Final

from snowmelt_lab.arrow.metric import distances_from
from snowmelt_lab.arrow.plan import Plan


class TreeMetric:
    """Distances in a plan's tree.

    >>> from snowmelt_lab.arrow.plan import graph_of
    >>> ring = TreeMetric(Plan((None, 0, 1, 2), graph_of(4, [(0, 1), (1, 2), (2, 3), (3, 0)])))
    >>> ring.between(0, 3), ring.diameter, ring.stretch, ring.mean_stretch
    (3, 3, 3, 1.5)
    """

    def __init__(self, plan: Plan) -> None:
        self._plan: Final = plan
        self._tree: Final = [
            [*below, *([] if parent is None else [parent])]
            for below, parent in zip(plan.children, plan.parents, strict=True)
        ]
        self.depths: Final = distances_from(self._tree, 0)

    def between(self, one: int, other: int) -> int:
        """Edges on the way from one to the other. Takes as long as that way is."""
        walked = 0
        while one != other:
            if self.depths[one] < self.depths[other]:
                one, other = other, one
            above = self._plan.parents[one]
            assert above is not None
            one = above
            walked += 1
        return walked

    @property
    def depth(self) -> int:
        """From the root to the farthest node."""
        return max(self.depths)

    @property
    def diameter(self) -> int:
        """Between the two nodes that are farthest from each other.

        It is the stretch, too, when in the graph everybody is everybody's neighbour.
        """
        return max(distances_from(self._tree, self.depths.index(self.depth)))

    @property
    def mean(self) -> float:
        """Between two different nodes, on average."""
        nodes = len(self.depths)
        below = [1] * nodes
        for one in sorted(range(1, nodes), key=lambda one: -self.depths[one]):
            above = self._plan.parents[one]
            assert above is not None
            below[above] += below[one]
        # Each edge is on the way between those below it and all others.
        crossed = sum(size * (nodes - size) for size in below[1:])
        return 2 * crossed / (nodes * (nodes - 1))

    @property
    def stretch(self) -> int:
        """How many times as far two nodes can be in the tree as in the graph.

        The worst pair are neighbours in the graph: a longer way is made of such pairs.
        """
        return max(self._stretches)

    @property
    def mean_stretch(self) -> float:
        """The same, on average over the graph's edges."""
        return sum(self._stretches) / len(self._stretches)

    @property
    def _stretches(self) -> list[int]:
        graph = self._plan.graph
        return [
            self.between(one, other)
            for one, near in enumerate(graph)
            for other in near
            if one < other
        ]
