"""The figures for a reader."""

from itertools import groupby

from benchmarks.baton_peers_parts.peer import Peer
from benchmarks.baton_peers_parts.peers import OURS, RIVALS
from benchmarks.baton_peers_parts.row import Row, ratio
from benchmarks.fifo.table import spelled
from benchmarks.pool_peers_parts.bars import Bar
from rich.console import Console
from rich.table import Table

WIDTH = 134
COLUMNS = {
    "hand-over": "hand_over_p50_us",
    "mean": "hand_over_mean_us",
    "p99": "hand_over_p99_us",
    "a second": "hand_overs_per_second",
    "free": "free_p50_us",
    "grants": "grants_per_second",
    "least": "turns_least",
    "most": "turns_most",
    "messages": "messages_per_hand_over",
}


def show(rows: list[Row], peers: list[Peer], bars: list[Bar]) -> None:
    """Prints who took part, a table for each cell, and the bars."""
    console = Console()
    console.width = max(console.width, WIDTH)
    legend = Table("peer", "version", "who is next; one who dies; the disk", title="Locks")
    for peer in peers:
        legend.add_row(peer.name, peer.version, peer.promise)
    console.print(legend)
    for cell, found in groupby(rows, key=lambda row: row.cell):
        console.print(figures(str(cell), list(found)))
    console.print(
        "Medians of the rounds, milliseconds. hand-over: from one's first release to another's\n"
        "grant, median; free: from any release to the next grant, whoever gets it. grants: all in\n"
        "a second, to the same waiter again too. least, most: turns of a waiter in the window.\n"
        "messages: for each hand-over. x: how many times this row's hand-over Snowmelt's is.\n"
        "Below the line: beside the comparison.",
    )
    for bar in bars:
        console.print(str(bar), markup=False, style="" if bar.reached else "red")


def figures(title: str, rows: list[Row]) -> Table:
    why = "\n".join(f"{row.peer}: {row.error}" for row in rows if row.error)
    table = Table(title=title, caption=why or None)
    table.add_column("peer", min_width=16)
    ours = [row for name in OURS for row in rows if row.peer == name]
    for head in [*COLUMNS, *(f"x {row.peer}" for row in ours)]:
        table.add_column(head, justify="right")
    compared = {*OURS, *RIVALS}
    for row, following in zip(rows, [*rows[1:], None], strict=True):
        last = row.peer in compared and following and following.peer not in compared
        table.add_row(row.peer, *cells(row, ours), end_section=bool(last))
    return table


def cells(row: Row, ours: list[Row]) -> list[str]:
    """What stands in the row."""
    if not row.figures:
        return ["failed"]
    values = [
        row.figures[name] / 1000 if name.endswith("_us") else row.figures[name]
        for name in COLUMNS.values()
    ]
    return [spelled(value) for value in [*values, *(ratio(one, row) for one in ours)]]
