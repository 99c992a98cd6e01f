"""What an experiment with arrows can be asked for; whatever can't be had is refused here, by name.

Time is counted in round trips, R: the longest that an edge can take. The machines are told that it
is a millisecond.
"""

from enum import Enum
from typing import Final

import msgspec

from snowmelt.core.instant import MILLISECOND, Duration
from snowmelt_lab.bounds import one_of, within

ROUND_TRIP: Final = MILLISECOND
NODES_MAX: Final = 5_000
REQUESTS_MAX: Final = 1_000_000
FACTOR_LEAST: Final = 0.1
FACTOR_MOST: Final = 1_000.0
FACTOR_SAFE: Final = 2.0
"""The shortest time-out, in round trips, for which there is a bound."""


class TreeKind(Enum):
    PATH = "path"
    STAR = "star"
    BINARY = "binary"
    RANDOM = "random"
    """Each node hangs from one that was there before it, drawn by chance."""
    OVERLAY = "overlay"
    """Breadth first on the rings that a cluster's tree grows on; the same for every seed."""


class Arrivals(Enum):
    """When requests are made, once the edges are healed."""

    SEQUENCE = "sequence"
    """Each when the one before has found its place."""
    ONE_SHOT = "one-shot"
    """All at once."""
    POISSON = "poisson"
    """Two in a round trip, on average."""


class Corruption(Enum):
    """What is in an arbitrary state at the beginning."""

    ARROWS = "arrows"
    FINDS = "finds"
    OBSERVERS = "observers"
    """Strays on the edges, and all that parents remember of them."""
    TREE = "tree"
    """Distances, parents, children and claims; the tree grows on the overlay, under the arrows."""


class ArrowOptions(msgspec.Struct, frozen=True, kw_only=True):
    """One experiment.

    >>> ArrowOptions(nodes=1)
    Traceback (most recent call last):
    snowmelt.core.errors.BadOption: --nodes is 1; allowed: 2 to 5000
    """

    nodes: int = 15
    tree: TreeKind = TreeKind.RANDOM
    requests: int = 100
    arrivals: Arrivals = Arrivals.SEQUENCE
    corrupt: tuple[Corruption, ...] = (Corruption.ARROWS, Corruption.FINDS, Corruption.OBSERVERS)
    timeout_factor: float = FACTOR_SAFE
    seed: int = 1

    def __post_init__(self) -> None:
        within("--nodes", self.nodes, 2, NODES_MAX)
        within("--requests", self.requests, 0, REQUESTS_MAX)
        within("--timeout-factor", self.timeout_factor, FACTOR_LEAST, FACTOR_MOST)
        within("--seed", self.seed, 0, 2**63 - 1)

    @property
    def timeout(self) -> Duration:
        """The time-out, tau."""
        return Duration(round(self.timeout_factor * ROUND_TRIP))

    @property
    def edge_bound(self) -> float | None:
        """Round trips within which every edge is legal on a tree that stands.

        >>> ArrowOptions().edge_bound, ArrowOptions(timeout_factor=1).edge_bound
        (5.0, None)
        """
        return 3 + self.timeout_factor if self.timeout_factor >= FACTOR_SAFE else None


def corruption_of(text: str) -> tuple[Corruption, ...]:
    """Reads kinds of corruption, by commas; `none` is none.

    >>> [one.value for one in corruption_of("finds,arrows,finds")], corruption_of("none")
    (['arrows', 'finds'], ())
    >>> corruption_of("moon")
    Traceback (most recent call last):
    snowmelt.core.errors.BadOption: --corrupt is 'moon'; allowed: arrows, finds, observers, tree
    """
    if text == "none":
        return ()
    words = [one_of("--corrupt", Corruption, word) for word in text.split(",")]
    return tuple(kind for kind in Corruption if kind in words)
