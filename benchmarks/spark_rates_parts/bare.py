"""A data source in Python that gives rows from memory, and a sink that throws them away.

They do what any source and sink in Python must do, and nothing else: the most that ours can reach.
"""

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

from snowmelt.core.times import whole
from snowmelt.protocols.fifo.calls import Part
from snowmelt.spark.columns import readable, source_schema
from snowmelt.spark.partitions import ROWS
from snowmelt.spark.reading import PIECE_ROWS
from snowmelt.spark.rows import Rows

SEED: Final = 1
PUT_AT: Final = 1_700_000_000_123_456_789


@lru_cache(maxsize=2)
def bodies(rows: int, size: int) -> bytes:
    """Bodies without any order in them, one after the other: the same ones each time."""
    return np.random.default_rng(SEED).bytes(rows * size)


@lru_cache(maxsize=2)
def batches(rows: int, size: int) -> tuple[pa.RecordBatch, ...]:
    """Some rows of one task, in the columns and batches that a queue's have; made once."""
    offsets = np.arange(rows + 1, dtype=np.int32) * size
    part = Part(0, offsets.tobytes(), bodies(rows, size), times=whole(rows, PUT_AT))
    return tuple(Rows("raw", readable(source_schema(headers=False))).of([part]))


def _read(rows: int, size: int) -> Iterator[pa.RecordBatch]:
    """The rows of one task, in pieces as a queue's task reads them."""
    for first in range(0, rows, PIECE_ROWS):
        yield from batches(min(PIECE_ROWS, rows - first), size)


def _tasks(start: int, stop: int) -> list[InputPartition]:
    return [InputPartition(min(ROWS, stop - first)) for first in range(start, stop, ROWS)]


class MemoryReader(DataSourceReader):
    """All rows as one batch."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self.rows, self.size = int(options["rows"]), int(options["size"])

    def partitions(self) -> list[InputPartition]:
        return _tasks(0, self.rows)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        yield from _read(partition.value, self.size)


class MemoryStream(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The same as a stream, so many rows in a micro-batch."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self.rows, self.size = int(options["rows"]), int(options["size"])
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
        yield from _read(partition.value, self.size)


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
        return source_schema(headers=False)

    def reader(self, schema: Any) -> MemoryReader:  # noqa: ARG002
        return MemoryReader(self.options)

    def streamReader(self, schema: Any) -> MemoryStream:  # noqa: ARG002, N802
        return MemoryStream(self.options)

    def writer(self, schema: Any, overwrite: bool) -> NothingWriter:  # noqa: ARG002
        return NothingWriter()
