"""What one peer did in one cell, over all rounds."""

import statistics
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from benchmarks.fifo.cell import Cell
from benchmarks.fifo.load import Phase, Turn

DISK = "disk"


@dataclass
class Row:
    """Figures are medians of the rounds; they are None when a round failed or has no such phase."""

    cell: Cell
    peer: str
    flushes_first: bool = True
    turns: list[Turn] = field(default_factory=list)
    error: str = ""

    @property
    def items_a_call(self) -> int:
        return 1 if self.peer == DISK else self.cell.batch

    @property
    def put_rate(self) -> float | None:
        """Items a second."""
        return self._median(lambda turn: self._rate(turn.put))

    @property
    def put_rates(self) -> list[float]:
        """Of each round."""
        return [rate for turn in self.turns if (rate := self._rate(turn.put)) is not None]

    @property
    def take_rate(self) -> float | None:
        return self._median(lambda turn: self._rate(turn.take))

    @property
    def both_rate(self) -> float | None:
        """Items a second that go all the way: put, then taken."""
        return self._median(self.through)

    def latency(self, phase: str, percentile: str) -> float | None:
        """Milliseconds a call: `put` or `take`, `p50` or `p99`."""

        def of(turn: Turn) -> float | None:
            calls = getattr(turn, phase)
            return None if calls is None else getattr(calls, percentile) * 1000

        return self._median(of)

    def ratio(self, other: "Row") -> float | None:
        """How many times this peer's rate the other's is: both together, round by round."""
        if self.error or other.error or self.both_rate is None:
            return None
        pairs = zip(map(other.through, other.turns), map(self.through, self.turns), strict=True)
        return statistics.median(theirs / own for theirs, own in pairs if theirs and own)

    def through(self, turn: Turn) -> float | None:
        if turn.take is None:
            return None
        return turn.put.calls * self.items_a_call / (turn.put.seconds + turn.take.seconds)

    def told(self) -> dict[str, Any]:
        """This row as JSON has it."""
        told: dict[str, Any] = {
            "size": self.cell.size,
            "batch": self.cell.batch,
            "lanes": self.cell.lanes,
            "tasks": self.cell.tasks,
            "peer": self.peer,
        }
        if self.error:
            return told | {"error": self.error}
        for name in ("put_rate", "take_rate", "both_rate"):
            rate = getattr(self, name)
            told[name.replace("rate", "per_second")] = None if rate is None else round(rate, 1)
        for phase in ("put", "take"):
            for percentile in ("p50", "p99"):
                taken = self.latency(phase, percentile)
                told[f"{phase}_{percentile}_ms"] = None if taken is None else round(taken, 3)
        if self.peer == DISK:
            return told | {"put_per_second_by_round": [round(rate) for rate in self.put_rates]}
        rates = [self.through(turn) for turn in self.turns]
        return told | {"both_per_second_by_round": [round(rate) for rate in rates if rate]}

    def _rate(self, calls: Phase | None) -> float | None:
        return None if calls is None else calls.calls * self.items_a_call / calls.seconds

    def _median(self, figure: Callable[[Turn], float | None]) -> float | None:
        found = [value for value in map(figure, self.turns) if value is not None]
        return None if self.error or not found else statistics.median(found)
