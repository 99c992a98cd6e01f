"""When waves come by in the tree, and all operations in arrays.

With D(p) the depth of the deepest place under place p, d(p) its own, H the tree's height, all in
hops between nodes: the anchor has the batch of wave k, and answers it, in round T(k) = (2k - 1) H;
p has the answer in round T(k) + d(p), and has sent what it answers in round T(k-1) + 2 D(p) - d(p),
the first one in round D(p) - d(p).
"""

from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from snowmelt_lab.overlay.arrays import Circle, Indices

NOWHERE: Final = -1


class Waves:
    """When each place of the tree sends and has its answer, and in which order places come."""

    def __init__(self, circle: Circle) -> None:
        self.circle: Final = circle
        self.above: Final = circle.parents()
        self.depths: Final = circle.depths(within=False)
        self.height: Final = int(self.depths.max())
        self.deepest: Final = self._deepest()
        self.sizes: Final = self._sizes()
        """How many places there are under each, itself too."""
        self.ranks: Final = self._ranks()
        """Of each place, in the preorder of the tree."""

    def sent(self, wave: int, places: Indices) -> Indices:
        """In which round these places send the batch of a wave."""
        beyond = self.deepest[places] - self.depths[places]
        if wave == 1:
            return beyond
        return (2 * wave - 3) * self.height + self.deepest[places] + beyond

    def taken_by(self, made: Indices, places: Indices) -> Indices:
        """Which wave takes along what is made in these rounds at these places."""
        second = self.sent(2, places)
        later = -((second - made) // (2 * self.height))  # rounded up
        return np.where(made <= self.sent(1, places), 1, 2 + np.maximum(0, later))

    def answered(self, waves: Indices, places: Indices) -> Indices:
        """In which rounds these places have their answers."""
        return (2 * waves - 1) * self.height + self.depths[places]

    def _deepest(self) -> Indices:
        deepest, above = self.depths.tolist(), self.above.tolist()
        for at in range(len(deepest) - 1, 0, -1):  # a parent lies left of its children
            deepest[above[at]] = max(deepest[above[at]], deepest[at])
        return np.array(deepest)

    def _sizes(self) -> Indices:
        sizes, above = [1] * len(self.above), self.above.tolist()
        for at in range(len(above) - 1, 0, -1):
            sizes[above[at]] += sizes[at]
        return np.array(sizes)

    def _ranks(self) -> Indices:
        """Of two children the node's own one comes first."""
        above, owners, sizes = (
            each.tolist() for each in (self.above, self.circle.owners, self.sizes)
        )
        ranks, own = [0] * len(above), [0] * len(above)
        for at in range(1, len(above)):
            if owners[above[at]] == owners[at]:
                own[above[at]] = sizes[at]
        for at in range(1, len(above)):
            first = 1 if owners[above[at]] == owners[at] else 1 + own[above[at]]
            ranks[at] = ranks[above[at]] + first
        return np.array(ranks)


class Operations(msgspec.Struct):
    """All of them, in one order: wave, run, puts before gets, preorder of nodes, own order."""

    nodes: Indices
    turns: Indices
    """Of each node's own, which."""
    made: Indices
    priorities: Indices
    waves: Indices
    runs: Indices
    orders: Indices
    rows: Indices
    """Which priority an element got has, or was put with; `NOWHERE` when nothing was found."""
    positions: Indices

    @property
    def found(self) -> NDArray[np.bool_]:
        """Whether there is anything to be done with the table."""
        found: NDArray[np.bool_] = self.rows != NOWHERE
        return found
