"""The figures for a reader."""

from itertools import groupby

from benchmarks.fifo.table import spelled
from benchmarks.pool_peers_parts.bars import Bar
from benchmarks.pool_peers_parts.peer import Peer
from benchmarks.pool_peers_parts.peers import AT_LEAST_ONCE, OURS, OURS_AT_MOST_ONCE
from benchmarks.pool_peers_parts.row import Row, ratio
from rich.console import Console
from rich.table import Table

WIDTH = 118


def show(rows: list[Row], peers: list[Peer], bars: list[Bar]) -> None:
    """Prints who took part, a table for each cell, and the bars."""
    console = Console()
    console.width = max(console.width, WIDTH)
    legend = Table("peer", "version", "delivery; where objects wait", title="Queues, in one run")
    for peer in peers:
        legend.add_row(peer.name, peer.version, peer.promise)
    console.print(legend)
    for cell, found in groupby(rows, key=lambda row: row.cell):
        console.print(figures(str(cell), list(found)))
    console.print(
        "Medians of the rounds. x: how many times this row's first figure Snowmelt's is.\n"
        "Above the line: delivered at least once. Below: gone when got.",
    )
    for bar in bars:
        console.print(str(bar), markup=False, style="" if bar.reached else "red")


def figures(title: str, rows: list[Row]) -> Table:
    why = "\n".join(f"{row.peer}: {row.error}" for row in rows if row.error)
    table = Table(title=title, caption=why or None)
    table.add_column("peer", min_width=16)
    names = next((list(row.figures) for row in rows if row.figures), [])
    for name in names:
        table.add_column(name.replace("_per_", "/").replace("_", " "), justify="right")
    ours = [row for name in (OURS, OURS_AT_MOST_ONCE) for row in rows if row.peer == name]
    for one in ours:
        table.add_column(f"x {one.peer}", justify="right")
    for row, following in zip(rows, [*rows[1:], None], strict=True):
        values = [row.figures.get(name) for name in names] + [ratio(one, row) for one in ours]
        last = row.peer in AT_LEAST_ONCE and following and following.peer not in AT_LEAST_ONCE
        cells = ["failed"] if row.error else list(map(spelled, values))
        table.add_row(row.peer, *cells, end_section=bool(last))
    return table
