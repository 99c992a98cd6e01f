"""A crew of Spark's executors: each piece of work is a job of one task."""

from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import pyarrow as pa
from pyspark.sql import SparkSession

from snowmelt.spark.where import at_once
from snowmelt_world.work import Crew, Work

RESULT: Final = "result binary"


def spread(session: SparkSession) -> Crew:
    """A crew that works on as many pieces at a time as the session runs tasks.

    double = spread(session())(doubled, [b"1", b"2"])
    """

    def results(work: Work, pieces: Sequence[bytes]) -> Generator[bytes, None, None]:
        def of(piece: bytes) -> bytes:
            def done(_: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
                yield pa.RecordBatch.from_pydict({"result": [work(piece)]})

            (row,) = session.range(0, 1, 1, 1).mapInArrow(done, RESULT).collect()
            return bytes(row.result)

        threads = ThreadPoolExecutor(at_once(session))
        try:
            yield from threads.map(of, pieces)
        finally:
            threads.shutdown(cancel_futures=True)

    return results
