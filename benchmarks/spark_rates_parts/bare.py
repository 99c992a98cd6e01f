"""A data source in Python that gives rows from memory, and a sink that throws them away.

They do what any source and sink in Python must do, and nothing else: the most that ours can reach.
Nothing of ours is imported here: what Spark's Pythons have loaded is looked through after each
task, unless it was set aside, and this source stands for one that nobody set anything aside for.
"""

import sys
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

SEED: Final = 1
PUT_AT: Final = 1_700_000_000_123_456
COLUMNS: Final = (
    "key binary, value binary, queue string, position bigint, timestamp timestamp, failures int"
)
TASK_ROWS: Final = 262_144
BATCH_ROWS: Final = 32_768
"""Of a task, and of an Arrow batch: as ours has them."""


@lru_cache(maxsize=2)
def bodies(rows: int, size: int) -> bytes:
    """Bodies without any order in them, one after the other: the same ones each time."""
    return np.random.default_rng(SEED).bytes(rows * size)


@lru_cache(maxsize=2)
def batch(rows: int, size: int) -> pa.RecordBatch:
    """Some rows in the columns that a queue's have; made once."""
    offsets = pa.py_buffer(np.arange(rows + 1, dtype=np.int32) * size)
    value = pa.BinaryArray.from_buffers(
        pa.binary(), rows, [None, offsets, pa.py_buffer(bodies(rows, size))]
    )
    times = pa.array(np.full(rows, PUT_AT)).cast(pa.timestamp("us", "UTC"))
    return pa.RecordBatch.from_arrays(
        [
            pa.nulls(rows, pa.binary()),
            value,
            pa.repeat("raw", rows),
            pa.array(np.arange(rows)),
            times,
            pa.array(np.zeros(rows, np.int32)),
        ],
        names=["key", "value", "queue", "position", "timestamp", "failures"],
    )


def _read(rows: int, size: int, alone: bool) -> Iterator[pa.RecordBatch]:
    """The rows of one task, in pieces as a queue's task reads them."""
    if alone and "snowmelt" in sys.modules:
        raise RuntimeError("this Python has loaded snowmelt, whose settings it was to do without")
    for first in range(0, rows, BATCH_ROWS):
        yield batch(min(BATCH_ROWS, rows - first), size)


def _tasks(start: int, stop: int) -> list[InputPartition]:
    return [InputPartition(min(TASK_ROWS, stop - first)) for first in range(start, stop, TASK_ROWS)]


class MemoryReader(DataSourceReader):
    """All rows as one batch."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self.rows, self.size = int(options["rows"]), int(options["size"])
        self.alone = options.get("alone") == "true"

    def partitions(self) -> list[InputPartition]:
        return _tasks(0, self.rows)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        yield from _read(partition.value, self.size, self.alone)


class MemoryStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The same as a stream, so many rows in a micro-batch."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self.rows, self.size = int(options["rows"]), int(options["size"])
        self.alone = options.get("alone") == "true"
        self.most = int(options["most"])

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802  # Spark's words, all of these
        return {"at": 0}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadMaxRows(self.most)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """All is there from the beginning."""

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: ARG002, N802
        return {"at": min(self.rows, start["at"] + self.most)}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        return _tasks(start["at"], end["at"])

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        yield from _read(partition.value, self.size, self.alone)


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

    def schema(self) -> Any:
        return COLUMNS

    def reader(self, schema: Any) -> MemoryReader:  # noqa: ARG002
        return MemoryReader(self.options)

    def streamReader(self, schema: Any) -> MemoryStream:  # noqa: ARG002, N802
        return MemoryStream(self.options)

    def writer(self, schema: Any, overwrite: bool) -> NothingWriter:  # noqa: ARG002
        return NothingWriter()
