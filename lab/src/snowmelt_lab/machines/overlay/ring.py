"""The sorted cycle of all virtual nodes: who stores what (rules 2 and 3)."""

from bisect import bisect_right
from collections.abc import Sequence
from typing import Final

from snowmelt.core.names import NodeId
from snowmelt_lab.machines.overlay.labels import Kind, Place, Virtual, three


class Ring:
    """A value, made once: O(n log n) to make, O(log n) to look up.

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
