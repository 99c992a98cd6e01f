"""`snowmelt lab sweep` and `snowmelt lab figures`: many experiments, on Spark or here."""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from snowmelt.cli.local import end_on_sigterm
from snowmelt.cli.tables import listing
from snowmelt.core.errors import BadOption
from snowmelt_lab.pool import grid as grids
from snowmelt_lab.pool.options import PoolOptions
from snowmelt_world.cli.spark import on_spark
from snowmelt_world.work import Crew, in_turn

HERE: Final = "none"
WAVES_PER_CORE: Final = 4
"""So many runs of each worker make a wave: few enough to lose little, enough to be even."""
WIDTH_OF_PIPES: Final = 200
NUMBERS: Final = (2, 3, 4, 5, 6, 7, 8, 9)
MEASURES: Final = {
    "throughput": "throughput",
    "wait_mean": "wait",
    "wait_ci95": "±",
    "model_wait_mean": "model's",
    "hops_mean": "probes",
    "producer_blocked": "held up",
    "messages_per_object": "messages",
}
"""What a person is shown of each point, and under which heading."""

Out = Annotated[Path, typer.Option(help="A folder for the results; runs that are there stay.")]
Master = Annotated[str, typer.Option(help="Spark's master; none is this process, without Spark.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Row = dict[str, Any]


def sweep(
    grid: Annotated[Path, typer.Argument(help="A TOML file: options, each a value or a list.")],
    out: Out,
    master: Master = "local[2]",
    as_json: AsJson = False,
) -> None:
    """Run every point of a grid of pools, simulated and by the model, and keep all results."""
    wanted = grids.read(grid)
    rows = _swept(wanted.points, out, master)
    from snowmelt_lab.pool.keep import write_rows

    write_rows(out / "results.csv", rows)
    if as_json:
        print(json.dumps({"grid": str(grid), "points": rows}))
        return
    _print_rows(f"{len(rows)} points, in {out}", wanted.varied, rows)


def figures(
    out: Out,
    only: Annotated[str, typer.Option(help="Some of 2 to 9, by commas.")] = "",
    master: Master = "local[2]",
    objects: Annotated[int, typer.Option(help="Objects of a run at most.")] = 1_000_000,
    half_width: Annotated[
        float, typer.Option(help="A run ends earlier when its interval is no wider; 0 never.")
    ] = 0.02,
    seed: Annotated[int, typer.Option(help="The same seed, the same dice.")] = 1,
) -> None:
    """Figures 2 to 9 of Johnson's paper, again: simulated, computed, drawn."""
    numbers = _numbers(only)
    common = PoolOptions(objects=objects, half_width=half_width, seed=seed)
    from snowmelt_lab.pool.figures.paper import Paper
    from snowmelt_lab.pool.figures.picture import draw  # noqa: F401

    begin = time.perf_counter()
    chosen = [one for one in Paper(common, seed).figures() if one.number in numbers]
    points = list(dict.fromkeys(point for one in chosen for point in one.points))
    rows = _swept(points, out, master)
    from snowmelt_lab.pool.figures.export import export
    from snowmelt_lab.pool.figures.results import Results

    results = Results(zip(points, rows, strict=True))
    about = {"seed": seed, "objects": objects, "half_width": half_width, "runs": len(points)}
    export(chosen, results, out, **about)
    took = time.perf_counter() - begin
    named = ", ".join(str(one.number) for one in chosen)
    print(f"figures {named} of {len(points)} runs in {out}, after {took:.0f} s")


def _numbers(text: str) -> list[int]:
    try:
        numbers = [int(word) for word in text.split(",")] if text else list(NUMBERS)
    except ValueError:
        numbers = []
    if not numbers or any(number not in NUMBERS for number in numbers):
        raise BadOption("--only", text, "some of 2 to 9, by commas")
    return numbers


def _swept(points: Sequence[PoolOptions], out: Path, master: str) -> list[Row]:
    """The rows of all points, with a bar on a terminal."""
    end_on_sigterm()
    from snowmelt_lab.pool.sweep import sweep as swept

    with ExitStack() as stack:
        crew, wave = stack.enter_context(_workers(master))
        shown = stack.enter_context(_bar(len(dict.fromkeys(points))))
        return swept(points, out, crew, wave=wave, shown=shown)


@contextmanager
def _workers(master: str) -> Iterator[tuple[Crew, int]]:
    """Who does the work, and how much of it makes a wave."""
    if master == HERE:
        yield in_turn, WAVES_PER_CORE
        return
    with on_spark(master, "snowmelt lab", option="--master", also="none, ") as session:
        from snowmelt.spark.where import at_once
        from snowmelt_world.spread import spread

        yield spread(session), WAVES_PER_CORE * at_once(session)


@contextmanager
def _bar(total: int) -> Iterator[Callable[[int], None]]:
    """Progress on a terminal, and silence in a pipe."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(
        *columns,
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    ) as progress:
        task = progress.add_task("Runs", total=total)
        yield lambda count: progress.update(task, advance=count)


def _print_rows(title: str, varied: Sequence[str], rows: Sequence[Row]) -> None:
    shown = dict(zip(varied, varied, strict=True)) | {"load": "load"} | MEASURES
    table = listing(tuple(shown.values()), title=title)
    for row in rows:
        table.add_row(*(_cell(row.get(name)) for name in shown))
    console = Console()
    if not console.is_terminal:
        console.width = WIDTH_OF_PIPES
    console.print(table)


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
