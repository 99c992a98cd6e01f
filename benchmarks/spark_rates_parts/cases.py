"""What is measured: streams of the same rows, from here to there, on one cluster."""

import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from benchmarks.spark_rates_parts.bare import Bare, batch, bodies
from benchmarks.spark_rates_parts.tracker import Tracker, kernel
from pyspark.sql import DataFrame, SparkSession

from snowmelt.client.cluster import Cluster
from snowmelt.core.batch import Batch
from snowmelt.spark.columns import source_schema
from snowmelt.spark.where import at_once

MICRO_BATCHES: Final = 4
QUEUES: Final = 4
CALL_ROWS: Final = 32_768
SMALL_ROWS: Final = 400
SMALL_BATCHES: Final = 12
MANY: Final = 20
APART: Final = "spark.sql.execution.pyspark.udf.faulthandler.enabled"
"""Spark gives what has other variables of the environment Pythons of its own; this is one."""

Options = dict[str, str]


class Bench:
    """A session of Spark, a cluster of ours, and the cases on them."""

    def __init__(self, spark: SparkSession, cluster: Cluster, url: str, folder: Path) -> None:
        self._spark = spark
        self._cluster = cluster
        self._url = url
        self._folder = folder
        self._numbers = count(1)
        self._tracker = Tracker(spark, cluster, url, folder)
        spark.dataSource.register(Bare)

    # --- streams of many rows: rows a second ------------------------------------------------------

    def parquet(self, rows: int, size: int) -> float:
        """Spark's own files, without any Python."""
        folder = self._folder / f"parquet-{rows}-{size}"
        if not folder.exists():
            folder.mkdir()
            for number in range(2 * MICRO_BATCHES):
                table = pa.Table.from_batches([batch(rows // (2 * MICRO_BATCHES), size)])
                pq.write_table(table, folder / f"{number}.parquet")
        frame = self._spark.readStream.schema(source_schema("false"))
        return self._rate(frame.option("maxFilesPerTrigger", 2).parquet(str(folder)))

    def memory(self, rows: int, size: int) -> float:
        """A source in Python that has its rows already, in the Pythons that ours are read in."""
        return self._memory(rows, size, {})

    def apart(self, rows: int, size: int) -> float:
        """The same in Pythons that have loaded nothing of ours: as Spark runs it for others."""
        self._spark.conf.set(APART, "true")
        try:
            return self._memory(rows, size, {"alone": "true"})
        finally:
            self._spark.conf.unset(APART)

    def queues(self, rows: int, size: int) -> float:
        """Four queues, acknowledged."""
        return self._rate(self._filled(rows, size, QUEUES, rows // MICRO_BATCHES))

    def through(self, rows: int, size: int) -> float:
        """Four queues into another, staged, flushed and published."""
        queue = self._cluster.fifo(f"out{next(self._numbers)}")
        frame = self._filled(rows, size, QUEUES, rows // MICRO_BATCHES).select("value")
        rate = self._rate(frame, "snowmelt", {"url": self._url, "queue": queue.name})
        assert queue.stats().ready == rows
        queue.purge()
        return rate

    # --- batches written once: rows a second ------------------------------------------------------

    def snapshot(self, rows: int, size: int) -> float:
        """A queue's rows by `spark.read`."""
        name = f"q{next(self._numbers)}"
        self._fill(name, rows, size)
        frame = self._spark.read.format("snowmelt").options(url=self._url, queue=name).load()
        rate = self._written(frame, rows, "noop", {})
        self._cluster.fifo(name).purge()
        return rate

    def nothing(self, rows: int, size: int) -> float:
        """A sink in Python that throws its rows away."""
        return self._written(self._made(rows, size), rows, "bare", {})

    def sink(self, rows: int, size: int) -> float:
        """The same rows into a queue."""
        queue = self._cluster.fifo(f"out{next(self._numbers)}")
        options = {"url": self._url, "queue": queue.name}
        rate = self._written(self._made(rows, size), rows, "snowmelt", options)
        assert queue.stats().ready == rows
        queue.purge()
        return rate

    # --- small batches: how many a second ---------------------------------------------------------

    def one(self, rows: int, size: int) -> float:  # noqa: ARG002  # as the others are called
        """Micro-batches of one queue."""
        return self._small(1, size)

    def twenty(self, rows: int, size: int) -> float:  # noqa: ARG002
        """Micro-batches of twenty queues, as many rows in all."""
        return self._small(MANY, size)

    # --- the toy tracker: events a second ---------------------------------------------------------

    def ufmulti(self, rows: int, size: int) -> float:  # noqa: ARG002
        """The pipeline, with no option given; a tenth as many events."""
        return rows // 10 / self._tracker.run(rows // 10).seconds

    def kernel(self, rows: int, size: int) -> float:  # noqa: ARG002
        """What its functions reach alone."""
        return kernel(rows // 10, at_once(self._spark))

    def paced(self, events: int, batch_seconds: float) -> tuple[float, int, float]:
        """The same with batches of another length: its rate, how many there were, the median."""
        batches = self._tracker.run(events, batch_seconds)
        first = [one.seconds for one in batches.heard if one.stage.endswith(".reconstruct")]
        return events / batches.seconds, len(first), median(first)

    # --- how --------------------------------------------------------------------------------------

    def _memory(self, rows: int, size: int, more: Options) -> float:
        options = {"rows": str(rows), "size": str(size), "most": str(rows // MICRO_BATCHES)} | more
        return self._rate(self._spark.readStream.format("bare").options(**options).load())

    def _fill(self, name: str, rows: int, size: int) -> None:
        queue, offsets = self._cluster.fifo(name), None
        for start in range(0, rows, CALL_ROWS):
            some = min(CALL_ROWS, rows - start)
            blob = memoryview(bodies(CALL_ROWS, size))[: some * size]
            offsets = Batch.of([bytes(size)] * some).offsets
            queue.put_many(Batch(offsets, blob))

    def _filled(self, rows: int, size: int, queues: int, most: int) -> DataFrame:
        """So many rows, shared by new queues, as a stream."""
        names = [f"q{next(self._numbers)}" for _ in range(queues)]
        for name in names:
            self._fill(name, rows // queues, size)
        options = {"url": self._url, "queues": ",".join(names), "maxMessagesPerTrigger": str(most)}
        return self._spark.readStream.format("snowmelt").options(**options).load()

    def _made(self, rows: int, size: int) -> DataFrame:
        body = f"rpad(cast(id as string), {size}, 'x') value"
        return self._spark.range(0, rows, 1, at_once(self._spark)).selectExpr(body)

    def _rate(self, frame: DataFrame, form: str = "noop", options: Options | None = None) -> float:
        """Rows a second of a stream's micro-batches: what comes before the first is not counted."""
        ended = self._progress(frame, form, options or {})
        millis = sum(one.durationMs["triggerExecution"] for one in ended)
        return 1000 * int(sum(one.numInputRows for one in ended)) / float(millis)

    def _small(self, queues: int, size: int) -> float:
        ended = self._progress(
            self._filled(SMALL_ROWS * SMALL_BATCHES, size, queues, SMALL_ROWS), "noop", {}
        )
        return 1000 / float(median(one.durationMs["triggerExecution"] for one in ended[2:]))

    def _progress(self, frame: DataFrame, form: str, options: Options) -> list[Any]:
        """The reports of all micro-batches of one run."""
        place = str(self._folder / f"checkpoint{next(self._numbers)}")
        writer = frame.writeStream.format(form).options(checkpointLocation=place, **options)
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        return [one for one in query.recentProgress if one.numInputRows]

    def _written(self, frame: DataFrame, rows: int, form: str, options: Options) -> float:
        begin = time.perf_counter()
        frame.write.format(form).mode("overwrite" if form == "noop" else "append").options(
            **options
        ).save()
        return rows / (time.perf_counter() - begin)


Case = Callable[[Bench, int, int], float]
CASES: Final[dict[str, Case]] = {
    "parquet": Bench.parquet,
    "apart": Bench.apart,
    "memory": Bench.memory,
    "queues": Bench.queues,
    "through": Bench.through,
    "snapshot": Bench.snapshot,
    "nothing": Bench.nothing,
    "sink": Bench.sink,
    "one": Bench.one,
    "twenty": Bench.twenty,
    "ufmulti": Bench.ufmulti,
    "kernel": Bench.kernel,
}
