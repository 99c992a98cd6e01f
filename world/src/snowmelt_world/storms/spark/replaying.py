"""Reads the last micro-batch of a checkpoint again, and compares it with what came out of it."""

from collections.abc import Iterator
from typing import Any

import msgspec

from snowmelt.client.cluster import Cluster
from snowmelt.client.fifo.face import Fifo
from snowmelt.client.leases.delivered import part_bodies
from snowmelt.spark.columns import source_schema
from snowmelt.spark.stream_source import StreamReader
from snowmelt_world.storms.spark.load import DONE, GROUP, SINK, SOURCES, StreamLoad


class Replayed(msgspec.Struct, frozen=True):
    """What came of it."""

    rows: int
    alike: bool


def replay(load: StreamLoad, cluster: Cluster, batch: int) -> Replayed:
    """The rows of a batch that the sink has as its last, read again from the offsets alone."""
    several = ",".join(SOURCES)
    options = {"url": load.url, "queues": several, "group": GROUP, "minPartitions": "3"}
    reader = StreamReader(options, source_schema("false"))
    start = _offset(load, batch - 1) if batch else reader.initialOffset()
    rows = [value + DONE for value in _values(reader, start, _offset(load, batch))]
    # Spark promises no order among queues.
    return Replayed(len(rows), sorted(_last(cluster.fifo(SINK), len(rows))) == sorted(rows))


def _values(reader: StreamReader, start: dict[str, Any], end: dict[str, Any]) -> Iterator[bytes]:
    for partition in reader.partitions(start, end):
        for rows in reader.read(partition):
            yield from rows["value"].to_pylist()


def _last(queue: Fifo, count: int) -> list[bytes]:
    """The last bodies of a queue; positions may have gaps, so it looks further back than that."""
    first = max(0, queue.stats().tail - 2 * count)
    parts = queue.read(queue.survey(first).spans).parts
    bodies = [body for part in parts for body in part_bodies(part)]
    return bodies[-count:]


def _offset(load: StreamLoad, batch: int) -> dict[str, Any]:
    text = (load.checkpoint / "offsets" / str(batch)).read_text().splitlines()[-1]
    found: dict[str, Any] = msgspec.json.decode(text)
    return found
