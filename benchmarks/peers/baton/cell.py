"""What is measured: how many want the lock, and how long each holds it."""

from dataclasses import dataclass
from typing import Final

PROCESSES: Final = 4
"""At most two for each core of a small machine; the waiters are threads of these."""


@dataclass(frozen=True)
class Cell:
    """One thing measured."""

    waiters: int
    hold: float = 0.0
    """Seconds from the grant to the release."""

    @property
    def name(self) -> str:
        """What it is called on the command line."""
        return f"{self.family}-{self.waiters}"

    @property
    def family(self) -> str:
        """All cells that differ from this one in their waiters only."""
        return "held" if self.hold else "now"

    @property
    def shares(self) -> list[int]:
        """How many of the waiters each process has."""
        processes = min(PROCESSES, self.waiters)
        return [
            self.waiters // processes + (number < self.waiters % processes)
            for number in range(processes)
        ]

    def __str__(self) -> str:
        held = f"held for {self.hold * 1000:g} ms" if self.hold else "given on at once"
        return f"{self.waiters} waiters, {held}"


WAITERS: Final = (2, 4, 8, 16, 32)
HOLD: Final = 0.005

CELLS: Final = (
    *(Cell(waiters) for waiters in WAITERS),
    *(Cell(waiters, HOLD) for waiters in WAITERS),
)
