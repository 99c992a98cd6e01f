"""One run: sessions of more and more executors on one cluster, and what their batches took."""

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from statistics import median
from typing import Final

import msgspec
import numpy as np
from benchmarks.spark_rates_parts.spending import since, spent
from benchmarks.spark_scaling_parts.model import (
    ROLES,
    THOUSAND,
    Point,
    fitted,
    forecast,
    lasting,
    seconds_of,
    whole_cores,
)
from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table
from ufmulti.feed import as_batch
from ufmulti.generate import generate
from ufmulti.pipeline import RAW, TRACKS, through
from ufmulti.reconstruct import reconstruct_bodies

import snowmelt
from snowmelt.cli.local import LocalCluster, end_on_sigterm
from snowmelt.spark import session
from snowmelt.spark.reader_function import ReaderFunction
from snowmelt.spark.session import quiet_settings, register_inside
from snowmelt.spark.shipping import ship
from snowmelt_world.shares import Shares, Unbounded
from snowmelt_world.standalone import Standalone

ROOT: Final = Path(__file__).resolve().parents[2]
FREE: Final = 4.0
"""The share of what only starts."""
WARM_EVENTS: Final = 500
WAYS: Final = ("clock", "processor")
AT_ONCE: Final = 2000
WORK: Final = partial(through, reconstruct_bodies)
"""The stage that is measured, as the pipeline has it: within the source's read."""


class Machines:
    """Spark's cluster and ours, and sessions of any number of executors on them."""

    def __init__(self, spark: Standalone, url: str, shares: Shares, folder: Path) -> None:
        self._spark = spark
        self._url = url
        self._shares = shares
        self._folder = folder
        self._numbers = count(1)
        self._bound(FREE)

    @contextmanager
    def session(self, executors: int) -> Iterator[SparkSession]:
        """A session once all its executors are there."""
        self._bound(FREE)
        settings = {
            **quiet_settings(executors),
            "spark.cores.max": str(executors),
            "spark.executor.memory": "512m",
            "spark.scheduler.minRegisteredResourcesRatio": "1.0",
            "spark.scheduler.maxRegisteredResourcesWaitingTime": "120s",
        }
        made = session("scaling", master=self._spark.url, **settings)
        try:
            yield made
        finally:
            made.stop()

    def measured(
        self, spark: SparkSession, executors: int, events: int, batches: int, share: float
    ) -> Point:
        """So many micro-batches, after some small ones for which nothing is bounded."""
        self._bound(FREE)
        self._run(spark, executors, WARM_EVENTS, 3)
        self._bound(share)
        before = spent()
        taken = self._run(spark, executors, events, batches)
        seconds = since(before)
        each = {role: round(seconds.get(role, 0.0) / batches, 4) for role in ROLES}
        return Point(executors, events, round(median(taken), 3), each)

    def _run(self, spark: SparkSession, executors: int, events: int, batches: int) -> list[float]:
        """Seconds of each micro-batch."""
        number = next(self._numbers)
        with snowmelt.connect(self._url) as cluster:
            fill(cluster.fifo(f"{RAW}{number}"), executors * events * batches)
        here = {"url": self._url, "queue": f"{RAW}{number}", "cores": str(executors)}
        form = register_inside(spark, "scaling", ReaderFunction.of(WORK, "value binary"))
        rows = spark.readStream.format(form).options(**here, minPartitions=str(executors))
        writer = (
            rows.option("maxMessagesPerTrigger", executors * events)
            .load()
            .writeStream.format("snowmelt")
            .options(url=self._url, queue=f"{TRACKS}{number}")
            .option("checkpointLocation", str(self._folder / f"checkpoint{number}"))
        )
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        ended = [one for one in query.recentProgress if one.numInputRows]
        assert sum(one.numInputRows for one in ended) == executors * events * batches
        return [one.durationMs["triggerExecution"] / 1000 for one in ended]

    def _bound(self, share: float) -> None:
        for worker in self._spark.workers:
            self._shares.bound(worker.process.pid, share)


def fill(queue: snowmelt.Fifo, events: int) -> None:
    """Raw events, of which the same come again and again."""
    made = as_batch(generate(0, min(events, AT_ONCE), 1))
    for start in range(0, events, AT_ONCE):
        some = min(AT_ONCE, events - start)
        queue.put_many(made if some == len(made) else as_batch(generate(0, some, 1)))


