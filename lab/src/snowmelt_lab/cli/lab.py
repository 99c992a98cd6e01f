"""`snowmelt lab`: the papers' experiments and models, run again."""

import json
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from math import isfinite
from pathlib import Path
from typing import Annotated, TypeVar

import msgspec
import typer
from rich.console import Console

from snowmelt.cli.commands import Commands
from snowmelt.cli.local import LocalCluster, end_on_sigterm
from snowmelt.cli.node import checked_heartbeat
from snowmelt.cli.tables import listing
from snowmelt.core.errors import BadOption
from snowmelt_lab.cli.arrow import arrow, arrow_compare
from snowmelt_lab.cli.figures import figures, sweep
from snowmelt_lab.cli.overlay import overlay
from snowmelt_lab.cli.pool import model, pool
from snowmelt_lab.cli.pool_trial import try_pool
from snowmelt_lab.cli.priority import priority
from snowmelt_lab.cli.progress import shown
from snowmelt_lab.cli.select import select
from snowmelt_lab.durability import curves
from snowmelt_lab.durability.chain import continuous_loss, difference
from snowmelt_lab.durability.paper import CLAIMS, percent
from snowmelt_lab.durability.windows import Windows, span_of
from snowmelt_lab.order import grid as order_grid
from snowmelt_lab.order.crew import Crew
from snowmelt_lab.output import PICTURES, checked_file, write_csv
from snowmelt_lab.scale import grid as scale_grid
from snowmelt_lab.scale.client import Job
from snowmelt_world.cli.spark import SPARK, crew_of
from snowmelt_world.work import in_turn

LIST_MAX = 100

Number = TypeVar("Number", int, float)

