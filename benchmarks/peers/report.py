"""The figures for a reader, and as JSON."""

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Any, Final

from benchmarks.peers import cores
from benchmarks.peers.comparison import DISK, Comparison, Peer
from benchmarks.peers.rows import Bar, Row, ratio
from rich.console import Console
from rich.table import Table

WIDTH: Final = 132
QUIET_RATIO: Final = 1.5
QUIET_LOAD: Final = 0.3


@dataclass(frozen=True)
class Found:
    """All of a run."""

    comparison: Comparison
    peers: Sequence[Peer]
    missing: dict[str, str]
    rows: Sequence[Row]
    bars: Sequence[Bar]
    rounds: int
    seconds: float
    load: float
    """How many cores other programs kept busy in the minute before."""

    @property
    def quiet(self) -> str:
        """Whether other work on the machine can be seen."""
        said = f"Other programs kept {self.load:.1f} cores busy in the minute before."
        noisy = self.load > QUIET_LOAD
        rates = [rate for row in self.rows if row.peer == DISK for rate in row.each()]
        if rates:
            said += f" The disk alone: {min(rates):,.0f} to {max(rates):,.0f} flushes a second."
            noisy |= max(rates) > QUIET_RATIO * min(rates)
        return f"{said} The machine was not quiet; run it again when it is." if noisy else said

    def as_json(self) -> dict[str, Any]:
        """All of it."""
        by = {(row.work.name, row.peer): row for row in self.rows}
        lines = []
        for row in self.rows:
            ratios = {one: ratio(by.get((row.work.name, one)), row) for one in self.comparison.ours}
            times = {one: round(value, 3) for one, value in ratios.items() if value is not None}
            lines.append(row.as_json() | ({"times_this": times} if times else {}))
        return {
            "benchmark": self.comparison.name,
            "rounds": self.rounds,
            "seconds": self.seconds,
            "cores": {"client": cores.CLIENT, "servers": cores.SERVER, "all": os.cpu_count()},
            "load_before": round(self.load, 2),
            "quiet": self.quiet,
            "peers": {
                peer.name: {"version": peer.service.version, "promise": peer.promise}
                for peer in self.peers
            },
            "missing": self.missing,
            "bars": [asdict(bar) | {"ratio": round(bar.ratio, 3)} for bar in self.bars],
            "rows": lines,
        }

    def show(self) -> None:
        """Prints a table for each kind of work; who took part, and who did not; the goals."""
        console = Console()
        console.width = max(console.width, WIDTH)
        for work, found in groupby(self.rows, key=lambda row: row.work):
            console.print(figures(self.comparison, str(work), list(found)))
        console.print(self._legend())
        spread = " Spread: the first figure's least and most of the rounds."
        console.print(self.comparison.notes + (spread if self.rounds > 1 else ""), markup=False)
        for bar in self.bars:
            console.print(str(bar), markup=False, style="" if bar.reached else "red")
        console.print(f"Rounds: {self.rounds}. {self.quiet}")

    def _legend(self) -> Table:
        table = Table("peer", "version", self.comparison.legend, title="Who took part")
        for peer in self.peers:
            table.add_row(peer.name, peer.service.version, peer.promise)
        for name, why in self.missing.items():
            table.add_row(name, "not here", why, style="yellow")
        return table


def figures(comparison: Comparison, title: str, rows: list[Row]) -> Table:
    """One kind of work."""
    why = "\n".join(f"{row.peer}: {row.error}" for row in rows if row.error)
    table = Table(title=title, caption=why or None)
    table.add_column("peer", min_width=17)
    known = {name for row in rows for name in row.figures}
    columns = {head: name for head, name in comparison.columns.items() if name in known}
    ours = [row for name in comparison.ours for row in rows if row.peer == name and row.figures]
    several = any(len(row.turns) > 1 for row in rows)
    for head in (*columns, *(("spread",) if several else ())):
        table.add_column(head, justify="right")
    for one in ours:
        table.add_column(f"x {one.peer.removeprefix('snowmelt-')}", justify="right")
    for row, following in zip(rows, [*rows[1:], None], strict=True):
        cells = ["failed"]
        if not row.error:
            cells = [spelled(row.figures.get(name)) for name in columns.values()]
            cells += ["{} to {}".format(*map(spelled, spread(row)))] if several else []
            cells += [spelled(ratio(one, row)) for one in ours]
        last = following is not None and row.above and not following.above
        table.add_row(row.peer, *cells, end_section=last)
    return table


def spread(row: Row) -> tuple[float, float]:
    """The least and the most of the figure that it is compared by."""
    return min(row.each()), max(row.each())


def spelled(value: float | None) -> str:
    """Three digits that matter, or all before the point.

    >>> spelled(12345.6), spelled(12.345), spelled(0.01234), spelled(None)
    ('12,346', '12.3', '0.0123', '')
    """
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 100 or value == 0 else f"{value:#.3g}"
