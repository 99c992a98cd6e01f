"""A real cluster for Spark's tests, and short ways to read, write and run streams on it."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

import snowmelt
from snowmelt.cli.local import LocalCluster
from snowmelt.client.cluster import Cluster
from snowmelt.client.fifo.face import Fifo
from snowmelt.client.priority.face import PriorityQueue

SECONDS = 60


class Queues:
    """Queues of a cluster, under names that no other test has."""

    def __init__(self, cluster: LocalCluster, connection: Cluster, folder: Path) -> None:
        self.cluster = cluster
        self.url = cluster.url
        self.fifo: Callable[..., Fifo] = connection.fifo
        self.priority: Callable[..., PriorityQueue] = connection.priority
        self.there: Callable[[], list[str]] = connection.queues
        self.folder = folder

    def read(self, spark: SparkSession, queue: str, **options: str) -> DataFrame:
        reader = spark.read.format("snowmelt").options(url=self.url, queue=queue)
        return reader.options(**options).load()

    def stream(self, spark: SparkSession, **options: str) -> DataFrame:
        return spark.readStream.format("snowmelt").options(url=self.url, **options).load()

    def write(self, frame: DataFrame, **options: str) -> None:
        writer = frame.write.format("snowmelt").mode("append")
        writer.options(url=self.url, **options).save()

    def into(self, frame: DataFrame, checkpoint: str, **options: str) -> StreamingQuery:
        """Streams into a queue until what was there at the start is over."""
        writer = frame.writeStream.format("snowmelt").options(url=self.url, **options)
        return self.drained(writer.option("checkpointLocation", self.path(checkpoint)))

    def each(
        self, frame: DataFrame, checkpoint: str, work: Callable[[DataFrame, int], None]
    ) -> StreamingQuery:
        """Streams into a function until what was there at the start is over."""
        writer = frame.writeStream.foreachBatch(work)
        return self.drained(writer.option("checkpointLocation", self.path(checkpoint)))

    def drained(self, writer: Any) -> StreamingQuery:
        return self.ended(writer.trigger(availableNow=True).start())

    def ended(self, query: StreamingQuery) -> StreamingQuery:
        """Waits for the end of a query."""
        try:
            assert query.awaitTermination(SECONDS)
        finally:
            query.stop()
        return query

    def path(self, checkpoint: str) -> str:
        return str(self.folder / checkpoint)


@contextmanager
def queues_of(nodes: int, folder: Path) -> Iterator[Queues]:
    """Queues of a cluster that lives as long as this."""
    with LocalCluster(nodes, folder / "nodes", 0.5) as cluster:
        cluster.start()
        with snowmelt.connect(cluster.url) as connection:
            yield Queues(cluster, connection, folder)


def bodies(queue: Fifo) -> list[bytes]:
    """What waits in a queue, in order."""
    return [seen.body for seen in queue.peek(100_000)]


def wait_until(what: Callable[[], bool], seconds: float = 60) -> bool:
    """Whether something comes true in the time given."""
    end = time.monotonic() + seconds
    while not what() and time.monotonic() < end:
        time.sleep(0.05)
    return what()


def forget(checkpoint: Path, batch: int) -> None:
    """Takes a batch out of Spark's logs."""
    for log in ("offsets", "commits"):
        for name in (str(batch), f".{batch}.crc"):
            (checkpoint / log / name).unlink(missing_ok=True)
