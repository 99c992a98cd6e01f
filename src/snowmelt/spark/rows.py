"""From parts to rows and back from rows to batches: Arrow sees the same memory, no item is copied.

A part has Arrow's own layout, so a column of bodies is two pointers. Only parts of a few items
each, as single puts leave them, are joined: a batch of rows costs Spark much more than a copy.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, Final

import numpy as np
import pyarrow as pa

from snowmelt.client.leases.delivered import as_they_lie, position_of, priority_of
from snowmelt.core.batch import OFFSET_BYTES, Buffer
from snowmelt.core.errors import BadOption
from snowmelt.core.headers import Headers
from snowmelt.core.times import chained
from snowmelt.protocols.queue.api.calls import ItemRun
from snowmelt.protocols.queue.api.labels import Labels, are_labels, unpack

ROWS_MAX: Final = 32_768
BYTES_MAX: Final = 8 << 20
"""What one call reads is less, where all rows are of about one size: it is handed on as it is."""
_Pairs = list[tuple[str, str | bytes]]

SMALL: Final = 1024
"""Parts of fewer items than this are joined with their neighbours."""


class Rows:
    """Makes rows of one queue's parts, in the columns of one schema.

    >>> schema = pa.schema([("value", pa.binary()), ("position", pa.int64())])
    >>> from snowmelt.protocols.queue.api import calls
    >>> part = calls.ItemRun(5, np.array([0, 1, 3], np.int32).tobytes(), b"abb")
    >>> [batch.to_pylist() for batch in Rows("raw", schema).of([part])]
    [[{'value': b'a', 'position': 5}, {'value': b'bb', 'position': 6}]]
    """

    def __init__(self, queue: str, schema: pa.Schema) -> None:
        self._queue = queue
        self._schema = schema

    def of(self, parts: Iterable[ItemRun]) -> Iterator[pa.RecordBatch]:
        """The rows of parts, in their order, in batches of bounded size."""
        for run in _runs(parts):
            whole = pa.RecordBatch.from_arrays(
                [self._column(field, run) for field in self._schema], schema=self._schema
            )
            size = sum(len(part.blob) for part in run)
            rows = max(1, min(ROWS_MAX, len(whole) * BYTES_MAX // max(size, BYTES_MAX)))
            for first in range(0, len(whole), rows):
                yield whole.slice(first, rows)

    def _column(self, field: pa.Field, parts: Sequence[ItemRun]) -> pa.Array:
        counts = [part.count for part in parts]
        match field.name:
            case "value":
                return _as_type(_bodies(parts), field, parts)
            case "key":
                return _as_type(_keys(parts), field, parts)
            case "queue":
                return pa.repeat(pa.scalar(self._queue, pa.string()), sum(counts))
            case "position":
                firsts = [position_of(part.start) for part in parts]
                starts = [np.arange(at, at + n) for at, n in zip(firsts, counts, strict=True)]
                return pa.array(starts[0] if len(starts) == 1 else np.concatenate(starts))
            case "priority":
                return self._priorities(field, parts)
            case "timestamp":
                return _times(parts).view(field.type)
            case "failures":
                failures = np.array([part.failures for part in parts], np.int32)
                return pa.array(np.repeat(failures, counts))
            case _:
                return _headers(parts, field.type)

    def _priorities(self, field: pa.Field, parts: Sequence[ItemRun]) -> pa.Array:
        places = [(part, at) for part in parts for at in range(part.start, part.start + part.count)]
        column = pa.array([priority_of(part, at) for part, at in places])
        try:
            return column.cast(field.type)
        except pa.ArrowInvalid as error:
            allowed = f"one that has all priorities of queue {self._queue} ({error})"
            raise BadOption("type of column priority", field.type, allowed) from None


def joined_rows(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """The rows of batches of one schema, in one batch."""
    if len(batches) == 1:
        return batches[0]
    columns = [
        pa.concat_arrays([batch.column(index) for batch in batches])
        for index in range(batches[0].num_columns)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=batches[0].schema)


def _runs(parts: Iterable[ItemRun]) -> Iterator[list[ItemRun]]:
    """Each large part alone, and neighbours that are small together."""
    run: list[ItemRun] = []
    rows = size = 0
    for part in parts:
        if run and (part.count >= SMALL or rows >= ROWS_MAX or size >= BYTES_MAX):
            yield run
            run, rows, size = [], 0, 0
        if part.count >= SMALL:
            yield [part]
        elif part.count:
            run.append(part)
            rows, size = rows + part.count, size + len(part.blob)
    if run:
        yield run


def _bodies(parts: Sequence[ItemRun]) -> pa.Array:
    if len(parts) > 1:
        batch = as_they_lie(parts)
        return _column_of(batch.offsets, batch.blob)
    return _column_of(_sound(parts[0]), parts[0].blob)


def _column_of(offsets: Buffer, blob: Buffer) -> pa.Array:
    count = len(memoryview(offsets).cast("B")) // OFFSET_BYTES - 1
    return pa.Array.from_buffers(
        pa.binary(), count, [None, pa.py_buffer(offsets), pa.py_buffer(blob)]
    )


def _sound(part: ItemRun) -> bytes:
    """The offsets of a part, looked at as a `Batch` does it, which for so many takes longer."""
    edges = np.frombuffer(part.offsets, np.int32)
    if edges[0] < 0 or edges[-1] > len(part.blob) or (edges[1:] < edges[:-1]).any():
        raise ValueError(f"offsets are not in order within a blob of {len(part.blob)} bytes")
    return part.offsets


def _times(parts: Sequence[ItemRun]) -> pa.Array:
    """When each was put, in microseconds since 1970; null where that is not known."""
    known = chained([(part.count, part.times) for part in parts])
    runs = np.frombuffer(known, np.int64).reshape(-1, 2)
    counts, micros = runs[:, 0], runs[:, 1] // 1000
    rows = sum(part.count for part in parts)
    if counts.sum() != rows:
        return pa.nulls(rows, pa.int64())
    if micros.all():
        return pa.array(np.repeat(micros, counts))
    return pa.array(np.repeat(micros, counts), mask=np.repeat(micros == 0, counts))


def _keys(parts: Sequence[ItemRun]) -> pa.Array:
    if not any(are_labels(part.headers) for part in parts):
        return pa.nulls(sum(part.count for part in parts), pa.binary())
    keys = (unpack(part.headers).keys or (None,) * part.count for part in parts)
    return pa.array(chain.from_iterable(keys), pa.binary())


def _headers(parts: Sequence[ItemRun], kind: pa.DataType) -> pa.Array:
    if not any(part.headers for part in parts):
        return pa.nulls(sum(part.count for part in parts), kind)
    rows: list[_Pairs | None] = []
    for part in parts:
        labels = unpack(part.headers)
        if labels.headers is None:
            rows += [_pairs(labels.common, kind, part.start)] * part.count
        else:
            each = (labels.of(row)[1] for row in range(part.count))
            rows += [_pairs(own, kind, part.start + row) for row, own in enumerate(each)]
    return pa.array(rows, kind)


def _pairs(headers: Headers, kind: pa.DataType, position: int) -> _Pairs | None:
    """One item's headers; a value that was put as bytes is text for who asks for text."""
    if kind.item_type == pa.binary():  # Arrow makes bytes of text
        return list(headers.items()) or None
    try:
        return [
            (name, value if isinstance(value, str) else value.decode())
            for name, value in headers.items()
        ] or None
    except UnicodeDecodeError:
        allowed = f"binary: a header of the item at position {position} is no UTF-8"
        raise BadOption("includeHeaders", "true", allowed) from None


