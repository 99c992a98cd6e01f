"""A priority queue as a sink: tasks stage rows, the driver publishes them, whoever has to do it.

A priority queue knows what is staged by its positions, and to publish those again does nothing,
however much later. What it does not know is which of two attempts at a batch is the one that
counts. That is written down first, as for a batch that goes into several queues (`committing.py`):
what stands under the batch's number is published, and then ended. It stands in the fifo
`QUEUE.published`, which has no items. Where a column names the queues, what goes into which stands
in `spark.publications` before that, as with fifos.

What stands there may have been erased, when its driver died in that moment and nobody came for as
long as staged rows wait. That is final. So the next attempt stands under the next name, and whoever
comes later finds the same: all of the first is erased, and what counts is the second.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from snowmelt.client.cluster import Cluster
from snowmelt.core.errors import BadOption, DataLost, NotStaged
from snowmelt.core.headers import Headers
from snowmelt.core.interval import Interval
from snowmelt.protocols.priority.batches import Share as Places
from snowmelt.protocols.priority.batches import union
from snowmelt.protocols.priority.calls import Receipt as Staged
from snowmelt.protocols.queue.calls import Planned, Receipt, Share
from snowmelt.spark.options import SinkOptions
from snowmelt.spark.rows import labels_of

ATTEMPTS: Final = 8
Pair = tuple[int | float, bytes]


def stage_rows(
    cluster: Cluster, queue: str, rows: pa.RecordBatch, delay: float, options: SinkOptions
) -> list[Receipt]:
    """Stages rows that are due together; where they are, as a plan names it."""
    jobs = cluster.priority(queue, **options.made)
    staged: list[Places] = []
    for headers, pairs in _by_headers(rows):
        receipt = jobs.stage(
            pairs,
            headers=headers,
            delay=delay,
            hold=options.hold,
            timeout=options.connection.timeout,
        )
        staged += receipt.shares
    return [
        Receipt(str(share.priority), one.start, one.stop, 0)
        for share in union(staged)
        for one in share.intervals
    ]


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


def publish(
    cluster: Cluster,
    shares: Sequence[Share],
    options: SinkOptions,
    plan: Callable[[int], Planned],
    end: Callable[[int], None],
) -> None:
    """Publishes a batch once: what `plan` knows of an attempt at it, which `end` ends."""
    for attempt in range(ATTEMPTS):
        planned = plan(attempt)
        if planned.ended or not planned.shares:
            return
        erased = publish_all(cluster, planned.shares, options)
        if not erased:
            end(attempt)
            return
        total = sum(one.stop - one.first for share in planned.shares for one in share.receipts)
        if erased < total:
            text = (
                f"{erased} of {total} rows of a batch that was published in part are erased: "
                f"nobody went on with it for longer than stagedFor, {options.hold:g} s"
            )
            raise DataLost(text)
        if planned.shares == tuple(shares):
            break
    text = f"the rows waited longer than stagedFor, {options.hold:g} s, and are erased"
    raise NotStaged(f"{text}; nothing is in the queue: start again, with a longer one")


def publish_all(cluster: Cluster, shares: Iterable[Share], options: SinkOptions) -> int:
    """Publishes what is named; how many rows can't be, since they are erased."""
    erased = 0
    for share in shares:
        rows: dict[int, list[Interval]] = {}
        for one in share.receipts:
            rows.setdefault(int(one.stream), []).append(Interval(one.first, one.stop))
        places = union([Places(one, tuple(rows[one])) for one in rows])
        jobs = cluster.priority(share.queue)
        erased += jobs.published(Staged(0, places), timeout=options.connection.timeout)
    return erased


def _by_headers(rows: pa.RecordBatch) -> list[tuple[Headers, list[Pair]]]:
    """Rows of the same headers together: a put has headers for all that it puts."""
    column = rows.column("value").cast(pa.binary())
    if column.null_count:
        allowed = "a body in each row; filter null values out, or give b'' for them"
        raise BadOption("column value", None, allowed)
    pairs = list(zip(priorities_of(rows), column.to_pylist(), strict=True))
    labels = labels_of(rows)
    if labels is None:
        return [({}, pairs)]
    groups: dict[tuple[tuple[str, str | bytes], ...], list[Pair]] = {}
    for row, pair in enumerate(pairs):
        groups.setdefault(tuple(sorted(labels.of(row)[1].items())), []).append(pair)
    return [(dict(headers), those) for headers, those in groups.items()]
