"""What a task of a sink does: packs rows into batches and stages them, some of them at a time.

Staged batches are safe and in no queue, so a task that is run twice leaves nothing
behind that anybody sees: the driver publishes the receipts of one run, the rest is erased.
"""

import math
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final

import google_crc32c
import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from snowmelt.client.cluster_async import Cluster as AsyncCluster
from snowmelt.client.fifo.face_async import Fifo as AsyncFifo
from snowmelt.client.priority.face_async import PriorityQueue as AsyncPriorityQueue
from snowmelt.client.queue.bodies import CALL_ITEMS
from snowmelt.core.batch import OFFSET_BYTES, Batch
from snowmelt.core.errors import BadOption
from snowmelt.core.headers import Headers
from snowmelt.protocols.queue.api.calls import Receipt
from snowmelt.spark.options import PRIORITY, SinkOptions
from snowmelt.spark.rows import joined_rows, labels_of
from snowmelt.spark.several import asked

CALL_BYTES: Final = 4 << 20
LARGE_BYTES: Final = CALL_BYTES // 8
IN_FLIGHT: Final = 3
"""So many calls are under way at once: while one is flushed the next is packed."""
CONTENTS: Final = 2**64
_MIXING: Final = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD6E8FEB86659FD93))
_TENTHS: Final = 10.0
"""A delay is rounded up to tenths of a second: rows of one batch share few delays, then."""


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


class RowsToStage(msgspec.Struct, frozen=True):
    """Rows that go into one queue by one call."""

    queue: str
    delay: float
    rows: pa.RecordBatch


class StagedReceipts(msgspec.Struct):
    """What of one task waits in one queue."""

    receipts: list[Receipt] = []
    """In the order of its rows."""
    content: int = 0
    """See `content_of`."""


class StagedRows(msgspec.Struct, frozen=True):
    queues: dict[str, StagedReceipts]
    rows: int


def stage(batches: Iterable[pa.RecordBatch], options: SinkOptions) -> StagedRows:
    """Stages all rows of a task; all of them are safe when it returns."""
    queues: dict[str, StagedReceipts] = {}
    flight: deque[tuple[list[RowsToStage], Future[list[StagedReceipts]]]] = deque()
    count = 0

    def land() -> None:
        staged, future = flight.popleft()
        for load, more in zip(staged, future.result(), strict=True):
            landed = queues.setdefault(load.queue, StagedReceipts())
            landed.receipts += more.receipts
            landed.content = (landed.content + more.content) % CONTENTS

    with ThreadPoolExecutor(IN_FLIGHT) as threads:
        for rows in gathered(batches):
            count += len(rows)
            if len(flight) == IN_FLIGHT:
                land()
            staged = loads(rows, options.queue)
            flight.append((staged, threads.submit(_stage, staged, options)))
        while flight:
            land()
    return StagedRows(queues, count)


def _stage(loads: list[RowsToStage], options: SinkOptions) -> list[StagedReceipts]:
    """Stages what goes into some queues, all at once."""
    place = options.connection

    async def stage_one(cluster: AsyncCluster, load: RowsToStage) -> list[Receipt]:
        rows, labels = load.rows, labels_of(load.rows)
        told: Any = {"delay": load.delay, "hold": options.hold, "timeout": place.timeout}
        if options.kind == PRIORITY:
            jobs: AsyncPriorityQueue = cluster.priority(load.queue, **options.made)
            return await jobs.stage(pairs_of(rows), headers=labels, **told)
        queue: AsyncFifo = cluster.fifo(load.queue, **options.made)
        return await queue.stage(bodies(rows), headers=labels, **told)

    staged = asked(place, loads, stage_one)
    contents = (content_of(one.rows) for one in loads)
    return [StagedReceipts(*both) for both in zip(staged, contents, strict=True)]


def content_of(rows: pa.RecordBatch) -> int:
    """What rows are, as a number: the sum of one for each row, so their order makes none.

    Of the same rows it is the same, however they are cut and wherever they are computed.

    >>> one = pa.record_batch({"value": [b"a", b"b", b"c"]})
    >>> content_of(one) == content_of(one.take([2, 0, 1]))
    True
    >>> (content_of(one.slice(1)) + content_of(one.slice(0, 1))) % CONTENTS == content_of(one)
    True
    >>> keyed = one.append_column("key", pa.array([b"k", None, None], pa.binary()))
    >>> (content_of(keyed.slice(1)) + content_of(keyed.slice(0, 1))) % CONTENTS == content_of(keyed)
    True
    """
    values = rows.column("value").cast(pa.binary())
    sums: Iterable[int] = map(google_crc32c.value, values.to_numpy(zero_copy_only=False))
    labels = labels_of(rows)
    if labels is not None:
        sums = map(_labelled, sums, map(labels.of, range(len(rows))))
    mixed = np.fromiter(sums, np.uint64, len(rows))
    if rows.schema.get_field_index("priority") >= 0:
        mixed += urgencies_of(rows) * _MIXING[0]
    mixed += pc.binary_length(values).to_numpy().astype(np.uint64) << np.uint64(32)
    for factor in _MIXING:
        mixed *= factor
        mixed ^= mixed >> np.uint64(32)
    return int(mixed.sum(dtype=np.uint64))