Figure = Annotated[Path | None, typer.Option(help="Draw it into this file: .png, .svg or .pdf.")]
Csv = Annotated[Path | None, typer.Option("--csv", help="Write all points into this file.")]
Seed = Annotated[int, typer.Option(help="The same seed, the same dice.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]

lab = Commands(help="The papers' experiments and models.", no_args_is_help=True)
fifo = typer.Typer(help="Experiments with the fifo queue.", no_args_is_help=True)
lab.add_typer(fifo, name="fifo")
for command in (
    pool,
    model,
    arrow,
    arrow_compare,
    overlay,
    priority,
    select,
    sweep,
    figures,
    try_pool,
):
    lab.command()(command)


@lab.command()
def durability(
    fail_per_second: Annotated[
        float, typer.Option(help="The chance that a node fails in a second, 0 to 1.")
    ] = 0.0001,
    window: Annotated[float, typer.Option(help="Seconds until what was lost is copied.")] = 20.0,
    replicas: Annotated[int, typer.Option(help="On how many nodes an item lies.")] = 3,
    hours: Annotated[float, typer.Option(help="How long the item has to last.")] = 48.0,
    trials: Annotated[int, typer.Option(help="Check by so many items acted out with dice.")] = 0,
    seed: Seed = 1,
    figure: Figure = None,
    csv: Csv = None,
    as_json: AsJson = False,
) -> None:
    """How likely an item is lost: Blizzard's model, exactly, and what its paper says of it."""
    model = Windows(fail_per_second=fail_per_second, window=window, replicas=replicas)
    span_of(hours)
    checked_file("--figure", figure, PICTURES)
    checked_file("--csv", csv)
    trial = _trial(model, hours, trials, seed) if trials else None
    if figure is not None or csv is not None:
        _keep_curves(curves.curves(model, hours), figure, csv)
    half = model.hours_until(0.5)
    if as_json:
        told = {
            "loss": model.loss(hours),
            **msgspec.structs.asdict(model),
            "hours": hours,
            "half_lost_after_hours": half if isfinite(half) else None,
            "continuous_loss": continuous_loss(model, hours),
            "difference": difference(model, hours),
            "trial": trial,
            "paper": [claim.finding() for claim in CLAIMS],
        }
        print(json.dumps(told))
        return
    print(f"lost within {hours:g} h: {percent(model.loss(hours))}", end="")
    print(f"; half are lost after {half:.4g} h" if isfinite(half) else "")
    if trial is not None:
        low, high = (percent(trial[end]) for end in ("low", "high"))
        print(f"acted out: {trial['lost']} of {trial['trials']} lost, so {low} to {high} are")
    print(f"not cut into windows: {percent(continuous_loss(model, hours))}. ", end="")
    print(difference(model, hours))
    for claim in CLAIMS:
        print(f"at {claim.model.fail_per_second * 100:g} % a second {claim.finding()}")


def _trial(model: Windows, hours: float, trials: int, seed: int) -> dict[str, float]:
    _check_seed(seed)
    from snowmelt_lab.durability.trial import tried

    return msgspec.structs.asdict(tried(model, hours, trials, seed))


def _keep_curves(drawn: list[curves.Curve], figure: Path | None, csv: Path | None) -> None:
    if csv is not None:
        write_csv(csv, curves.HEAD, curves.rows(drawn))
    if figure is not None:
        from snowmelt_lab.durability.picture import draw

        draw(drawn, figure)


@fifo.command()
def order(
    consumers: Annotated[str, typer.Option(help="Numbers of consumers, by commas.")] = "1,4,16,64",
    failures: Annotated[
        str, typer.Option(help="Chances that a dequeue fails, by commas.")
    ] = "0,0.001,0.003,0.01,0.03,0.1",
    lease: Annotated[float, typer.Option(help="Seconds until a failed lease is over.")] = 10.0,
    batch: Annotated[int, typer.Option(help="Items in a lease.")] = 1,
    work: Annotated[float, typer.Option(help="Seconds of work on an item, on average.")] = 1.0,
    waiting: Annotated[int, typer.Option(help="How many wait when one goes to the tail.")] = 1000,
    items: Annotated[int, typer.Option(help="Items in each run.")] = 20_000,
    seed: Seed = 1,
    spark: Annotated[str, SPARK] = "",
    figure: Figure = None,
    csv: Csv = None,
    as_json: AsJson = False,
) -> None:
    """How far out of order items come when dequeues fail, simulated: Blizzard's own measure."""
    counts = _numbers("--consumers", consumers, int)
    chances = _numbers("--failures", failures, float)
    crew = Crew(consumers=1, failure=0, lease=lease, batch=batch, work=work, waiting=waiting)
    _check_seed(seed)
    checked_file("--figure", figure, PICTURES)
    checked_file("--csv", csv)
    if figure is not None:
        from snowmelt_lab.order.picture import draw
    total = len(counts) * len(chances) * 2
    with crew_of(spark, "snowmelt lab", in_turn) as by:
        runs = list(shown(order_grid.runs(crew, counts, chances, items, seed, by), total))
    rows = [order_grid.row(run) for run in runs]
    if csv is not None:
        write_csv(csv, order_grid.HEAD, rows)
    if figure is not None:
        draw(runs, figure)
    if as_json:
        common = {"lease": lease, "batch": batch, "work": work, "waiting": waiting}
        named = [dict(zip(order_grid.HEAD, row, strict=True)) for row in rows]
        print(json.dumps({**common, "items": items, "seed": seed, "runs": named}))
        return
    _print_table("Mean distance from enqueue order, in places", *_order_table(runs))


def _order_table(runs: list[order_grid.Run]) -> tuple[list[str], list[list[str]]]:
    head = ["consumers", "dequeues that fail", "own place", "first order", "tail", "confirmed"]
    by_place = [[run for run in runs if run.place == place] for place in ("own place", "tail")]
    rows = [
        [
            str(own.crew.consumers),
            percent(own.crew.failure),
            *(f"{mean:.4g}" for mean in (own.delivered.mean, own.crew.expected)),
            *(f"{mean:.4g}" for mean in (tail.delivered.mean, own.confirmed.mean)),
        ]
        for own, tail in zip(*by_place, strict=True)
    ]
    return head, rows


@fifo.command()
def scale(
    nodes: Annotated[str, typer.Option(help="Numbers of nodes, by commas.")] = "6,12,24,57",
    clients: Annotated[str, typer.Option(help="Numbers of clients.")] = "1,2,4,8,16,32,64",
    operations: Annotated[int, typer.Option(help="Puts of each client, and as many gets.")] = 100,
    body_bytes: Annotated[int, typer.Option(help="Size of an item.")] = 100,
    replicas: Annotated[int, typer.Option(help="On how many nodes an item lies.")] = 3,
    heartbeat: Annotated[float, typer.Option(help="Seconds between heartbeats.")] = 3.0,
    figure: Figure = None,
    csv: Csv = None,
    as_json: AsJson = False,
) -> None:
    """How long 100 operations take, with real processes, beside a queue in one process."""
    job = Job(url="", operations=operations, body_bytes=body_bytes, replicas=replicas)
    counts = _numbers("--nodes", nodes, int), _numbers("--clients", clients, int)
    checked_heartbeat(heartbeat)
    checked_file("--figure", figure, PICTURES)
    checked_file("--csv", csv)
    if figure is not None:
        from snowmelt_lab.scale.picture import draw
    end_on_sigterm()
    measured = scale_grid.measured(_started(heartbeat), *counts, job)
    points: list[scale_grid.Point] = []
    try:
        points.extend(shown(measured, (1 + len(counts[0])) * len(counts[1])))
    finally:  # an hour's points are kept when the last one fails
        rows = [scale_grid.row(point) for point in points]
        if csv is not None:
            write_csv(csv, scale_grid.HEAD, rows)
        if figure is not None and points:
            draw(points, figure)
    if as_json:
        common = {"operations": operations, "body_bytes": body_bytes, "replicas": replicas}
        named = [dict(zip(scale_grid.HEAD, row, strict=True)) for row in rows]
        print(json.dumps({**common, "points": named}))
        return
    cells = [[str(row[0] or "plain"), *(f"{cell:.4g}" for cell in row[1:])] for row in rows]
    head = [name.replace("_", " ") for name in scale_grid.HEAD]
    _print_table(f"{operations} puts and gets for each client", head, cells)


def _started(heartbeat: float) -> scale_grid.Start:
    """How the experiment gets its nodes: real ones, on this machine, for as long as it needs."""

    @contextmanager
    def start(nodes: int) -> Iterator[str]:
        with (
            tempfile.TemporaryDirectory(prefix="snowmelt-lab-") as folder,
            LocalCluster(nodes, Path(folder), heartbeat) as cluster,
        ):
            cluster.start()
            yield cluster.url

    return start


def _numbers(option: str, text: str, kind: Callable[[str], Number]) -> list[Number]:
    try:
        found = sorted({kind(word) for word in text.split(",")})
    except ValueError:
        raise BadOption(option, text, "numbers, separated by commas") from None
    if len(found) > LIST_MAX:
        raise BadOption(option, text, f"{LIST_MAX} numbers at most")
    return found


def _check_seed(seed: int) -> None:
    if seed < 0:
        raise BadOption("--seed", seed, "0 or more")


def _print_table(title: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    table = listing(head, title=title)
    for row in rows:
        table.add_row(*row)
    Console().print(table)
