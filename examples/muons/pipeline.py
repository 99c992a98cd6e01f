"""Two stages: events of two muons that may have been one particle, and those back in columns.

snowmelt pipeline run examples/muons/pipeline.py --drain
"""

from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyspark.sql import DataFrame

from muons.events import COLUMNS, Event, event_of, unpacked
from snowmelt.spark import Pipeline

EVENTS, PAIRS = "muons", "muons-pairs"


def pipeline(folder: str = "muons-out") -> Pipeline:
    """The pipeline that writes the events of pairs into a folder of Parquet.

    >>> print(pipeline())
    pipeline muons
    muons       ──> select (worker) ──> muons-pairs
    muons-pairs ──> write (Spark)   ──> Parquet in muons-out
    """
    return (
        Pipeline("muons")
        .stage("select", source=EVENTS, sink=PAIRS, worker=select)
        .stage("write", source=PAIRS, transform=columns, parquet=folder)
    )


def select(body: bytes) -> list[bytes]:
    """The same event, if it is one of two muons of opposite charge."""
    return [body] if is_pair(event_of(body)) else []


def is_pair(event: Event) -> bool:
    """Whether there are two muons, of opposite charge."""
    count, *_, charges = event
    return count == 2 and sum(charges) == 0


def columns(rows: DataFrame) -> DataFrame:
    """Events as columns again."""

    def back(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return (unpacked(batch.column(0)) for batch in batches)

    return rows.select("value").mapInArrow(back, COLUMNS)