def _labelled(content: int, label: tuple[bytes | None, Headers]) -> int:
    """What one row is with its key and headers: without any, the same beside others that have."""
    key, headers = label
    if key is None and not headers:
        return content
    told = msgspec.msgpack.encode((key, headers), order="sorted")
    return int(google_crc32c.extend(content, told))


def gathered(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows, in batches worth a call: Spark's are often much smaller.

    What is joined is copied, and a call costs less than a copy of what is large. So a large batch
    goes alone, and small ones together, as many as one call takes.

    >>> small = pa.record_batch({"value": pa.array([b"a", b"b"])})
    >>> [len(batch) for batch in gathered([small, small, small])]
    [6]
    """
    run: list[pa.RecordBatch] = []
    rows = size = 0
    for whole in batches:
        for batch in _cut(whole):
            large = batch.nbytes >= LARGE_BYTES
            full = rows + len(batch) > CALL_ITEMS or size + batch.nbytes > CALL_BYTES
            if run and (large or full):
                yield joined_rows(run)
                run, rows, size = [], 0, 0
            if large:
                yield batch
                continue
            run.append(batch)
            rows, size = rows + len(batch), size + batch.nbytes
    if run:
        yield joined_rows(run)


def _cut(whole: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    rows = len(whole) * CALL_BYTES // max(whole.nbytes, CALL_BYTES)
    rows = max(1, min(CALL_ITEMS, rows))
    for first in range(0, len(whole), rows):
        yield whole.slice(first, rows)


def loads(rows: pa.RecordBatch, queue: str) -> list[RowsToStage]:
    """Rows by where and when they go, each group in the order of the rows.

    >>> rows = pa.record_batch({"value": [b"a", b"b", b"c"], "queue": ["x", "y", "x"]})
    >>> [(load.queue, load.rows["value"].to_pylist()) for load in loads(rows, "")]
    [('x', [b'a', b'c']), ('y', [b'b'])]
    """
    if not len(rows):
        return []
    names, name_codes = ([queue], None) if queue else _queues(rows)
    delays, delay_codes = _delays(rows)
    if len(names) == 1 and len(delays) == 1:
        return [RowsToStage(names[0], float(delays[0]), rows)]
    codes = np.zeros(len(rows), np.int64) if name_codes is None else name_codes * len(delays)
    if delay_codes is not None:
        codes += delay_codes
    order = np.argsort(codes, kind="stable")
    ordered, kinds = codes[order], np.unique(codes)
    moved = rows.take(pa.array(order))
    edges = [*np.searchsorted(ordered, kinds).tolist(), len(rows)]
    return [
        RowsToStage(
            names[kind // len(delays)],
            float(delays[kind % len(delays)]),
            moved.slice(edges[place], edges[place + 1] - edges[place]),
        )
        for place, kind in enumerate(kinds.tolist())
    ]


def _queues(rows: pa.RecordBatch) -> tuple[list[str], "np.ndarray[tuple[int], np.dtype[np.int64]]"]:
    column = rows.column("queue")
    if column.null_count:
        raise BadOption("column queue", None, "the name of a queue in each row")
    coded = column.dictionary_encode()
    codes = coded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return coded.dictionary.to_pylist(), codes


def _delays(
    rows: pa.RecordBatch,
) -> tuple[
    "np.ndarray[tuple[int], np.dtype[np.float64]]",
    "np.ndarray[tuple[int], np.dtype[np.int64]] | None",
]:
    index = rows.schema.get_field_index("delay")
    if index < 0:
        return np.zeros(1), None
    seconds = pc.fill_null(rows.column(index).cast(pa.float64()), 0.0).to_numpy()
    if not (seconds >= 0).all():
        worst = seconds[~(seconds >= 0)][0]
        raise BadOption("column delay", float(worst), "0 or more seconds, or null for none")
    found, codes = np.unique(np.ceil(seconds * _TENTHS) / _TENTHS, return_inverse=True)
    return found, codes


def bodies(rows: pa.RecordBatch) -> Batch:
    """The column `value` as a batch, in the same memory.

    >>> [bytes(body) for body in bodies(pa.record_batch({"value": ["one", "two"]}).slice(1))]
    [b'two']
    """
    column = rows.column("value")
    if column.null_count:
        allowed = "a body in each row; filter null values out, or give b'' for them"
        raise BadOption("column value", None, allowed)
    if column.type not in (pa.binary(), pa.string()):
        column = column.cast(pa.binary())
    _, offsets, blob = column.buffers()
    first = column.offset * OFFSET_BYTES
    edges = memoryview(offsets)[first : first + (len(column) + 1) * OFFSET_BYTES]
    return Batch(edges, memoryview(blob) if blob is not None else b"")
