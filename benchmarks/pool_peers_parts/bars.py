"""What the pool is measured against: so many times Redis, and ten pairs beside one."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from benchmarks.pool_peers_parts.peers import (
    BESIDE,
    BROKERS,
    OURS,
    OURS_AT_MOST_ONCE,
    OURS_LOOPED,
    RIVALS,
)
from benchmarks.pool_peers_parts.row import Row, ratio

FASTER: Final = {"large-1": 2.0, "large-2": 2.0, "small-1": 5.0}
"""At least so many times as many objects as Redis."""
LOOPED: Final = {"large-1": 8.0}
"""A loop: at least so many times as many as the best broker."""
QUICKER: Final = "hand-over"
"""There it is a time, at most that of Redis."""
MORE: Final = {"large-10": "large-1", "small-10": "small-1"}
"""Ten pairs move more than one."""

Rows = dict[tuple[str, str], Row]
"""By cell and peer."""


@dataclass(frozen=True)
class Bar:
    """One comparison, and how high it is to be."""

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


def bars(rows: list[Row]) -> Iterator[Bar]:
    """All comparisons that these rows allow."""
    found = {(row.cell.name, row.peer): row for row in rows}
    for cell, least in FASTER.items():
        if (pair := against_best(found, cell, min)) is not None:
            yield Bar(f"{cell}, {OURS} / {pair[0]}", pair[1], f">= {least:g}", pair[1] >= least)
    for cell, least in LOOPED.items():
        if (pair := against_best(found, cell, min, OURS_LOOPED, BROKERS)) is not None:
            yield Bar(
                f"{cell}, {OURS_LOOPED} / {pair[0]}", pair[1], f">= {least:g}", pair[1] >= least
            )
    if (pair := against_best(found, QUICKER, max)) is not None:
        yield Bar(f"{QUICKER}, {OURS} / {pair[0]}, median", pair[1], "<= 1", pair[1] <= 1)
    for many, one in MORE.items():
        for ours in (OURS, OURS_AT_MOST_ONCE):
            value = compared(found.get((many, ours)), found.get((one, ours)))
            if value is not None:
                yield Bar(f"{many} / {one}, {ours}", value, "> 1", value > 1)
    for ours, other in BESIDE:
        for cell in (*FASTER, QUICKER):
            value = compared(found.get((cell, ours)), found.get((cell, other)))
            if value is not None:
                yield Bar(f"{cell}, {ours} / {other}", value)


def against_best(
    found: Rows,
    cell: str,
    best: Callable[..., str],
    ours: str = OURS,
    rivals: Sequence[str] = RIVALS,
) -> tuple[str, float] | None:
    """The rival that does best there, and our ratio to it."""
    ratios = {
        rival: value
        for rival in rivals
        if (value := compared(found.get((cell, ours)), found.get((cell, rival)))) is not None
    }
    if not ratios:
        return None
    rival = best(ratios, key=ratios.__getitem__)
    return rival, ratios[rival]


def compared(one: Row | None, other: Row | None) -> float | None:
    """How many times the other's the one's figure is, when both are there."""
    return None if one is None or other is None else ratio(one, other)
