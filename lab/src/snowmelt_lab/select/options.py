"""What an experiment with KSelect can be asked for; the rest is refused here, by name."""

from enum import Enum
from typing import Final

import msgspec

from snowmelt.core.errors import BadOption
from snowmelt_lab.bounds import within
from snowmelt_lab.machines.select import Plan, PrintedPlan, RepairedPlan

NODES_MAX: Final = 100_000
AT_EASE: Final = 32
"""So many nodes are machines unless the other is asked for: they take seconds."""
ELEMENTS_MAX: Final = 20_000_000
AT_EASE_ELEMENTS: Final = 20_000


class Distribution(Enum):
    """Of priorities; and with `adversarial` of places too."""

    UNIFORM = "uniform"
    """Any of 63 bits."""
    EQUAL = "equal"
    """All the same: only ids tell elements apart."""
    ZIPF = "zipf"
    """A few priorities have most elements."""
    ADVERSARIAL = "adversarial"
    """Each node has a stretch of the order, so that no node's own order says anything."""


class Shares(Enum):
    RING = "ring"
    """As the arcs of the ring are, from next to nothing to several times the mean."""
    EVEN = "even"
    """Each node is as likely as any other: what the paper takes for granted."""


class Mode(Enum):
    REPAIRED = "repaired"
    PAPER = "paper"

    def plan(self) -> Plan:
        return PrintedPlan() if self is Mode.PAPER else RepairedPlan()


class SelectOptions(msgspec.Struct, frozen=True, kw_only=True):
    """One selection.

    >>> SelectOptions(elements=5, k=7)
    Traceback (most recent call last):
    snowmelt.core.errors.BadOption: --k is 7; allowed: 1 to 5
    >>> SelectOptions(elements=5).rank
    3
    """

    nodes: int = 100
    elements: int = 100_000
    k: int | None = None
    """Without one, the rank in the middle."""
    distribution: Distribution = Distribution.UNIFORM
    shares: Shares = Shares.RING
    mode: Mode = Mode.REPAIRED
    salt: str = "lab"
    seed: int = 1

    def __post_init__(self) -> None:
        within("--nodes", self.nodes, 1, NODES_MAX)
        within("--elements", self.elements, 1, ELEMENTS_MAX)
        within("--k", self.rank, 1, self.elements)
        if self.seed < 0:
            raise BadOption("--seed", self.seed, "0 or more")

    @property
    def rank(self) -> int:
        return (self.elements + 1) // 2 if self.k is None else self.k

    @property
    def at_ease(self) -> bool:
        """Whether machines would take no minutes."""
        return self.nodes <= AT_EASE and self.elements <= AT_EASE_ELEMENTS
