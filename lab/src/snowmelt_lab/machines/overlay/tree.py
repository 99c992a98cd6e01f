"""The aggregation tree over places (rules 4 to 6)."""

from typing import Final

from snowmelt.core.names import NodeId
from snowmelt_lab.machines.overlay.labels import Kind, Place, Virtual
from snowmelt_lab.machines.overlay.ring import Ring


def local_parent(here: Virtual, pred: Virtual) -> Place | None:
    """The parent by what a virtual node knows itself (rule 4)."""
    match here.kind:
        case Kind.RIGHT:
            return Place(here.node, int(Kind.MIDDLE))
        case Kind.MIDDLE:
            return Place(here.node, int(Kind.LEFT))
        case Kind.LEFT:
            return pred.place if pred < here else None


def local_children(here: Virtual, succ: Virtual) -> tuple[Place, ...]:
    """The children by what a virtual node knows itself (rule 4)."""
    if here.kind is Kind.RIGHT:
        return ()
    own = Place(here.node, int(here.kind) + 1)
    return (own, succ.place) if succ.kind is Kind.LEFT and succ > here else (own,)


class DeBruijnTree:
    """The tree that lies in the ring: three places a node, two children at most.

    >>> tree = DeBruijnTree(Ring([NodeId("a")], "jobs"))
    >>> tree.height, tree.children(tree.root)
    (2, (Place(node='a', index=1),))
    """

    def __init__(self, ring: Ring) -> None:
        self.ring: Final = ring

    @property
    def root(self) -> Place:
        """The anchor's place."""
        return self.ring.anchor.place

    @property
    def height(self) -> int:
        """The most edges from a place to the root, those within a node counted too."""
        depths: dict[Place, int] = {}
        for one in self.ring.virtuals:  # a parent lies left of its children
            above = self.parent(one.place)
            depths[one.place] = 0 if above is None else depths[above] + 1
        return max(depths.values())

    def parent(self, place: Place) -> Place | None:
        """The place above; None above the root. `KeyError` for a place that is not in the tree."""
        here = self.ring.at(place)
        return local_parent(here, self.ring.pred(here))

    def children(self, place: Place) -> tuple[Place, ...]:
        here = self.ring.at(place)
        return local_children(here, self.ring.succ(here))

    def places(self, node: NodeId) -> tuple[Place, ...]:
        """The places of one node; none when it is no member."""
        here = Place(node, int(Kind.LEFT))
        if here not in self.ring:
            return ()
        return (here, Place(node, int(Kind.MIDDLE)), Place(node, int(Kind.RIGHT)))

    def entry(self, node: NodeId) -> Place:
        """Where the node's own operations begin: the left one, which the two others lie below."""
        return self.ring.virtual(node, Kind.LEFT).place
