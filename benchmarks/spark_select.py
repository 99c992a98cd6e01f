"""The exact k-th of a column of longs, found in several ways in one run that holds them together.

- `snowmelt`: `snowmelt_lab.spark.quantiles`.
- `gk_select`: GK Select ("A Quick and Exact Method for Distributed Quantile Computation", Cao,
  Saloni and Harrison, arXiv 2511.12025), built from what its abstract says, since we know no code
  of its authors: a Greenwald-Khanna sketch (Spark's `approx_percentile`, accuracy 10,000) gives a
  pivot; one scan counts what is less and equal; the rank is so many places away from the pivot;
  each partition gives the nearest values on that side, no more than that number (numpy's partition,
  in linear time, by Arrow); a tree reduces them to the nearest of all. All ranks share each scan.
- `sort`: `orderBy` into a sink that throws away. It finds nothing; whoever looks needs more.
- `sort_look`: `orderBy`, `zipWithIndex`, and the rows at the ranks.
- `percentile`, `approx_quantile`: Spark's own. They answer in doubles, so the check is whether they
  are as near as doubles can be; `percentile` is asked at ranks where it need not interpolate.

Longs are hashes, in Parquet. Each way has a Spark of its own (two cores, `--memory`), is warmed by
a small table, and does all sizes, each with k in the middle and then with ten quantiles at once. It
is stopped after `--limit` seconds; what it had done by then counts. Times are of the clock, and of
all processors together (Java with its compiler and collector, and Python), which says more on a
machine where others work.
"""

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from rich.console import Console
from rich.table import Table

from snowmelt.spark import session
from snowmelt_lab.spark import quantiles

WARM = 20_000
ACCURACY = 10_000
QUESTIONS = {"middle": [0.5], "ten": [place / 100 for place in range(5, 100, 10)]}
Values = list[Any]


def ranks_of(rows: int, shares: list[float]) -> list[int]:
    return [max(1, math.ceil(Fraction(repr(share)) * rows)) for share in shares]


# --- the ways ---


def snowmelt(frame: DataFrame, rows: int, shares: list[float]) -> Values:
    found = quantiles(frame, "x", q=shares)
    assert found.count == rows
    print(json.dumps({"scans": found.scans, "brought": found.brought, "held": found.held}))
    return list(found)


def sort(frame: DataFrame, rows: int, shares: list[float]) -> Values:  # noqa: ARG001
    frame.orderBy("x").write.format("noop").mode("overwrite").save()
    return []


def sort_look(frame: DataFrame, rows: int, shares: list[float]) -> Values:
    places = [rank - 1 for rank in ranks_of(rows, shares)]
    found = frame.orderBy("x").zipWithIndex("place").where(F.col("place").isin(places)).collect()
    return [row["x"] for row in sorted(found, key=lambda row: row["place"])]


def percentile(frame: DataFrame, rows: int, shares: list[float]) -> Values:
    """Between n values there are n-1 steps: at these shares it meets a value, or nearly."""
    steps = [(rank - 1) / (rows - 1) for rank in ranks_of(rows, shares)]
    return list(frame.agg(F.percentile("x", steps)).collect()[0][0])


def approx_quantile(frame: DataFrame, rows: int, shares: list[float]) -> Values:  # noqa: ARG001
    return frame.approxQuantile("x", shares, 0.0)


def gk_select(frame: DataFrame, rows: int, shares: list[float]) -> Values:
    pivots = frame.agg(F.percentile_approx("x", shares, ACCURACY)).collect()[0][0]
    counts = [F.count_if(F.col("x") < pivot) for pivot in pivots]
    counts += [F.count_if(F.col("x") == pivot) for pivot in pivots]
    told = list(frame.agg(*counts).collect()[0])
    asks = []
    for rank, pivot, less, equal in zip(
        ranks_of(rows, shares), pivots, told[: len(pivots)], told[len(pivots) :], strict=True
    ):
        asks.append((pivot, less - rank + 1 if rank <= less else min(0, less + equal - rank)))
    parts = frame.select("x").mapInArrow(lambda batches: extracted(batches, asks), PART)
    near = parts.rdd.map(lambda row: {row.ask: np.frombuffer(row.near, np.int64)}).treeReduce(
        lambda one, other: merged(one, other, asks)
    )
    return [
        pivot if not away else int(near[ask].min() if away > 0 else near[ask].max())
        for ask, (pivot, away) in enumerate(asks)
    ]


