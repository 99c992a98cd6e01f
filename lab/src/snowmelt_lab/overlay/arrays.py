"""The overlay in arrays: as the machines' ring, tree and routes, for a hundred thousand nodes."""

from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from snowmelt.core.names import NodeId
from snowmelt_lab.machines.overlay import BITS, CIRCLE, Kind, label

Labels = NDArray[np.uint64]
Indices = NDArray[np.int64]
Mask = NDArray[np.bool_]
Watch = Callable[[Indices, Indices], None]

_HALF: Final = np.uint64(CIRCLE >> 1)
_ONE: Final = np.uint64(1)


def name(number: int) -> NodeId:
    """Names whose order is that of their numbers, up to a million.

    >>> name(7)
    'n000007'
    """
    return NodeId(f"n{number:06}")


class Circle:
    """All virtual nodes in the order of the ring, by index.

    >>> circle = Circle(100, "jobs")
    >>> int(circle.depths().max()), int(circle.depths(within=False).max())
    (28, 22)
    """

    def __init__(self, nodes: int, salt: str) -> None:
        self.nodes: Final = nodes
        middle = np.array([label(salt, name(number)) for number in range(nodes)], np.uint64)
        labels = np.concatenate([middle >> _ONE, middle, (middle >> _ONE) + _HALF])
        kinds = np.repeat(np.arange(3), nodes)
        owners = np.tile(np.arange(nodes), 3)
        order = np.lexsort((owners, kinds, labels))
        self.labels: Final[Labels] = labels[order]
        self.kinds: Final[Indices] = kinds[order]
        self.owners: Final[Indices] = owners[order]
        self.places: Final[Indices] = np.empty((3, nodes), np.int64)
        """The index of each kind of each node."""
        self.places[self.kinds, self.owners] = np.arange(3 * nodes)

    def parents(self) -> Indices:
        """Of each virtual node; the root is its own."""
        above = np.maximum(np.arange(3 * self.nodes) - 1, 0)
        for kind in (Kind.MIDDLE, Kind.RIGHT):
            here = self.places[kind]
            above[here] = self.places[kind - 1]
        return above

    def depths(self, *, within: bool = True) -> Indices:
        """Edges from each virtual node to the root, those within a node counted or not."""
        above = self.parents()
        counts = np.ones(3 * self.nodes, np.int64)
        if not within:
            counts = (self.owners != self.owners[above]).astype(np.int64)
        counts[0] = 0
        while above.any():  # each pass doubles how far up a virtual node has looked
            counts += counts[above]
            above = above[above]
        return counts

    def shares(self) -> NDArray[np.float64]:
        """How much of the circle each node keeps, the mean being 1."""
        behind = np.roll(self.labels, -1) - self.labels  # round the seam it wraps as it should
        arcs = behind.astype(np.float64) / CIRCLE
        kept = np.zeros(self.nodes)
        np.add.at(kept, self.owners, arcs)
        return kept * self.nodes

    def routes(
        self, starts: Indices, keys: Labels, watch: Watch | None = None
    ) -> tuple[Indices, Indices, Indices]:
        """Routes from the middle virtual nodes of these nodes, all at once.

        Where each ends, and its hops along the ring: all of them, and those to another node. In
        each pass `watch` is told which routes came to another node, and where all are.
        """
        here = self.places[Kind.MIDDLE][starts]
        return self.walked(_Walk(here, self.bits(len(keys)), self.labels[here], keys), watch)

    def edges(
        self, here: Indices, origins: Labels, keys: Labels, watch: Watch | None = None
    ) -> tuple[Indices, Indices, Indices]:
        """Routes along one edge of the de Bruijn graph from points that are kept here."""
        beyond = origins < self.labels[here]  # the seam: all bits then
        bits = np.where(beyond, self.bits(len(keys)), 1)
        return self.walked(
            _Walk(here, bits, np.where(beyond, self.labels[here], origins), keys), watch
        )

    def bits(self, routes: int) -> Indices:
        """How many each route takes."""
        return np.full(routes, min(BITS, max(0, self.nodes - 1).bit_length()))

    def keepers(self, keys: Labels) -> Indices:
        """The predecessor of each key."""
        return (np.searchsorted(self.labels, keys, side="right") - 1) % (3 * self.nodes)

    def walked(self, walk: "_Walk", watch: Watch | None = None) -> tuple[Indices, Indices, Indices]:
        """All routes to their ends, as `routes` tells it."""
        keys, ends = walk.keys, self.keepers(walk.keys)
        hops, away = np.zeros((2, len(keys)), np.int64)
        live = np.flatnonzero(walk.here != ends)
        while len(live):
            jumping = (walk.bits[live] > 0) & (self.kinds[walk.here[live]] == Kind.MIDDLE)
            stepping = live[~jumping]
            before = walk.here[stepping]
            self._jump(walk, live[jumping])
            self._step(walk, stepping)
            hops[stepping] += 1
            moved = stepping[self.owners[before] != self.owners[walk.here[stepping]]]
            away[moved] += 1
            if watch is not None:
                watch(moved, walk.here)
            live = live[walk.here[live] != ends[live]]
        return walk.here, hops, away

    def _jump(self, walk: "_Walk", who: Indices) -> None:
        bits = walk.bits[who]
        bit = (walk.keys[who] >> (BITS - bits).astype(np.uint64)) & _ONE
        ideal = (walk.ideal[who] >> _ONE) + bit * _HALF
        kinds = np.where(bit == 1, Kind.RIGHT, Kind.LEFT)
        here = self.places[kinds, self.owners[walk.here[who]]]
        walk.here[who], walk.ideal[who], walk.bits[who] = here, ideal, bits - 1
        walk.leftward[who] = ideal < self.labels[here]

    def _step(self, walk: "_Walk", who: Indices) -> None:
        last = 3 * self.nodes - 1
        here, leftward, searching = walk.here[who], walk.leftward[who], walk.bits[who] > 0
        leftward ^= searching & np.where(leftward, here == 0, here == last)  # the seam
        walk.leftward[who] = leftward
        left = np.where(searching, leftward, walk.keys[who] < self.labels[here])
        walk.here[who] = (here + np.where(left, -1, 1)) % (last + 1)


class _Walk:
    def __init__(self, here: Indices, bits: Indices, ideal: Labels, keys: Labels) -> None:
        self.here, self.bits, self.ideal, self.keys = here.copy(), bits, ideal.copy(), keys
        self.leftward = np.zeros(len(keys), np.bool_)


def keys_drawn(chance: np.random.Generator, count: int) -> Labels:
    return chance.integers(0, CIRCLE, count, np.uint64, endpoint=False)


def uneven(chance: np.random.Generator, nodes: int, points: int, trials: int) -> dict[str, Any]:
    """The shares of nodes with this many independent points each, for comparison."""
    shares = np.empty((trials, nodes))
    for trial in range(trials):
        spots = chance.random(nodes * points)
        order = np.argsort(spots)
        arcs = np.diff(np.append(spots[order], spots[order[0]] + 1))
        shares[trial] = np.bincount(order % nodes, arcs, nodes) * nodes
    return spread(shares)


def spread(shares: NDArray[np.float64]) -> dict[str, float]:
    """Least, most and so on of shares whose mean is 1."""
    flat = shares.ravel()
    return {
        "least": round(float(flat.min()), 4),
        "p99": round(float(np.quantile(flat, 0.99)), 3),
        "most": round(float(flat.max()), 3),
        "deviation": round(float(flat.std()), 3),
    }
