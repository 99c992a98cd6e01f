"""The elements, and which node has which."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from snowmelt_lab.machines.select import Element
from snowmelt_lab.overlay.arrays import Circle, Indices, keys_drawn
from snowmelt_lab.select.options import Distribution, SelectOptions, Shares

_SKEW: Final = 1.5
"""Of the zipf distribution: two fifths of all elements have the least priority."""
_PRIORITIES: Final = 1 << 62


class Load:
    """All elements in their order, by rank; ids are numbers in the order of making."""

    def __init__(self, options: SelectOptions, circle: Circle) -> None:
        chance = np.random.default_rng(options.seed)
        made = _priorities(chance, options)
        order = np.lexsort((np.arange(options.elements), made))
        self.ids: Final[Indices] = order
        self.priorities: Final[NDArray[np.int64]] = made[order]
        self.owners: Final[Indices] = _owners(chance, options, circle)[order]
        if options.distribution is Distribution.ADVERSARIAL:
            self.owners[:] = np.arange(options.elements) * options.nodes // options.elements

    def element(self, rank: int) -> Element:
        """The one with so many before it."""
        return Element(int(self.priorities[rank]), int(self.ids[rank]))

    def rank(self, bound: Element) -> int:
        """How many are less than this one, which need not be among them."""
        start, stop = (
            int(np.searchsorted(self.priorities, bound.priority, side))
            for side in ("left", "right")
        )
        return start + int(np.searchsorted(self.ids[start:stop], bound.id))

    def of_nodes(self, nodes: int) -> list[list[Element]]:
        held: list[list[Element]] = [[] for _ in range(nodes)]
        columns = (self.owners.tolist(), self.priorities.tolist(), self.ids.tolist())
        for owner, priority, number in zip(*columns, strict=True):
            held[owner].append(Element(priority, number))
        return held


def _priorities(chance: np.random.Generator, options: SelectOptions) -> NDArray[np.int64]:
    match options.distribution:
        case Distribution.EQUAL:
            return np.full(options.elements, 7, np.int64)
        case Distribution.ZIPF:
            drawn = chance.zipf(_SKEW, options.elements)
            return np.asarray(np.clip(drawn, 1, _PRIORITIES), np.int64)
        case _:
            return chance.integers(0, _PRIORITIES, options.elements, np.int64)


def _owners(chance: np.random.Generator, options: SelectOptions, circle: Circle) -> Indices:
    if options.shares is Shares.EVEN:
        return chance.integers(0, options.nodes, options.elements)
    return circle.owners[circle.keepers(keys_drawn(chance, options.elements))]
