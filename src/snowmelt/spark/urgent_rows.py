"""Rows of a priority queue: as those of a fifo, and how urgent each is."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from snowmelt.client.priority.notes import Stretch
from snowmelt.core.errors import BadOption
from snowmelt.protocols.fifo.calls import Part
from snowmelt.spark.rows import Rows


class UrgentRows(Rows):
    """Makes rows of what a group was given of one priority queue, in the columns of one schema.

    >>> schema = pa.schema([("value", pa.binary()), ("priority", pa.int64())])
    >>> given = [Stretch(7, np.array([0, 1, 3], np.int32).tobytes(), b"abb", priority=-2)]
    >>> [batch.to_pylist() for batch in UrgentRows("jobs", schema).of(given)]
    [[{'value': b'a', 'priority': -2}, {'value': b'bb', 'priority': -2}]]
    """

    def _column(self, field: pa.Field, parts: Sequence[Part]) -> pa.Array:
        if field.name != "priority":
            return super()._column(field, parts)
        numbers = np.array([part.priority for part in parts if isinstance(part, Stretch)])
        column = pa.array(np.repeat(numbers, [part.count for part in parts]))
        try:
            return column.cast(field.type)
        except pa.ArrowInvalid as error:
            allowed = f"one that has all priorities of queue {self._queue} ({error})"
            raise BadOption("type of column priority", field.type, allowed) from None
