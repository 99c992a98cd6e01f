"""What each process writes down as it goes, and what is read of it when it is dead.

Every line is one write to the file's end, so a process that is killed has written all that it has
seen, but for a last line that may be torn. All times are of the machine's monotonic clock.
"""

from collections.abc import Iterable, Iterator
from enum import Enum
from pathlib import Path

import msgspec

from snowmelt_world.storms import journals


class PoolStep(Enum):
    """What is written down."""

    STARTED = "started"
    FORKED = "forked"
    """A child did what it may, and nothing else."""
    # a producer's
    INTENT = "intent"
    """A put begins."""
    KEPT = "kept"
    REFUSED = "refused"
    """The put ended, and these are not in the pool."""
    LEFT = "left"
    """It leaves; `ids` are how many objects it had then, and how many were on loan."""
    STOCK = "stock"
    """`ids` are how many objects it has, how many are on loan, and how many bytes it keeps."""
    # a consumer's
    ASKED = "asked"
    """A get begins."""
    EMPTY = "empty"
    """It ended with nothing."""
    GOT = "got"
    DAMAGED = "damaged"
    BACK = "back"
    """These are given back."""
    ACKING = "acking"
    """An acknowledgement begins."""
    ACKED = "acked"
    LATE = "late"
    """It was refused: they were taken back before."""
    UNKNOWN = "unknown"
    """It may have been heard."""


class PoolLine(msgspec.Struct, frozen=True, array_like=True):
    """One line of a journal."""

    at: int
    what: PoolStep
    ids: tuple[int, ...] = ()


class PoolJournal(journals.Journal):
    """What one process writes down."""

    def write(self, what: PoolStep, ids: Iterable[int] = ()) -> None:
        """Writes a line, now."""
        self.add(PoolLine(journals.now(), what, tuple(ids)))


def read(path: Path) -> Iterator[PoolLine]:
    """All lines that were written as a whole; none when it was killed before its first."""
    return journals.read(path, PoolLine)
