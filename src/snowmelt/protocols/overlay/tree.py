"""The aggregation tree over places, in two forms: on the ring, and flat (rules 4 to 6)."""

from collections.abc import Sequence
from typing import Final, Protocol

from snowmelt.core.names import NodeId
from snowmelt.protocols.overlay.labels import Kind, Place, Virtual, label
from snowmelt.protocols.overlay.ring import Ring


class Tree(Protocol):
    """Who is above and below whom. A node has one place or several."""

    @property
    def root(self) -> Place:
        """The anchor's place."""
        ...

    @property
    def height(self) -> int:
        """The most edges from a place to the root. O(n)."""
        ...

    def parent(self, place: Place) -> Place | None:
        """The place above; None above the root. `KeyError` for a place that is not in the tree."""
        ...

    def children(self, place: Place) -> tuple[Place, ...]: ...

    def places(self, node: NodeId) -> tuple[Place, ...]:
        """The places of one node; none when it is no member."""
        ...

    def entry(self, node: NodeId) -> Place:
        """Where the node's own operations begin: its place nearest to the root."""
        ...


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
        here = self.ring.at(place)
        return local_parent(here, self.ring.pred(here))

    def children(self, place: Place) -> tuple[Place, ...]:
        here = self.ring.at(place)
        return local_children(here, self.ring.succ(here))

    def places(self, node: NodeId) -> tuple[Place, ...]:
        here = Place(node, int(Kind.LEFT))
        if here not in self.ring:
            return ()
        return (here, Place(node, int(Kind.MIDDLE)), Place(node, int(Kind.RIGHT)))

    def entry(self, node: NodeId) -> Place:
        """The left virtual node: the two others lie below it."""
        return self.ring.virtual(node, Kind.LEFT).place


class FlatTree:
    """Each place has `arity` children; the members stand in it in the order of their labels.

    >>> tree = FlatTree([NodeId(f"n{number}") for number in range(21)], "jobs", arity=4)
    >>> tree.height, len(tree.children(tree.root)), tree.parent(tree.root)
    (2, 4, None)
    """

    def __init__(self, nodes: Sequence[NodeId], salt: str, arity: int) -> None:
        if not nodes or arity < 1:
            raise ValueError(f"{len(nodes)} nodes, arity {arity}: a tree needs one of each")
        self.arity: Final = arity
        self.nodes: Final = tuple(
            sorted(sorted(set(nodes)), key=lambda node: (label(salt, node), node))
        )
        self._index: Final = {node: at for at, node in enumerate(self.nodes)}

    @property
    def root(self) -> Place:
        """The member of the least label."""
        return Place(self.nodes[0], 0)

    @property
    def height(self) -> int:
        return flat_height(len(self.nodes), self.arity)

    def parent(self, place: Place) -> Place | None:
        at = self._at(place)
        return Place(self.nodes[(at - 1) // self.arity], 0) if at else None

    def children(self, place: Place) -> tuple[Place, ...]:
        first = self._at(place) * self.arity + 1
        return tuple(Place(node, 0) for node in self.nodes[first : first + self.arity])

    def places(self, node: NodeId) -> tuple[Place, ...]:
        return (Place(node, 0),) if node in self._index else ()

    def entry(self, node: NodeId) -> Place:
        return Place(self.nodes[self._index[node]], 0)

    def _at(self, place: Place) -> int:
        if place.index:
            raise KeyError(place)
        return self._index[place.node]


def flat_height(nodes: int, arity: int) -> int:
    """The height of a flat tree of so many members.

    >>> flat_height(1, arity=16), flat_height(17, arity=16), flat_height(18, arity=16)
    (0, 1, 2)
    """
    at, height = nodes - 1, 0
    while at:
        at, height = (at - 1) // arity, height + 1
    return height
