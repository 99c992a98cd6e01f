"""What one peer did in one kind of work, over all rounds, and how two of them compare."""

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.peers.comparison import Figures, Goal, Work


@dataclass
class Row:
    """A figure is the median of the rounds; there is none when a round failed."""

    work: Work
    peer: str
    above: bool = True
    turns: list[Figures] = field(default_factory=list)
    error: str = ""

    @property
    def figures(self) -> dict[str, float]:
        """The medians, by their names."""
        if self.error or not self.turns:
            return {}
        return {name: statistics.median(self.each(name)) for name in self.turns[0]}

    def each(self, figure: str = "") -> list[float]:
        """A figure of each round; the first if none is named. None where it has no such one."""
        if self.error or not self.turns:
            return []
        name = figure or next(iter(self.turns[0]))
        return [one[name] for one in self.turns if name in one]

    def as_json(self) -> dict[str, Any]:
        """This row as JSON has it."""
        said: dict[str, Any] = {"work": self.work.name, "peer": self.peer}
        if self.error:
            return said | {"error": self.error}
        figures = {name: round(value, 3) for name, value in self.figures.items()}
        return said | figures | {"by_round": [round(one, 3) for one in self.each()]}


def ratio(one: Row | None, other: Row | None, figure: str = "") -> float | None:
    """How many times the other's figure the one's is: the median of the rounds' ratios."""
    if one is None or other is None or not one.turns or not other.turns:
        return None
    name = figure or next(iter(one.turns[0]))
    pairs = list(zip(one.each(name), other.each(name), strict=False))
    found = [mine / theirs for mine, theirs in pairs if theirs]
    return statistics.median(found) if found else None


@dataclass(frozen=True)
class Bar:
    """One goal, and how far it is reached."""

    name: str
    ratio: float
    wanted: str = ""
    """Such as ">= 2"; empty where nothing is."""
    reached: bool = True

    def __str__(self) -> str:
        if not self.wanted:
            return f"{self.name}: {self.ratio:.2f}"
        verdict = "reached" if self.reached else "MISSED"
        return f"{self.name}: {self.ratio:.2f} (wanted {self.wanted}): {verdict}"


def bars(goals: Sequence[Goal], rows: Sequence[Row]) -> Iterator[Bar]:
    """All goals that these rows can say something about."""
    found = {(row.work.name, row.peer): row for row in rows}
    for goal in goals:
        for work in goal.works:
            ours = found.get((work, goal.ours))
            rivals = (goal.ours,) if goal.beside else goal.rivals
            ratios = {
                name: value
                for name in rivals
                if (value := ratio(ours, found.get((goal.beside or work, name)), goal.figure))
            }
            if ratios:
                yield judged(goal, work, ratios)


def judged(goal: Goal, work: str, against: dict[str, float]) -> Bar:
    """Beside the rival that does best there."""
    best = max if goal.at_most is not None else min
    rival = best(against, key=against.__getitem__)
    value = against[rival]
    figure = f" {goal.figure}" if goal.figure else ""
    where = f"{work} / {goal.beside}" if goal.beside else work
    name = f"{where},{figure} {goal.ours}" + ("" if goal.beside else f" / {rival}")
    if goal.at_most is not None:
        return Bar(name, value, f"<= {goal.at_most:g}", value <= goal.at_most)
    if goal.at_least is not None:
        return Bar(name, value, f">= {goal.at_least:g}", value >= goal.at_least)
    return Bar(name, value)
