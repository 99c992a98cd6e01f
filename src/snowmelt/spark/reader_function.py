"""A stage's function within the source's read: rows become others before they leave their Python.

As a function of DataFrames it would be given its rows by Java, which had them from the Python that
read them: two ways between processes for each row, and a third for what comes of it. Within the
read there is that one alone. It is loaded once by each Python that runs tasks, not by each task.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple, cast

import pyarrow as pa
from pyspark import cloudpickle

from snowmelt.core.errors import BadOption

ArrowFunction = Callable[[Iterator[pa.RecordBatch]], Iterable[pa.RecordBatch]]


class ReaderFunction(NamedTuple):
    """A function as it travels, and the columns of what it makes, in Spark's words."""

    code: bytes
    columns: str

    @classmethod
    def of(cls, function: ArrowFunction, columns: str) -> "ReaderFunction":
        """Takes the code as it is now, with what travels by value."""
        code: bytes = cloudpickle.dumps(function)  # type: ignore[no-untyped-call]
        return cls(code, columns)

    def made(
        self, batches: Iterator[pa.RecordBatch], schema: pa.Schema
    ) -> Iterator[pa.RecordBatch]:
        """What the function makes of the rows, in the columns that were said.

        >>> def doubled(batches):
        ...     for batch in batches:
        ...         yield pa.record_batch({"n": pa.compute.multiply(batch["n"], 2)})
        >>> inside, schema = ReaderFunction.of(doubled, "n long"), pa.schema([("n", pa.int64())])
        >>> rows = iter([pa.record_batch({"n": pa.array([1, 2], pa.int32())})])
        >>> [batch.to_pydict() for batch in inside.made(rows, schema)]
        [{'n': [2, 4]}]
        """
        for batch in _function(self.code)(batches):
            if len(batch):
                yield _fitted(batch, schema)


@lru_cache(maxsize=8)
def _function(code: bytes) -> ArrowFunction:
    return cast("ArrowFunction", cloudpickle.loads(code))


def _fitted(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The same columns in their order and of their types: Spark takes no others."""
    if sorted(batch.schema.names) != sorted(schema.names):
        raise BadOption("columns", ", ".join(schema.names), ", ".join(batch.schema.names))
    columns = [batch.column(field.name).cast(field.type) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
