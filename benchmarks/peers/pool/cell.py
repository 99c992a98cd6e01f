"""What is measured: how large the objects are, how many a call carries, and who moves them."""

from dataclasses import dataclass
from typing import Any, Final

from benchmarks.peers.fifo.cell import spelled

LARGE: Final = 1_000_000
SMALL: Final = 100
BATCH: Final = 1_000
BOUND_CALLS: Final = 32
"""So many calls' worth of objects may wait for each producer, the same for every peer."""


@dataclass(frozen=True)
class Cell:
    """One thing measured."""

    name: str
    size: int
    """Of an object, in bytes."""
    batch: int
    """Objects a call."""
    pairs: int
    """So many producers, and as many consumers."""
    hand_over: bool = False
    """Whether it is the time of one object that counts, and not how many pass in a second."""

    @property
    def bound_each(self) -> int:
        """How many objects of one producer may wait."""
        return BOUND_CALLS * self.batch

    @property
    def bound(self) -> int:
        """How many of all together."""
        return self.bound_each * self.pairs

    def fits(self, peer: Any) -> bool:
        """Whether the peer does it."""
        return self.batch > 1 or not peer.batches_only

    def __str__(self) -> str:
        if self.hand_over:
            return f"{spelled(self.size)}, from put() to get(), the consumer waits"
        calls = "" if self.batch == 1 else f" in batches of {self.batch:,}"
        return f"{spelled(self.size)}{calls}, {self.pairs} + {self.pairs} processes"


CELLS: Final = (
    Cell("large-1", LARGE, 1, 1),
    Cell("large-2", LARGE, 1, 2),
    Cell("large-10", LARGE, 1, 10),
    Cell("small-1", SMALL, BATCH, 1),
    Cell("small-10", SMALL, BATCH, 10),
    Cell("hand-over", SMALL, 1, 1, hand_over=True),
)
