"""The tree of the overlay in arrays: when waves pass, what they add up, and who takes what."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from snowmelt_lab.machines.overlay.labels import Kind
from snowmelt_lab.overlay.arrays import Circle, Indices, Mask
from snowmelt_lab.priority.tree import Waves


class Tree:
    """All places, by index; level by level from the deepest up."""

    def __init__(self, circle: Circle) -> None:
        waves = Waves(circle)
        self.circle: Final = circle
        self.above: Final = waves.above
        self.depths: Final = waves.depths
        """In hops between nodes."""
        self.entries: Final = circle.places[Kind.LEFT]
        """Where each node's own operations begin."""
        self.ranks: Final = waves.ranks
        self.crosses: Final[Mask] = circle.owners[self.above] != circle.owners
        """Whether it takes a message to reach the parent."""
        levels = circle.depths()
        order = np.argsort(-levels, kind="stable")
        cuts = np.flatnonzero(np.diff(-levels[order])) + 1
        self._levels: Final = np.split(order, cuts)[:-1]

    def summed(self, values: Indices) -> Indices:
        """Of each place and all below it; given for each node."""
        sums = np.zeros(len(self.above), np.int64)
        sums[self.entries] = values
        for level in self._levels:
            np.add.at(sums, self.above[level], sums[level])
        return sums

    def greatest(self, values: Indices) -> Indices:
        """Of each place and all below it, given for each node; -1 where there is none."""
        most = np.full(len(self.above), -1, np.int64)
        most[self.entries] = values
        for level in self._levels:
            np.maximum.at(most, self.above[level], most[level])
        return most

    def sent(self, ready: Indices) -> Indices:
        """In which round each place sends, given when its own part is ready."""
        rounds = ready.copy()
        for level in self._levels:
            up = self.above[level]
            np.maximum.at(rounds, up, rounds[level] + self.crosses[level])
        return rounds


class Traffic:
    """How many messages each node takes in each round, wave by wave."""

    def __init__(self, nodes: int) -> None:
        self.most = 0
        self._nodes: Final = nodes
        self._began = 0
        self._counts: NDArray[np.uint32] = np.zeros(64 * nodes, np.uint32)
        """Of this wave, round after round."""

    def take(self, nodes: Indices, rounds: Indices) -> None:
        if not len(nodes):
            return
        cells = (rounds - self._began - 1) * self._nodes + nodes
        while int(cells.max()) >= len(self._counts):
            self._counts = np.concatenate([self._counts, np.zeros_like(self._counts)])
        np.add.at(self._counts, cells, 1)

    def wave_over(self, began: int) -> None:
        """All that is under way has come; the next wave goes down in this round."""
        self.most = max(self.most, int(self._counts.max()))
        self._counts[:] = 0
        self._began = began
