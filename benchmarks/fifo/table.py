"""The figures for a reader."""

from collections.abc import Sequence
from itertools import groupby

from benchmarks.fifo.peer import Peer
from benchmarks.fifo.peers import OURS
from benchmarks.fifo.row import DISK, Row
from rich.console import Console
from rich.table import Table

WIDTH = 132
QUIET = 1.5
PERCENTILES = [("put", "p50"), ("put", "p99"), ("take", "p50"), ("take", "p99")]


def show(rows: list[Row], peers: Sequence[Peer], names: Sequence[str] = OURS) -> None:
    """Prints who took part, and a table for each cell; `names` are the rows to compare with."""
    console = Console()
    console.width = max(console.width, WIDTH)
    console.print(legend(peers))
    for cell, found in groupby(rows, key=lambda row: row.cell):
        console.print(figures(str(cell), list(found), names))
    console.print(
        "Items a second; milliseconds a call. Both: put, then got and acknowledged. "
        "x: how many times its both/s Snowmelt's is.\n"
        "disk: 4 kB written at the end of a file and flushed (fdatasync). "
        "Above the line: flushes before it answers. Below: flushes now and then."
    )
    console.print(quiet(rows))


def quiet(rows: list[Row]) -> str:
    """Whether other work on the machine can be seen, by the one figure that should not change."""
    rates = [rate for row in rows if row.peer == DISK for rate in row.put_rates]
    said = f"The disk alone: {min(rates):,.0f} to {max(rates):,.0f} flushes a second in this run."
    if max(rates) < QUIET * min(rates):
        return said
    return f"{said} The machine was not quiet; run it again when it is."


def legend(peers: Sequence[Peer]) -> Table:
    table = Table("peer", "version", "the disk has it", title="Queues, on this machine, in one run")
    for peer in peers:
        table.add_row(peer.name, peer.version, peer.promise)
    return table


def figures(title: str, rows: list[Row], names: Sequence[str]) -> Table:
    ours = [row for name in names for row in rows if row.peer == name]
    why = "\n".join(f"{row.peer}: {row.error}" for row in rows if row.error)
    table = Table(title=title, caption=why or None)
    table.add_column("peer", min_width=17)
    heads = ["put/s", "get+ack/s", "both/s", "put p50", "p99 ms", "get p50", "p99 ms"]
    for head in heads + [f"x {row.peer.removeprefix('snowmelt-')}" for row in ours]:
        table.add_column(head, justify="right")
    for row in rows:
        if row.error:
            table.add_row(row.peer, "failed")
            continue
        rates = [row.put_rate, row.take_rate, row.both_rate]
        times = [row.latency(*which) for which in PERCENTILES]
        ratios = [row.ratio(one) for one in ours]
        table.add_row(row.peer, *map(spelled, rates + times + ratios))
        following = rows[rows.index(row) + 1 :]
        if row.flushes_first and following and not following[0].flushes_first:
            table.add_section()
    return table


def spelled(value: float | None) -> str:
    """Three digits that matter, or all before the point.

    >>> spelled(12345.6), spelled(12.345), spelled(0.01234), spelled(None)
    ('12,346', '12.3', '0.0123', '')
    """
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 100 else f"{value:#.3g}"