PART = "ask int, near binary"
Asks = list[tuple[int, int]]
"""A pivot, and how many places below it the rank is; above it, less than 0."""
Near = dict[int, np.ndarray]


def nearest(values: np.ndarray, away: int) -> np.ndarray:
    """The greatest of those below the pivot, or the least of those above it."""
    if len(values) <= abs(away):
        return values
    return np.partition(values, -away)[-away:] if away > 0 else np.partition(values, -away)[:-away]


def extracted(batches: Iterator[pa.RecordBatch], asks: Asks) -> Iterator[pa.RecordBatch]:
    near = [np.empty(0, np.int64) for _ in asks]
    for batch in batches:
        values = batch.column(0).to_numpy(zero_copy_only=False)
        for ask, (pivot, away) in enumerate(asks):
            if away:
                side = values[values < pivot] if away > 0 else values[values > pivot]
                near[ask] = np.concatenate([near[ask], side])
                if len(near[ask]) > 8 * abs(away) + 100_000:
                    near[ask] = nearest(near[ask], away)
    kept = [nearest(values, away) for values, (_, away) in zip(near, asks, strict=True)]
    yield pa.RecordBatch.from_arrays(
        [pa.array(range(len(asks)), pa.int32()), pa.array([one.tobytes() for one in kept])],
        names=["ask", "near"],
    )


def merged(one: Near, other: Near, asks: Asks) -> Near:
    both = dict(one)
    for ask, values in other.items():
        all_ = np.concatenate([one[ask], values]) if ask in one else values
        both[ask] = nearest(all_, asks[ask][1])
    return both


WAYS: dict[str, Callable[[DataFrame, int, list[float]], Values]] = {
    "snowmelt": snowmelt,
    "gk_select": gk_select,
    "sort": sort,
    "sort_look": sort_look,
    "percentile": percentile,
    "approx_quantile": approx_quantile,
}
ONCE = {"sort": "middle", "sort_look": "ten"}
"""What would cost the same for both questions is asked one."""

# --- one way, in a process of its own ---


def processor_seconds() -> float:
    """Of this process and all under it, ended ones too."""
    parents: dict[int, int] = {}
    times: dict[int, int] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:  # it has ended meanwhile
                continue
            parents[int(folder.name)] = int(fields[1])
            times[int(folder.name)] = sum(int(one) for one in fields[11:15])
    own = {os.getpid()}
    while more := {one for one, parent in parents.items() if parent in own} - own:
        own |= more
    return sum(times.get(one, 0) for one in own) / os.sysconf("SC_CLK_TCK")


def do(way: str, sizes: list[int], folder: Path, memory: str) -> None:
    """Prints a line for each size and question, as soon as it is known."""
    conf = {"spark.driver.memory": memory, "spark.local.dir": str(folder / "spark")}
    conf["spark.driver.extraJavaOptions"] = "-XX:+ExitOnOutOfMemoryError"
    spark = session("ranks", master="local[2]", **conf)
    for size in (WARM, WARM, *sizes):
        frame = spark.read.parquet(str(folder / f"longs-{size}"))
        for question, shares in QUESTIONS.items():
            if ONCE.get(way, question) != question:
                continue
            begin, used = time.perf_counter(), processor_seconds()
            found = WAYS[way](frame, size, shares)
            taken, used = time.perf_counter() - begin, processor_seconds() - used
            if size != WARM:
                line = {"way": way, "rows": size, "question": question, "values": found}
                times = {"seconds": round(taken, 3), "processor": round(used, 2)}
                print(json.dumps(line | times), flush=True)


