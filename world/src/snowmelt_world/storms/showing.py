"""What a person sees of a run: a bar while it lasts, and a table of what came of it."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

if TYPE_CHECKING:
    from snowmelt_world.storms.run import StormResult


class Showing:
    """Lines and a bar on standard error, so that the result alone is on standard output."""

    def __init__(self) -> None:
        self._console = Console(stderr=True)

    def say(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    @contextmanager
    def bar(self, seconds: float) -> Iterator[Callable[[str], None]]:
        """For about so long; what is called in it gets what is done just now."""
        columns = BarColumn(), TimeRemainingColumn(), TextColumn("{task.fields[on]}")
        hidden = not self._console.is_terminal
        begin = time.monotonic()
        with Progress(*columns, console=self._console, transient=True, disable=hidden) as progress:
            task = progress.add_task("storm", total=seconds, on="")
            yield lambda on: progress.update(task, completed=time.monotonic() - begin, on=on)


def show(result: "StormResult") -> None:
    """The verdict, then each promise, then what was counted."""
    title = (
        f"{result.kind}: {result.nodes} nodes, {result.clients} clients, {result.seconds:g} s, "
        f"seed {result.seed}"
    )
    table = Table(title=title)
    table.add_column("what")
    table.add_column("how much", justify="right")
    rows: dict[str, object] = {
        "verdict": result.verdict,
        "operations": result.operations,
        "faults": sum(result.faults.values()),
        "longest wait (s)": result.longest_wait_s,
        **result.properties,
        **{f"fault: {name}": count for name, count in result.faults.items()},
        "all processes at work after (s)": result.start_s,
        "all nodes up after a storm (s)": ", ".join(map(str, result.up_s)),
        **result.counted,
    }
    for name, value in rows.items():
        table.add_row(name, str(value))
    console = Console()
    console.print(table)
    for text in result.unjudged:
        console.print(f"not judged, the machine was starved: {text}", markup=False)
    for promise in result.broken:
        console.print(f"broken: {promise}", markup=False, style="red")
