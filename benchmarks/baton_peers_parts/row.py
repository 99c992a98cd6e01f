"""What one peer did in one cell, over all rounds, and how two of them compare."""

import statistics
from dataclasses import dataclass, field
from typing import Any

from benchmarks.baton_peers_parts.cell import Cell
from benchmarks.baton_peers_parts.holds import Figures


@dataclass
class Row:
    """A figure is the median of the rounds; there is none when a round failed."""

    cell: Cell
    peer: str
    turns: list[Figures] = field(default_factory=list)
    error: str = ""

    @property
    def figures(self) -> dict[str, float]:
        """The medians, by their names."""
        if self.error or not self.turns:
            return {}
        return {name: statistics.median(one[name] for one in self.turns) for name in self.turns[0]}

    def each(self, figure: str) -> list[float]:
        """One figure of each round."""
        return [] if self.error else [one[figure] for one in self.turns]

    def told(self) -> dict[str, Any]:
        """This row as JSON has it."""
        told = {"cell": self.cell.name, "peer": self.peer}
        if self.error:
            return told | {"error": self.error}
        figures = {name: round(value, 2) for name, value in self.figures.items()}
        return told | figures | {"by_round": [round(one, 1) for one in self.each(HAND_OVER)]}


HAND_OVER = "hand_over_p50_us"


def ratio(one: Row, other: Row, figure: str = HAND_OVER) -> float | None:
    """How many times the other's figure the one's is: the median of the rounds' ratios."""
    pairs = list(zip(one.each(figure), other.each(figure), strict=False))
    return statistics.median(mine / theirs for mine, theirs in pairs) if pairs else None
