"""Independent pieces of work, done by Spark's workers: what the built-in `map` does, on a cluster.

A piece is bytes and so is its result; what they mean is the caller's. The function is known to the
workers by its name, so its module has to be installed there, as snowmelt itself has to be.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

import pyarrow as pa
from pyspark.sql import SparkSession

from snowmelt.spark.where import at_once

Work = Callable[[bytes], bytes]
Spread = Callable[[Work, Sequence[bytes]], list[bytes]]

__all__ = ["RESULT", "Spread", "Work", "at_once", "spread"]

RESULT: Final = "place long, result binary"


def spread(session: SparkSession) -> Spread:
    """A `map` that gives each piece to a task of its own; results come in the order of the pieces.

        double = spread(session())(doubled, [b"1", b"2"])

    An exception in one piece fails the whole job; work that can fail says so in its result.
    """

    def mapped(work: Work, pieces: Sequence[bytes]) -> list[bytes]:
        given = list(pieces)

        def done(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                places = batch.column("id").to_pylist()
                results = pa.array([work(given[place]) for place in places], pa.binary())
                columns = [pa.array(places, pa.int64()), results]
                yield pa.RecordBatch.from_arrays(columns, ["place", "result"])

        numbers = session.range(0, len(given), 1, max(1, len(given)))
        rows = numbers.mapInArrow(done, RESULT).collect()
        return [bytes(row.result) for row in sorted(rows, key=lambda row: row.place)]

    return mapped
