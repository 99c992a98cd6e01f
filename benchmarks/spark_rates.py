"""Spark's source and sink beside ones that do nothing, measured in one run.

- `memory`: a Python data source that yields the same Arrow batches from memory; the ceiling of a
  source.
- `source`: the same rows read from a queue by `spark.read`.
- `stream`: the same by a stream that takes them in four micro-batches and acknowledges them.
- `nothing`: an Arrow writer that throws its rows away; the ceiling of a sink.
- `sink`: the same rows written into a queue, staged and published.

Spark has two cores and shares them with the node, which flushes what is put.
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    InputPartition,
    WriterCommitMessage,
)
from rich.console import Console
from rich.table import Table

import snowmelt
from snowmelt.cli.local import LocalCluster
from snowmelt.client.fifo.face import Fifo
from snowmelt.core.batch import Batch
from snowmelt.protocols.fifo.calls import Part
from snowmelt.spark import session
from snowmelt.spark.columns import readable, source_schema
from snowmelt.spark.rows import Rows

PARTITION = 65_536


class MemoryReader(DataSourceReader):
    """Yields the rows that a queue would give, in the same columns and batches."""

    def __init__(self, options: dict[str, str]) -> None:
        self.rows, self.size = int(options["rows"]), int(options["size"])

    def partitions(self) -> list[InputPartition]:
        return [
            InputPartition((start, min(start + PARTITION, self.rows)))
            for start in range(0, self.rows, PARTITION)
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        start, stop = partition.value
        offsets = np.arange(stop - start + 1, dtype=np.int32) * self.size
        part = Part(start, offsets.tobytes(), bytes((stop - start) * self.size))
        yield from Rows("raw", readable(source_schema(headers=False))).of([part])


class NothingWriter(DataSourceArrowWriter):
    """Throws away what it is given."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        for _ in iterator:
            pass
        return WriterCommitMessage()


class Bare(DataSource):
    """The source and the sink that do nothing."""

    @classmethod
    def name(cls) -> str:
        return "bare"

    def schema(self) -> str:
        return "key binary, value binary, queue string, position long, failures int"

    def reader(self, schema: Any) -> MemoryReader:  # noqa: ARG002
        return MemoryReader(self.options)

    def writer(self, schema: Any, overwrite: bool) -> NothingWriter:  # noqa: ARG002
        return NothingWriter()


class Bench:
    """One cluster, one session, and the four cases on them."""

    def __init__(self, spark: SparkSession, url: str, fifo: Callable[..., Fifo], folder: Path):
        self.spark = spark
        self.url = url
        self.fifo = fifo
        self.folder = folder
        self.queues = 0

    def new_queue(self) -> Fifo:
        self.queues += 1
        return self.fifo(f"q{self.queues}")

    def memory(self, rows: int, size: int) -> float:
        frame = self.spark.read.format("bare").options(rows=str(rows), size=str(size)).load()
        return self.drained(frame)

    def source(self, rows: int, size: int) -> float:
        """A snapshot of a queue: only the reading, as in `memory`."""
        frame = self.spark.read.format("snowmelt").options(
            url=self.url, queue=self.filled(rows, size)
        )
        return self.drained(frame.load())

    def stream(self, rows: int, size: int) -> float:
        """A stream that takes all rows in a few micro-batches, and acknowledges them."""
        name = self.filled(rows, size)
        frame = self.spark.readStream.format("snowmelt").options(
            url=self.url, queue=name, maxMessagesPerTrigger=str(max(1, rows // 4))
        )
        begin = time.perf_counter()
        query = (
            frame.load()
            .writeStream.format("noop")
            .option("checkpointLocation", str(self.folder / name))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        taken = time.perf_counter() - begin
        left = self.fifo(name).stats()
        assert (left.ready, left.assigned) == (0, 0)
        return taken

    def nothing(self, rows: int, size: int) -> float:
        return self.written(rows, size, "bare", {})

    def sink(self, rows: int, size: int) -> float:
        queue = self.new_queue()
        taken = self.written(rows, size, "snowmelt", {"url": self.url, "queue": queue.name})
        assert queue.stats().ready == rows
        queue.purge()
        return taken

    def filled(self, rows: int, size: int) -> str:
        queue = self.new_queue()
        for start in range(0, rows, 32_768):
            queue.put_many(Batch.of([bytes(size)] * min(32_768, rows - start)))
        return queue.name

    def drained(self, frame: Any) -> float:
        begin = time.perf_counter()
        frame.write.format("noop").mode("overwrite").save()
        return time.perf_counter() - begin

    def written(self, rows: int, size: int, form: str, options: dict[str, str]) -> float:
        body = self.spark.range(0, rows, 1, 2).selectExpr(
            f"rpad(cast(id as string), {size}, 'x') value"
        )
        begin = time.perf_counter()
        body.write.format(form).mode("append").options(**options).save()
        return time.perf_counter() - begin


CASES = ("memory", "source", "stream", "nothing", "sink")


def compare(rows: int, size: int, rounds: int, cases: tuple[str, ...]) -> dict[str, Any]:
    spark = session("rates", master="local[2]")
    spark.dataSource.register(Bare)
    taken: dict[str, list[float]] = {case: [] for case in cases}
    with (
        tempfile.TemporaryDirectory(prefix="snowmelt-bench-") as name,
        LocalCluster(1, Path(name) / "nodes") as cluster,
    ):
        cluster.start()
        with snowmelt.connect(cluster.url) as connection:
            bench = Bench(spark, cluster.url, connection.fifo, Path(name))
            for case in cases:
                getattr(bench, case)(min(rows, 50_000), size)  # Spark compiles what it runs
            for _ in range(rounds):
                for case in cases:
                    taken[case].append(getattr(bench, case)(rows, size))
    spark.stop()
    rates = {case: statistics.median(rows / one for one in all_) for case, all_ in taken.items()}
    row: dict[str, Any] = {"rows": rows, "size": size}
    row |= {f"{case}_per_second": round(rate) for case, rate in rates.items()}
    for ours, bare in (("source", "memory"), ("stream", "memory"), ("sink", "nothing")):
        if ours in rates and bare in rates:
            row[f"{ours}_to_{bare}"] = round(rates[ours] / rates[bare], 3)
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--size", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--cases", nargs="+", default=CASES, choices=CASES)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    row = compare(options.rows, options.size, options.rounds, tuple(options.cases))
    if options.json:
        print(json.dumps({"benchmark": "spark_rates", "rows": [row]}))
        return
    table = Table(*row)
    table.add_row(*(f"{value:,}" for value in row.values()))
    Console(width=200).print(table)


if __name__ == "__main__":
    main()
