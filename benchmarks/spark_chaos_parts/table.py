"""Rounds and a result as a person reads them."""

from typing import TYPE_CHECKING

from benchmarks.spark_chaos_parts.storm import Round
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from benchmarks.spark_chaos_parts.main import Result


def line(made: Round) -> str:
    """One round."""
    when = "while it began" if made.ready is None else f"ready after {made.ready:.1f} s"
    parts = [
        f"{made.number:3}: {made.kind} killed, {when}, {made.batches} batches",
        *([f"and {made.node}"] if made.node else []),
        f"found {made.moment}",
        *([f"{made.replayed} rows read again"] if made.replayed is not None else []),
        *(["its commit is forgotten"] if made.forgotten else []),
        *([f"beside another from {made.twin}"] if made.twin else []),
        *(f"refused: {words[:160]}" for words in made.refused),
        *([f"{made.lost_log} put back by {made.put_back}"] if made.put_back else []),
        *([f"it ended with {made.words[:200]}"] if made.words else []),
    ]
    return "; ".join(parts)


def show(result: "Result") -> None:
    judged = result.judgement
    table = Table(title=f"a stream killed {result.rounds} times, seed {result.seed}")
    table.add_column("what")
    table.add_column("how much", justify="right")
    rows: dict[str, object] = {
        "seconds": result.seconds,
        "micro-batches between the kills": result.batches,
        "killed before the first of them": result.early,
        "from a start to the first of them (s)": result.ready_seconds,
        "read again, with the same rows": f"{result.replays}, {result.replayed_rows} rows",
        "done again on purpose": result.forgotten,
        "checkpoint put back": result.put_back,
        "two programs at once": result.twins,
        "refused, and gone on from what was newer": len(result.refused),
        "ended by themselves": len(result.died),
    }
    rows |= {f"killed: {name}": count for name, count in result.kills.items()}
    rows |= {f"found: {name}": count for name, count in result.moments.items()}
    if judged is not None:
        rows |= {
            "items put": judged.put,
            "items that came out": judged.came_out,
            "lost": judged.lost,
            "doubled": judged.doubled,
            "foreign": judged.foreign,
            "out of order": judged.out_of_order,
            "left staged": judged.staged,
        }
    for name, value in rows.items():
        table.add_row(name, str(value))
    console = Console()
    console.print(table)
    for words in result.died:
        console.print(words, markup=False, highlight=False)
    for promise in result.broken:
        console.print(f"broken: {promise}", markup=False, style="red")
