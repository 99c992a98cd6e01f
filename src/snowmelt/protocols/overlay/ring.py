"""The sorted cycle of all virtual nodes of a view's members: who stores what (rules 2 and 3)."""

from bisect import bisect_right
from collections.abc import Sequence
from typing import Final

from snowmelt.core.names import NodeId
from snowmelt.protocols.overlay.labels import Kind, Place, Virtual, key, three


class Ring:
    """A value, made once for a view: O(n log n) to make, O(log n) to look up.

    >>> ring = Ring([NodeId(name) for name in "abc"], "jobs")
    >>> ring.predecessor(ring.virtuals[4].label) == ring.virtuals[4]
    True
    """

    def __init__(self, nodes: Sequence[NodeId], salt: str) -> None:
        if not nodes:
            raise ValueError("a ring needs at least one node")
        self.salt: Final = salt
        self.nodes: Final = tuple(sorted(set(nodes)))
        self.virtuals: Final = sorted(one for node in self.nodes for one in three(salt, node))
        self._labels: Final = [one.label for one in self.virtuals]
        self._index: Final = {one.place: at for at, one in enumerate(self.virtuals)}

    @property
    def anchor(self) -> Virtual:
        """The leftmost virtual node, always a left one: the root of the aggregation tree."""
        return self.virtuals[0]

    def __contains__(self, place: Place) -> bool:
        return place in self._index

    def virtual(self, node: NodeId, kind: Kind) -> Virtual:
        return self.at(Place(node, int(kind)))

    def at(self, place: Place) -> Virtual:
        return self.virtuals[self._index[place]]

    def pred(self, virtual: Virtual) -> Virtual:
        """The one before it; the last stands before the first."""
        return self.virtuals[self._index[virtual.place] - 1]

    def succ(self, virtual: Virtual) -> Virtual:
        """The one after it; the first stands after the last."""
        return self.virtuals[(self._index[virtual.place] + 1) % len(self.virtuals)]

    def predecessor(self, point: int) -> Virtual:
        """Who stores a key: the v with v <= key < succ(v), round the seam the last one."""
        return self.virtuals[bisect_right(self._labels, point) - 1]


class Spread:
    """Who keeps what, more fairly than on the ring: each member has many points (rule 3).

    Where a view names all members, nothing else needs the ring's own points for keys.

    >>> spread = Spread([NodeId(name) for name in "abc"], "jobs")
    >>> len(set(spread.holders(7, count=2))), len(spread.holders(7, count=5))
    (2, 3)
    """

    def __init__(self, nodes: Sequence[NodeId], salt: str, points: int = 64) -> None:
        if not nodes or points < 1:
            raise ValueError(f"{len(nodes)} nodes, {points} points: a spread needs one of each")
        self.nodes: Final = tuple(sorted(set(nodes)))
        drawn = sorted(
            (key(f"{salt}\0{node}", number), node)
            for node in self.nodes
            for number in range(points)
        )
        self._points: Final = [point for point, _ in drawn]
        self._owners: Final = [node for _, node in drawn]

    def first(self, point: int) -> NodeId:
        """The first of the holders."""
        return self._owners[bisect_right(self._points, point) - 1]

    def holders(self, point: int, count: int) -> tuple[NodeId, ...]:
        """The first `count` members from the last point that is not behind this one."""
        at, count = bisect_right(self._points, point) - 1, min(count, len(self.nodes))
        found: dict[NodeId, None] = {}
        while len(found) < count:
            found[self._owners[at]] = None
            at = (at + 1) % len(self._owners)
        return tuple(found)
