"""The column `priority` of what goes into queues with priorities."""

import math

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from snowmelt.core.errors import BadOption


def pairs_of(rows: pa.RecordBatch) -> list[tuple[int | float, bytes]]:
    """Each body with its priority."""
    column = rows.column("value").cast(pa.binary())
    if column.null_count:
        allowed = "a body in each row; filter null values out, or give b'' for them"
        raise BadOption("column value", None, allowed)
    return list(zip(priorities_of(rows), column.to_pylist(), strict=True))


def priorities_of(rows: pa.RecordBatch) -> list[int | float]:
    """The column `priority`; 0, the first, where there is none.

    >>> priorities_of(pa.record_batch({"priority": [2, 0]}))
    [2, 0]
    >>> priorities_of(pa.record_batch({"priority": [2, None]}))
    Traceback (most recent call last):
    snowmelt.core.errors.BadOption: column priority is None; allowed: a number in each row...
    """
    index = rows.schema.get_field_index("priority")
    if index < 0:
        return [0] * len(rows)
    column = rows.column(index)
    fractions = pa.types.is_floating(column.type)
    if column.null_count or (fractions and pc.any(pc.is_nan(column)).as_py()):
        value = None if column.null_count else math.nan
        allowed = "a number in each row; filter such rows out, or give them one"
        raise BadOption("column priority", value, allowed)
    found: list[int | float] = column.to_pylist()
    return found


def urgencies_of(rows: pa.RecordBatch) -> npt.NDArray[np.uint64]:
    """The column `priority` as numbers that are equal where priorities are.

    >>> urgencies_of(pa.record_batch({"priority": [2, -1]})).tolist() == [2, 2**64 - 1]
    True
    >>> urgencies_of(pa.record_batch({"priority": [0.0, -0.0, 2.5]})).tolist()[:2]
    [0, 0]
    """
    column = rows.column("priority")
    numbers: npt.NDArray[np.float64 | np.int64]
    if pa.types.is_floating(column.type):
        numbers = column.cast(pa.float64()).to_numpy() + 0.0  # there are two zeros
    else:
        numbers = column.cast(pa.int64()).to_numpy()
    return numbers.view(np.uint64)
