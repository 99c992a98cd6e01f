"""`spark.readStream` of a priority queue: each micro-batch takes the most urgent there are, once.

What a micro-batch is, the queue's group decides and remembers (`client/priority/groups.py`): its
items are leased for good before an offset names them, so the offsets in a checkpoint are enough to
read the very same rows again. All else is as with a fifo (`stream_source.py`): `start` is the
acknowledgement, and who comes with an older checkpoint is refused. Marks count batches here.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType

from snowmelt.client.priority.face import PriorityQueue
from snowmelt.client.priority.groups import PriorityGroup
from snowmelt.client.priority.notes import Note, Stretch, parts_of
from snowmelt.core.errors import BadOption, LeaseLost, OutcomeUnknown, SnowmeltError
from snowmelt.protocols.queue.calls import Part
from snowmelt.protocols.queue.settings import QueueSettings
from snowmelt.spark.columns import check_priority, readable
from snowmelt.spark.connections import Planned, cluster_at, known
from snowmelt.spark.errors import plainly
from snowmelt.spark.lag import report
from snowmelt.spark.limiting import at_most
from snowmelt.spark.naming import check_queues
from snowmelt.spark.offsets import Offset, told
from snowmelt.spark.older import check_newest
from snowmelt.spark.options import SourceOptions
from snowmelt.spark.partitions import BYTES, Tasks
from snowmelt.spark.rows import Rows
from snowmelt.spark.settling import settling
from snowmelt.spark.stream_source import GroupReader

_REPORT_SECONDS: Final = 2.0
"""A report is not worth a longer wait."""


class UrgentReader(GroupReader):
    """One group's reading of a priority queue, as Spark drives it: one process on the driver."""

    def __init__(self, given: Mapping[str, str], schema: StructType) -> None:
        super().__init__(given, schema)
        self._left: int | None = None
        """How many items this run may take still, when it takes what was there at its start."""

    @cached_property
    def _schema(self) -> pa.Schema:
        return readable(self._asked, urgent=True)

    # --- how far ----------------------------------------------------------------------------------

    @plainly()
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """As many as wait now are taken, the most urgent of what there is by then."""
        self._check()
        self._left = self._queue.stats(timeout=self._timeout).ready

    @plainly()
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Done with all up to `start`; what is the group's own after that."""
        before = told(start, self._options.group)
        rows, size = at_most(limit, self._options)
        rows = rows if self._left is None else min(rows, self._left)
        with self._telling():
            given = self._group.advance(
                before.mark(self._name), items_max=rows, bytes_max=size, timeout=self._timeout
            )
        if given.located > before.mark(self._name).count and not self._begun:
            check_newest({self._name: given.end}, before.marks, self._options)
        self._begun = True
        if self._left is not None:
            self._left = max(0, self._left - given.taken)
        self._acknowledged = before
        return Offset(before.group, {**before.marks, self._name: given.end}).told()

    @plainly()
    def commit(self, end: dict[str, Any]) -> None:
        """Done with all up to `end`; most often said already, by `latestOffset`."""
        done = told(end, self._options.group)
        if done != self._acknowledged:
            with self._telling():
                mark = done.mark(self._name)
                self._group.advance(mark, items_max=0, timeout=self._timeout)
            self._acknowledged = done

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """What waits, for the progress report. See `lag.py`."""
        with plainly():
            try:
                ready = self._queue.stats(timeout=_REPORT_SECONDS).ready
            except SnowmeltError:
                return None
            return report(self._options.group, {self._name: ready})

    # --- which rows -------------------------------------------------------------------------------

    @plainly()
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """Parts of the batches between two offsets; the same ones every time."""
        options = self._options
        before, after = told(start, options.group), told(end, options.group)
        first, last = before.mark(self._name), after.mark(self._name)
        if first == last:
            return []
        with self._telling():
            notes = self._group.batches(first, last, timeout=self._timeout)
        total = sum(note.count for note in notes)
        row_bytes = max(1, sum(note.bytes for note in notes) // max(1, total))
        share = Tasks(options.partitions_min, options.cores).share(total, row_bytes)
        place = known(options.connection, cluster_at(options.connection).identity)
        return [Planned(part, place) for note in notes for part in _parts(note, share)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        with plainly(), settling():
            if isinstance(partition, Planned):
                with self._telling():
                    group = _group(partition.there(self._options))
                    pieces = group.read(partition.value, timeout=self._timeout)
                yield from UrgentRows(self._name, self._schema).of(pieces)

    # --- asking -----------------------------------------------------------------------------------

    def _check(self) -> None:
        _ = self._schema
        check_queues(self._options)
        if "priority" in self._asked.names:
            check_priority(self._asked["priority"], self._name, settings_of(self._options))

    @property
    def _name(self) -> str:
        return self._options.queues[0]

    @property
    def _queue(self) -> PriorityQueue:
        return _queue(self._options)

    @property
    def _group(self) -> PriorityGroup:
        return _group(self._options)

    @contextmanager
    def _telling(self) -> Iterator[None]:
        """Adds to what a queue refuses what can be done about it."""
        group = self._options.group
        try:
            yield
        except LeaseLost as error:
            text = (
                f"{error}; this checkpoint can't go on. Run one query only with group {group!r}; "
                f"to begin anew, choose another group, or give back what this one holds, by "
                f"cluster.priority({self._name!r}).group({group!r}).release(), and give the query "
                "a new checkpointLocation, and Parquet a new folder"
            )
            raise LeaseLost(text) from None
        except OutcomeUnknown as error:
            text = (
                f"queue {self._name!r} gave no answer within {self._timeout:g} s (option timeout)"
            )
            advice = "when its nodes run (`snowmelt status`), start the query again: it goes on"
            raise OutcomeUnknown(f"{text}: {error}; {advice}") from None


def _queue(options: SourceOptions) -> PriorityQueue:
    return cluster_at(options.connection).priority(options.queues[0])


def _group(options: SourceOptions) -> PriorityGroup:
    return _queue(options).group(options.group)


def settings_of(options: SourceOptions) -> QueueSettings:
    return _queue(options).stats(timeout=options.connection.timeout).settings


def _parts(note: Note, rows: int) -> Iterator[Note]:
    row_bytes = max(1, note.bytes // max(1, note.count))
    yield from parts_of(note, max(1, min(rows, BYTES // row_bytes)))


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
