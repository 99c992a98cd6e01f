"""How long an item takes through a Spark stream from queue to queue, when nothing else is there.

One item at a time is put into a queue, and awaited in the other: the floor of a micro-batch. Where
that time goes is told by Spark's own progress reports. Beside it, the same item through the two
queues with a plain Python loop in Spark's place.
"""

import argparse
import json
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

import snowmelt
from snowmelt.cli.local import LocalCluster
from snowmelt.client.fifo.face import Fifo
from snowmelt.core.errors import Empty
from snowmelt.spark import session

WARM = 5
PHASES = ("latestOffset", "walCommit", "queryPlanning", "getBatch", "addBatch", "commitOffsets")


def round_trips(put: Fifo, taken: Fifo, items: int) -> list[float]:
    """Seconds from before the put to the answer of the get, for each item in turn."""
    times = []
    for number in range(WARM + items):
        begin = time.perf_counter()
        put.put(b"%d" % number)
        with taken.get(timeout=60):
            times.append(time.perf_counter() - begin)
        time.sleep(0.05)  # the stream is idle again
    return times[WARM:]


@contextmanager
def streamed(spark: SparkSession, url: str, folder: Path, trigger: str) -> Iterator[Any]:
    where = {"url": url, "checkpointLocation": str(folder)}
    query = (
        spark.readStream.format("snowmelt")
        .options(url=url, queue="in")
        .load()
        .select("value")
        .writeStream.format("snowmelt")
        .options(**where, queue="out")
        .trigger(processingTime=trigger)
        .start()
    )
    try:
        yield query
    finally:
        query.stop()


@contextmanager
def looped(url: str) -> Iterator[None]:
    """What the stream does, by a thread."""
    over = threading.Event()

    def work() -> None:
        with snowmelt.connect(url) as cluster:
            source, sink = cluster.fifo("plain-in"), cluster.fifo("plain-out")
            while not over.is_set():
                try:
                    with source.get(timeout=0.5) as item:
                        sink.put(item.body)
                except Empty:
                    continue

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def summary(name: str, times: list[float]) -> dict[str, Any]:
    ordered = sorted(times)
    return {
        "way": name,
        "items": len(ordered),
        "p50_ms": round(1e3 * statistics.median(ordered), 1),
        "p95_ms": round(1e3 * ordered[int(0.95 * len(ordered))], 1),
        "least_ms": round(1e3 * ordered[0], 1),
    }


def phases(query: Any) -> dict[str, float]:
    """The median of each part of the micro-batches that had an item."""
    busy = [one.durationMs for one in query.recentProgress if one.numInputRows]
    return {
        name: statistics.median(each[name] for each in busy if name in each)
        for name in (*PHASES, "triggerExecution")
        if any(name in each for each in busy)
    }


def measure(items: int) -> dict[str, Any]:
    spark = session("latency", master="local[2]")
    with (
        tempfile.TemporaryDirectory(prefix="snowmelt-bench-") as name,
        LocalCluster(1, Path(name) / "nodes") as cluster,
    ):
        cluster.start()
        with snowmelt.connect(cluster.url) as connection:
            for queue in ("in", "out", "plain-in", "plain-out"):
                connection.fifo(queue).put(b"")
                connection.fifo(queue).get().ack()
            with streamed(spark, cluster.url, Path(name, "checkpoint"), "0 seconds") as query:
                times = round_trips(connection.fifo("in"), connection.fifo("out"), items)
                parts = phases(query)
            with looped(cluster.url):
                plain = round_trips(
                    connection.fifo("plain-in"), connection.fifo("plain-out"), items
                )
    spark.stop()
    rows = [summary("Spark stream", times), summary("plain loop", plain)]
    return {"benchmark": "spark_latency", "rows": rows, "micro_batch_ms": parts}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--items", type=int, default=60)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    measured = measure(options.items)
    if options.json:
        print(json.dumps(measured))
        return
    table = Table(*measured["rows"][0])
    for row in measured["rows"]:
        table.add_row(*map(str, row.values()))
    console = Console(width=120)
    console.print(table)
    parts = "  ".join(f"{name} {value:.0f}" for name, value in measured["micro_batch_ms"].items())
    console.print(f"of a micro-batch, ms: {parts}")


if __name__ == "__main__":
    main()
