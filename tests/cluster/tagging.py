"""A pipeline whose functions are done while the queue is read; they travel by value as well."""

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from snowmelt.spark import Pipeline


def tagged(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        bodies = pc.binary_join_element_wise(batch["queue"].cast("binary"), batch["value"], b"/")
        yield pa.record_batch({"value": bodies})


pipeline = (
    Pipeline("tags")
    .stage("one", source="plain", sink="once", arrow=tagged)
    .stage("two", source="once", sink="twice", arrow=tagged)
)
