"""A result as a person reads it."""

from typing import TYPE_CHECKING

import msgspec
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from benchmarks.overlay_chaos_parts.main import Result


def show(result: "Result") -> None:
    judged = result.judgement
    title = f"{result.nodes} nodes, {result.clients} clients, {result.seconds:g} s"
    table = Table(title=title)
    table.add_column("what")
    table.add_column("how much", justify="right")
    rows: dict[str, object] = {f"done: {kind}": count for kind, count in result.done.items()}
    for name, value in msgspec.structs.asdict(judged).items():
        if name not in ("verdicts", "broken"):
            rows[name.replace("_", " ")] = value
    rows |= {
        "all nodes up at first (s)": result.start_seconds,
        "all nodes up after the last injury (s)": result.up_seconds,
        "emptied in (s)": result.drain_seconds,
    }
    for name, value in rows.items():
        table.add_row(name, str(value))
    console = Console()
    console.print(table)
    for verdict in judged.verdicts:
        console.print(verdict, markup=False)
    for promise in result.broken:
        console.print(f"broken: {promise}", markup=False, style="red")
