"""How much one micro-batch takes: the limit that Spark gives, and the options'."""

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxBytes, ReadMaxRows

from snowmelt.client.queue.group_steps import EVERYTHING
from snowmelt.spark.options import SourceOptions


def usual(options: SourceOptions) -> ReadLimit:
    if options.rows_max:
        return ReadMaxRows(options.rows_max)
    if options.bytes_max:
        return ReadMaxBytes(options.bytes_max)
    return ReadAllAvailable()


def at_most(limit: ReadLimit, options: SourceOptions) -> tuple[int, int]:
    """Rows and bytes in all."""
    if isinstance(limit, ReadAllAvailable):
        return EVERYTHING, EVERYTHING
    rows = limit.max_rows if isinstance(limit, ReadMaxRows) else options.rows_max
    size = limit.max_bytes if isinstance(limit, ReadMaxBytes) else options.bytes_max
    return rows or EVERYTHING, size or EVERYTHING
