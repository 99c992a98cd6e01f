"""Rows of a priority queue: as those of a fifo, and how urgent each is."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

import numpy as np
import pyarrow as pa

from snowmelt.core.errors import BadOption
from snowmelt.protocols.fifo.calls import Part
from snowmelt.protocols.priority.messages import Piece
from snowmelt.spark.rows import Rows


class UrgentRows(Rows):
    """Makes rows of pieces of one priority queue, in the columns of one schema.

    >>> schema = pa.schema([("value", pa.binary()), ("priority", pa.int32())])
    >>> piece = Piece(2, 7, np.array([0, 1, 3], np.int32).tobytes(), b"abb")
    >>> [batch.to_pylist() for batch in UrgentRows("jobs", schema).of_pieces([piece])]
    [[{'value': b'a', 'priority': 2}, {'value': b'bb', 'priority': 2}]]
    """

    _priority = 0

    def of_pieces(self, pieces: Iterable[Piece]) -> Iterator[pa.RecordBatch]:
        """The rows of pieces, in their order, each batch of one priority."""
        pieces = list(pieces)
        if any(piece.key is not None for piece in pieces):
            allowed = "a queue with a number of priorities: Spark reads no others"
            raise BadOption("queue", self._queue, allowed)
        for self._priority, some in groupby(pieces, lambda piece: piece.priority):
            yield from self.of([_part(piece) for piece in some])

    def _column(self, field: pa.Field, parts: Sequence[Part]) -> pa.Array:
        if field.name == "priority":
            count = sum(part.count for part in parts)
            return pa.array(np.full(count, self._priority, np.int32))
        return super()._column(field, parts)


def _part(piece: Piece) -> Part:
    return Part(piece.start, piece.offsets, piece.blob, piece.headers, piece.failures, piece.reason)
