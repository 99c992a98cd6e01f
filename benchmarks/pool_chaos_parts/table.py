"""A result as a person reads it."""

from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from benchmarks.pool_chaos_parts.main import Result


def show(result: "Result") -> None:
    judged = result.judgement
    title = f"{result.producers} producers, {result.consumers} consumers, {result.seconds:g} s"
    table = Table(title=title)
    table.add_column("what")
    table.add_column("how much", justify="right")
    rows: dict[str, object] = dict(result.done)
    rows |= {
        "objects put": judged.put,
        "puts refused": judged.put_refused,
        "objects acknowledged": judged.acknowledged,
        "of them, when the load was over": judged.drained,
        "gone with producers that were killed": judged.set_apart,
        "perhaps acknowledged by the killed": judged.uncertain,
        "lost": judged.lost,
        "delivered after acknowledgement": judged.doubled,
        "never put": judged.foreign,
        "delivered though refused": judged.undone,
        "damaged": judged.damaged,
        "delivered again": judged.redelivered,
        "acknowledgements refused": judged.late_acks,
        "acknowledgements of unknown outcome": judged.unknown_acks,
        "children that left all alone": judged.forks,
        "still with producers in the end": judged.left_behind,
        "objects a second": result.objects_per_second,
        "longest idle beside a full producer (s)": judged.idle.seconds,
        "allowed (s)": result.idle_most,
        "puts lasted, all together (s)": judged.full_seconds,
        "gets lasted, all together (s)": judged.idle_seconds,
        "all processes at work after (s)": result.start_seconds,
        "drained in (s)": result.drain_seconds,
    }
    for name, value in rows.items():
        table.add_row(name, str(value))
    console = Console()
    console.print(table)
    for text in judged.unjudged:
        console.print(f"not judged, the machine was starved: {text}", markup=False)
    for promise in result.broken:
        console.print(f"broken: {promise}", markup=False, style="red")