def draw(points: list[Point], share: float, by: str, file: Path) -> None:
    """Events a second by executors: measured, fitted, and as if nothing but work took time."""
    import matplotlib as mpl  # noqa: PLC0415  # only for a picture

    mpl.use("Agg")
    from matplotlib import pyplot as plt  # noqa: PLC0415

    start, each, event = lasting(points, [seconds_of(one, share, by) for one in points])
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    for color, events in zip(("C0", "C1"), sorted({one.events for one in points}), strict=False):
        some = [one for one in points if one.events == events]
        at = np.geomspace(1, max(one.executors for one in some), 50)
        left.plot(at, at * events / (start + each * at + event * events), color=color, lw=1)
        left.plot(at, at / event, color="0.7", lw=1, ls=":")
        left.plot(
            [one.executors for one in some],
            [one.executors * one.events / seconds_of(one, share, by) for one in some],
            "o",
            color=color,
            label=f"{events:,} events a batch for each",
        )
    left.set(xlabel=f"executors with {share:g} of a core", ylabel="events a second")
    left.set(xscale="log", yscale="log", xticks=[1, 2, 4, 8], xticklabels=["1", "2", "4", "8"])
    left.tick_params(axis="x", which="minor", bottom=False, labelbottom=False)
    left.yaxis.set_major_formatter("{x:,.0f}")
    left.yaxis.set_minor_formatter("")
    left.plot([], [], color="0.7", lw=1, ls=":", label="if nothing but work took time")
    left.legend(frameon=False, fontsize=8)
    at = np.geomspace(1, 2000, 100)
    start, each, _ = whole_cores(points)
    for seconds in (2, 5, 20, 60):
        over = start + each * at
        right.plot(at, 100 * seconds / (seconds + over), label=f"batches of {seconds} s of work")
    right.set(xlabel="executors with a whole core", ylabel="% of the time at work", xscale="log")
    right.set(ylim=(0, 101))
    right.axvline(THOUSAND, color="0.7", lw=1)
    right.legend(frameon=False, fontsize=8)
    figure.savefig(file, dpi=110)


def show(points: list[Point], share: float) -> None:
    console = Console(width=150)
    table = Table("executors", "events each", "batch (s)", "events/s", *ROLES)
    for one in points:
        rate = one.executors * one.events / one.seconds
        cells = [f"{one.executors}", f"{one.events:,}", f"{one.seconds:.2f}", f"{rate:,.0f}"]
        table.add_row(*cells, *(f"{one.processor[role]:.3f}" for role in ROLES))
    console.print(table)
    fits = Table("a micro-batch takes", "start (ms)", "an executor (ms)", "a million events (s)")
    for which in WAYS:
        seconds = [seconds_of(one, share, which) for one in points]
        fits.add_row(f"lasts, by {which}", *_cells(lasting(points, seconds)))
    for role in ROLES:
        fits.add_row(role, *_cells(fitted(points, [one.processor[role] for one in points])))
    fits.add_row("lasts, with whole cores", *_cells(whole_cores(points)))
    console.print(fits)
    for work in (5.0, 20.0, 60.0):
        console.print(f"a thousand cores: {forecast(points, work)}")


def _cells(fit: Sequence[float]) -> list[str]:
    return [f"{1000 * fit[0]:.1f}", f"{1000 * fit[1]:.2f}", f"{1e6 * fit[2]:.2f}"]


def main(description: str) -> int:
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--executors", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--events", type=int, nargs="+", default=[2000, 8000])
    parser.add_argument("--batches", type=int, default=4)
    parser.add_argument("--share", type=float, default=0.1, help="of a core, for each executor")
    parser.add_argument("--plot", type=Path, help="where to draw what came of it")
    parser.add_argument(
        "--by", choices=WAYS, default="clock", help="what a batch's time is told by"
    )
    parser.add_argument("--points", type=Path, help="a result of --json: draw and tell that again")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    end_on_sigterm()
    try:
        points = read(options.points) if options.points else run(options)
    except Unbounded as error:
        raise SystemExit(f"spark_scaling: {error}") from None
    if options.plot:
        draw(points, options.share, options.by, options.plot)
    if options.json:
        rows = [msgspec.to_builtins(one) for one in points]
        told = [forecast(points, work) for work in (5.0, 20.0, 60.0)]
        print(json.dumps({"benchmark": "spark_scaling", "rows": rows, "forecast": told}))
    else:
        show(points, options.share)
    return 0


def read(file: Path) -> list[Point]:
    """What an earlier run measured."""
    return msgspec.convert(json.loads(file.read_text())["rows"], list[Point])


def run(options: argparse.Namespace) -> list[Point]:
    shares = Shares(f"snowmelt-scaling-{os.getpid()}")
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    environment = {**os.environ, "PYTHONPATH": path}
    ship([through])
    points: list[Point] = []
    with tempfile.TemporaryDirectory(prefix="snowmelt-bench-") as name:
        folder = Path(name)
        workers = Standalone(
            folder / "spark", max(options.executors), memory="600m", environment=environment
        )
        try:
            with LocalCluster(1, folder / "nodes") as nodes, workers as spark:
                nodes.start()
                machines = Machines(spark, nodes.url, shares, folder)
                for executors in options.executors:
                    with machines.session(executors) as made:
                        for events in options.events:
                            point = machines.measured(
                                made, executors, events, options.batches, options.share
                            )
                            points.append(point)
                            print(point, file=sys.stderr, flush=True)
        finally:
            shares.close()
    return points