def write(sizes: list[int], folder: Path) -> None:
    """The tables, once; partitions of Parquet as a lake would have them."""
    spark = session("ranks", master="local[2]", **{"spark.local.dir": str(folder / "spark")})
    for size in (WARM, *sizes):
        there = folder / f"longs-{size}"
        if not there.exists():
            files = max(2, size // 6_250_000)
            longs = spark.range(0, size, numPartitions=files).select(F.xxhash64("id").alias("x"))
            longs.write.parquet(str(there))


# --- all of them ---


def lines_of(way: str, options: argparse.Namespace, folder: Path) -> list[dict[str, Any]]:
    """What one way did before it ended or was ended."""
    command = [sys.executable, __file__, "--do", way, "--folder", str(folder)]
    command += ["--memory", options.memory, "--sizes", *map(str, options.sizes)]
    with (folder / f"{way}.out").open("w+") as out:
        process = subprocess.Popen(command, stdout=out, start_new_session=True)
        try:
            process.wait(options.limit)
        except subprocess.TimeoutExpired:
            print(f"{way}: stopped after {options.limit} s", file=sys.stderr)
        finally:
            end(process)
        out.seek(0)
        return [json.loads(line) for line in out if line.startswith("{")]


def end(process: subprocess.Popen[bytes]) -> None:
    """The process and its Java."""
    if process.poll() is None or Path(f"/proc/{process.pid}").exists():
        os.killpg(process.pid, 9)
    process.wait()


def checked(rows: list[dict[str, Any]]) -> None:
    """Exact answers are equal; those in doubles are as near as a double can be."""
    for row in rows:
        for other in rows:
            same = (row["rows"], row["question"]) == (other["rows"], other["question"])
            if not same or row["way"] != "snowmelt" or not other["values"]:
                continue
            pairs = list(zip(row["values"], other["values"], strict=True))
            row["checked"] = [*row.get("checked", []), other["way"]]
            if other["way"] in ("snowmelt", "gk_select", "sort_look"):
                assert all(ours == theirs for ours, theirs in pairs), (row, other)
            else:
                assert all(abs(ours - theirs) <= 1e-6 * 2**63 for ours, theirs in pairs), other


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 1_000_000, 10_000_000])
    parser.add_argument("--ways", nargs="+", default=list(WAYS), choices=WAYS)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--limit", type=float, default=900.0, help="seconds for a way's sizes")
    parser.add_argument("--memory", default="3g", help="of Spark's Java")
    parser.add_argument("--folder", type=Path, help="for tables, which are kept; else none is")
    parser.add_argument("--do", choices=WAYS, help=argparse.SUPPRESS)
    parser.add_argument("--write", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.do:
        do(options.do, options.sizes, options.folder, options.memory)
    elif options.write:
        write(options.sizes, options.folder)
    else:
        with tempfile.TemporaryDirectory(prefix="snowmelt-bench-") as name:
            tell(compare(options, options.folder or Path(name)), as_json=options.json)


def compare(options: argparse.Namespace, folder: Path) -> list[dict[str, Any]]:
    sizes = ["--sizes", *map(str, options.sizes)]
    writing = [sys.executable, __file__, "--write", "--folder", str(folder), *sizes]
    subprocess.run(writing, check=True, stdout=subprocess.DEVNULL)
    rows: list[dict[str, Any]] = []
    for number in range(options.rounds):
        for way in options.ways:
            cost: dict[str, Any] = {}
            for line in lines_of(way, options, folder):
                if "way" in line:
                    rows.append({**line, **cost, "round": number})
                cost = line if "way" not in line else {}
    checked(rows)
    return rows


def tell(rows: list[dict[str, Any]], *, as_json: bool) -> None:
    if as_json:
        print(json.dumps({"benchmark": "spark_select", "rows": rows}))
        return
    names = ("rows", "question", "way", "seconds", "processor", "scans", "brought", "held")
    table = Table(*names)
    for row in sorted(rows, key=lambda row: (row["rows"], row["question"])):
        table.add_row(*(str(row.get(name, "")) for name in names))
    Console(width=150).print(table)


if __name__ == "__main__":
    main()
