"""What a thousand queues cost a Spark stream, beside one: a trigger of a source, a write of a sink.

The source: micro-batches of a thousand rows, one from each queue, or all from one. Also with rows
in one of the queues only, for most queues are idle most of the time. The sink: a thousand rows,
one for each queue by a column, or all for one. One queue and many take turns.
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

import snowmelt
from snowmelt.cli.local import LocalCluster, end_on_sigterm
from snowmelt.spark import session

SECONDS = 120
PHASES = ("latestOffset", "queryPlanning", "addBatch", "triggerExecution")


def names(prefix: str, queues: int) -> list[str]:
    return [f"{prefix}{number:04}" for number in range(queues)]


class Source:
    """A stream of some queues into nothing; each trigger is a batch of what was put before it."""

    def __init__(self, spark: SparkSession, cluster: snowmelt.Cluster, url: str, queues: int):
        self._queues = [cluster.fifo(name) for name in names(f"from{queues}.", queues)]
        self._spark = spark
        self._url = url
        self._seen: set[int] = set()
        """The batches of earlier triggers."""
        for queue in self._queues:
            queue.put(b"first")

    @contextmanager
    def running(self, folder: Path) -> Iterator[Any]:
        rows = self._spark.readStream.format("snowmelt").options(
            url=self._url, queues=",".join(queue.name for queue in self._queues), group="bench"
        )
        written = rows.load().writeStream.format("noop").trigger(processingTime="0 seconds")
        query = written.option("checkpointLocation", str(folder)).start()
        try:
            yield query
        finally:
            query.stop()

    def trigger(self, query: Any, filled: int, rows: int) -> dict[str, float]:
        """Puts so many rows into so many of the queues; seconds of the batch that has most."""
        for queue in self._queues[:filled]:
            queue.put_many([b"x" * 100] * (rows // filled))
        fresh: list[Any] = []
        end = time.monotonic() + SECONDS
        while sum(one["numInputRows"] for one in fresh) < rows:
            assert time.monotonic() < end, "a trigger's rows did not come"
            query.processAllAvailable()
            time.sleep(0.05)  # a batch is reported after it is over
            told = {one["batchId"]: one for one in query.recentProgress if one["numInputRows"]}
            fresh = [told[batch] for batch in told if batch not in self._seen]
        self._seen.update(one["batchId"] for one in fresh)
        largest = max(fresh, key=lambda one: one["numInputRows"])
        return {phase: largest["durationMs"].get(phase, 0) / 1e3 for phase in PHASES}


def sink_seconds(spark: SparkSession, url: str, queues: int, rows: int, folder: Path) -> float:
    """Seconds of one write of rows that go in turn into so many queues."""
    made = spark.range(rows, numPartitions=2).selectExpr(
        "cast(id as string) as value", f"format_string('into{queues}.%04d', id % {queues}) as queue"
    )
    del folder
    begin = time.perf_counter()
    made.write.format("snowmelt").option("url", url).mode("append").save()
    return time.perf_counter() - begin


def medians(found: list[dict[str, float]]) -> dict[str, float]:
    return {phase: statistics.median(one[phase] for one in found) for phase in found[0]}


def measured(
    spark: SparkSession, cluster: snowmelt.Cluster, url: str, most: int, rounds: int, folder: Path
) -> dict[str, Any]:
    one, many = (Source(spark, cluster, url, count) for count in (1, most))
    found: dict[str, list[dict[str, float]]] = {"one": [], "many": [], "one of many": []}
    with one.running(folder / "one") as first, many.running(folder / "many") as second:
        for number in range(rounds + 2):
            ways = (
                ("one", one.trigger(first, 1, most)),
                ("many", many.trigger(second, most, most)),
                ("one of many", many.trigger(second, 1, most)),
            )
            if number >= 2:  # warm by then
                for name, seconds in ways:
                    found[name].append(seconds)
    sinks: dict[int, list[float]] = {1: [], most: []}
    for number in range(rounds + 1):
        for count, seconds in sinks.items():
            took = sink_seconds(spark, url, count, most, folder)
            if number:
                seconds.append(took)
    told: dict[str, Any] = {name: medians(some) for name, some in found.items()}
    told["sink one"], told["sink many"] = map(statistics.median, sinks.values())
    told["ratio"] = told["many"]["triggerExecution"] / told["one"]["triggerExecution"]
    return told


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--queues", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--nodes", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    end_on_sigterm()
    with (
        tempfile.TemporaryDirectory() as folder,
        LocalCluster(options.nodes, Path(folder) / "nodes", 0.5) as nodes,
    ):
        nodes.start()
        spark = session("many queues", master="local[2]")
        with snowmelt.connect(nodes.url) as cluster:
            told = measured(spark, cluster, nodes.url, options.queues, options.rounds, Path(folder))
        spark.stop()
    if options.json:
        print(json.dumps(told))
        return
    table = Table("", "", *PHASES, box=None)
    for name in ("one", "many", "one of many"):
        table.add_row("source", name, *(f"{told[name][phase]:.3f}" for phase in PHASES))
    table.add_row("sink", "one", "", "", "", f"{told['sink one']:.3f}")
    table.add_row("sink", "many", "", "", "", f"{told['sink many']:.3f}")
    Console().print(table)
    print(f"a trigger of many queues takes {told['ratio']:.2f} of one of one queue")


if __name__ == "__main__":
    main()
