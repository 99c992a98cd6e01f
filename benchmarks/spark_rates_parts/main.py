"""One run: all cases, round after round, and what they came to beside each other."""

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any, Final

import msgspec
from benchmarks.spark_rates_parts.cases import CASES, Bench
from benchmarks.spark_rates_parts.spending import since, spent
from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

import snowmelt
from snowmelt.cli.local import LocalCluster, end_on_sigterm
from snowmelt.spark import session
from snowmelt.spark.session import quiet_settings
from snowmelt_world.standalone import Standalone

ROOT: Final = Path(__file__).parents[2]
WORKERS: Final = 2
WARM_ROWS: Final = 200_000
PARTS: Final = (
    "parquet",
    "apart",
    "memory",
    "queues",
    "through",
    "one",
    "twenty",
    "kernel",
    "ufmulti",
)


class Bar(msgspec.Struct, frozen=True):
    """What a case is held against: another one, or a number."""

    case: str
    beside: str
    least: float
    fixed: float = 0.0

    @property
    def name(self) -> str:
        """As it is called in the results."""
        return f"{self.case}_to_{self.beside}"


BEFORE: Final = 4900.0
"""Events a second of the toy tracker before batches were cut by cores and grew."""
BARS: Final = (
    Bar("queues", "parquet", 0.7),
    Bar("queues", "apart", 0.9),
    Bar("through", "apart", 0.5),
    Bar("queues", "memory", 0.0),
    Bar("through", "memory", 0.0),
    Bar("twenty", "one", 0.5),
    Bar("ufmulti", "before", 3.0, BEFORE),
    Bar("ufmulti", "kernel", 0.6),
    Bar("snapshot", "memory", 0.0),
    Bar("sink", "nothing", 0.0),
)


class Measured(msgspec.Struct):
    """All rounds of one case."""

    rates: list[float] = []
    seconds: dict[str, float] = {}
    """Of processors, by what spent them."""


def main(description: str) -> int:
    options = parsed(description)
    end_on_sigterm()
    with bench(options.cluster) as made:
        if options.batch_seconds:
            return tell_paces(made, options)
        measured = compared(made, options)
    row = summed(options, measured)
    if options.json:
        print(json.dumps({"benchmark": "spark_rates", "rows": [row]}))
    else:
        show(row, measured)
    return 0


def parsed(description: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--rows", type=int, default=2_000_000, help="events are a tenth of these")
    parser.add_argument("--size", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cases", nargs="+", default=PARTS, choices=CASES)
    parser.add_argument(
        "--cluster", action="store_true", help="a master and two workers, started here, do the work"
    )
    parser.add_argument(
        "--batch-seconds", type=float, nargs="+", help="of the toy tracker's stages"
    )
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


@contextmanager
def bench(apart: bool) -> Iterator[Bench]:
    """Spark, here or on a cluster of its own, and one node."""
    with (
        tempfile.TemporaryDirectory(prefix="snowmelt-bench-") as name,
        LocalCluster(1, Path(name) / "nodes") as nodes,
        _session(Path(name) if apart else None) as spark,
    ):
        nodes.start()
        with snowmelt.connect(nodes.url) as cluster:
            yield Bench(spark, cluster, nodes.url, Path(name))


@contextmanager
def _session(apart: Path | None) -> Iterator[SparkSession]:
    if apart is None:
        spark = session("rates", master=f"local[{WORKERS}]")
        yield spark
        spark.stop()
        return
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    environment = {**os.environ, "PYTHONPATH": path}
    with Standalone(apart / "spark", WORKERS, memory="1g", environment=environment) as machines:
        spark = session("rates", master=machines.url, **quiet_settings(WORKERS))
        yield spark
        spark.stop()


def tell_paces(made: Bench, options: argparse.Namespace) -> int:
    """The toy tracker's pipeline with batches of several lengths."""
    events = options.rows // 10
    made.paced(min(events, WARM_ROWS // 10), 1.0)
    rows = []
    for seconds in options.batch_seconds:
        before = spent()
        rate, batches, usual = made.paced(events, seconds)
        used = round(sum(since(before).values()), 2)
        row = {"batch_seconds": seconds, "events_per_second": round(rate), "batches": batches}
        rows.append(row | {"median_seconds": round(usual, 2), "processor_seconds": used})
    if options.json:
        print(json.dumps({"benchmark": "spark_paces", "rows": rows}))
        return 0
    table = Table(*rows[0])
    for row in rows:
        table.add_row(*(f"{value:,}" for value in row.values()))
    Console(width=150).print(table)
    return 0


def compared(made: Bench, options: argparse.Namespace) -> dict[str, Measured]:
    """Round after round, so that what else the machine does falls upon all cases alike."""
    measured = {case: Measured() for case in options.cases}
    for case in options.cases:  # Spark compiles what it runs
        CASES[case](made, min(options.rows, WARM_ROWS), options.size)
    for _ in range(options.rounds):
        for case, one in measured.items():
            before = spent()
            one.rates.append(CASES[case](made, options.rows, options.size))
            seconds = since(before)
            for role, value in seconds.items():
                one.seconds[role] = one.seconds.get(role, 0.0) + value
            told = ", ".join(f"{role} {value:.2f} s" for role, value in seconds.items())
            print(f"{case}: {one.rates[-1]:,.1f}; {told}", file=sys.stderr, flush=True)
    return measured


def summed(options: argparse.Namespace, measured: dict[str, Measured]) -> dict[str, Any]:
    """What is told as data."""
    row: dict[str, Any] = {"rows": options.rows, "size": options.size, "cluster": options.cluster}
    rates = {case: median(one.rates) for case, one in measured.items()}
    row |= {f"{case}_per_second": round(rate, 1) for case, rate in rates.items()}
    for bar in BARS:
        beside = bar.fixed or rates.get(bar.beside)
        if bar.case in rates and beside:
            row[bar.name] = round(rates[bar.case] / beside, 3)
    return row


def show(row: dict[str, Any], measured: dict[str, Measured]) -> None:
    """The same for a person, with the processor time of each case."""
    console = Console(width=150)
    roles = sorted({role for one in measured.values() for role in one.seconds})
    table = Table("case", "a second", "rounds", *roles, title="processor seconds of all rounds")
    for case, one in measured.items():
        spread = " ".join(f"{rate:,.0f}" for rate in one.rates)
        seconds = [f"{one.seconds.get(role, 0.0):.2f}" for role in roles]
        table.add_row(case, f"{median(one.rates):,.1f}", spread, *seconds)
    console.print(table)
    bars = Table("ratio", "wanted", "reached", "")
    for bar in BARS:
        if bar.name in row:
            reached = row[bar.name]
            verdict = "" if not bar.least else "yes" if reached >= bar.least else "no"
            bars.add_row(bar.name, f"{bar.least or ''}", f"{reached}", verdict)
    console.print(bars)