def _as_type(column: pa.Array, field: pa.Field, parts: Sequence[ItemRun]) -> pa.Array:
    """Bytes as they are, or as text, when they are text."""
    if field.type == pa.binary():
        return column
    try:
        return column.cast(pa.string())
    except pa.ArrowInvalid:
        positions = [part.start + row for part in parts for row in range(part.count)]
        first = next(at for at, body in zip(positions, column, strict=True) if not _is_text(body))
        allowed = f"binary: the {field.name} at position {first} is no UTF-8"
        raise BadOption(f"type of column {field.name}", "string", allowed) from None


def _is_text(body: Any) -> bool:
    try:
        str(body.as_py() or b"", "utf-8")
    except UnicodeDecodeError:
        return False
    return True


def labels_of(rows: pa.RecordBatch) -> Labels | None:
    """The keys and headers of rows that have any."""
    keys = _listed(rows, "key", pa.binary())
    headers = _listed(rows, "headers", None)
    if keys is None and headers is None:
        return None
    maps = None if headers is None else tuple(map(_as_map, headers))
    return Labels({}, None if keys is None else tuple(keys), maps)


def _listed(rows: pa.RecordBatch, name: str, kind: pa.DataType | None) -> list[Any] | None:
    index = rows.schema.get_field_index(name)
    if index < 0 or rows.column(index).null_count == len(rows):
        return None
    column = rows.column(index)
    return list((column if kind is None else column.cast(kind)).to_pylist())


def _as_map(pairs: list[tuple[str, str | bytes | None]] | None) -> Headers | None:
    if pairs is None:
        return None
    for name, value in pairs:
        if value is None:
            raise BadOption("headers", {name: None}, "a value for each name, not null")
    return dict(pairs)  # type: ignore[arg-type]  # none is null
