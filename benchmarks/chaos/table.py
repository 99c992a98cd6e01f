"""A result as a person reads it."""

from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from benchmarks.chaos.main import Result


def show(result: "Result") -> None:
    judged = result.judgement
    table = Table(title=f"{result.nodes} nodes, {result.clients} clients, {result.seconds:g} s")
    table.add_column("what")
    table.add_column("how much", justify="right")
    rows: dict[str, object] = {
        **{f"injuries: {kind}": count for kind, count in result.injuries.items()},
        "items put": judged.put,
        "items got": judged.got,
        "lost": judged.lost,
        "delivered after acknowledgement": judged.revived,
        "in the queue twice": judged.doubled,
        "never put": judged.unexpected,
        "delivered again": judged.redelivered,
        "puts of unknown outcome in the end": judged.unknown_puts,
        "gets of unknown outcome": judged.unknown_gets,
        "acknowledgements of unknown outcome": judged.unknown_acks,
        "items a second, put and acknowledged": judged.items_per_second,
        "longest time without any put (s)": judged.longest_put_stall,
        "longest time without any get (s)": judged.longest_get_stall,
        "longest put, all tries (s)": judged.longest_put,
        "enough was well for (s)": result.well.well,
        "longest put meanwhile (s)": result.well.longest_put,
        "longest time without any put meanwhile (s)": result.well.longest_stall,
        "all nodes up at first (s)": result.start_seconds,
        "all nodes up after the last injury (s)": result.up_seconds,
        "emptied in (s)": result.drain_seconds,
        "memory of the largest node (MiB)": result.memory.largest_node,
        "memory of all nodes (MiB)": result.memory.all_nodes,
    }
    rows |= {f"calls: {name}": count for name, count in judged.attempts.items()}
    for name, value in rows.items():
        table.add_row(name, str(value))
    console = Console()
    console.print(table)
    for verdict in judged.verdicts:
        console.print(verdict, markup=False)
    for promise in result.broken:
        console.print(f"broken: {promise}", markup=False, style="red")
