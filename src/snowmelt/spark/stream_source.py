"""`spark.readStream`: a group of the queue, read as a stream, exactly once.

What a micro-batch is, the queue decides and remembers: `advance` gives items to the group for good,
and an offset only says how many they are by now. So the offsets in a checkpoint are enough to read
the very same rows again, whatever happened in between.

When a batch is done with, the group must say so, or the queue keeps it for ever. Spark calls
`commit(end)` only as it makes the next batch: never for the last one of a run, nor while nothing
comes. But `latestOffset(start)` is called after the commit log has `start`, also while the stream
is idle, and once more at the end of a run. So `start` itself is the acknowledgement.

A checkpoint may be older than the queues: a copy was brought back, or a power cut took the end of
Spark's logs. Then a batch was planned that it does not know, and may be in a sink under the number
that the next batch gets. If the group is done with it, the queue refuses. Else the queue knows what
was located, which was in that batch; and the first batch of a reader is made of that and of nothing
else, whatever has come meanwhile. So it is the same batch again, under the same number.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from snowmelt.client.fifo import Fifo
from snowmelt.client.group_steps import BEGINNING, EVERYTHING, Advance, Mark
from snowmelt.core.errors import LeaseLost, OutcomeUnknown
from snowmelt.spark.columns import readable
from snowmelt.spark.connections import cluster_at
from snowmelt.spark.errors import plainly
from snowmelt.spark.lag import report
from snowmelt.spark.limiting import at_most, usual
from snowmelt.spark.naming import check_queues, queue_names
from snowmelt.spark.offsets import Offset, told
from snowmelt.spark.options import SourceOptions, source_options
from snowmelt.spark.partitions import Found, claimed, portions
from snowmelt.spark.reading import report_loss, rows_of

_NOWHERE: Final = 0


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """One group's reading of its queues, as Spark drives it: one process on the driver.

    Options are read by the first call, not here: Spark hides what is raised while it makes one.
    """

    def __init__(self, given: Mapping[str, str], schema: StructType) -> None:
        self._given = dict(given)
        self._asked = schema
        self._pinned: dict[str, int] | None = None
        self._acknowledged = Offset("")
        self._begun = False
        """Whether it has told how far it is: from then on it knows what it planned."""

    @cached_property
    def _options(self) -> SourceOptions:
        return source_options(self._given)

    @cached_property
    def _schema(self) -> pa.Schema:
        return readable(self._asked)

    # --- how far ----------------------------------------------------------------------------------

    @plainly()
    def initialOffset(self) -> dict[str, Any]:  # noqa: N802  # Spark's word
        """The beginning, which is the same however often it is asked for."""
        _ = self._schema
        check_queues(self._options)
        return Offset(self._options.group).told()

    @plainly()
    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """What the options say of one micro-batch."""
        return usual(self._options)

    @plainly()
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Pins the tail of each queue that is there: what comes later is for the next run."""
        _ = self._schema
        check_queues(self._options)
        names = queue_names(self._options)
        self._pinned = {name: self._queue(name).stats(timeout=self._timeout).tail for name in names}

    @plainly()
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Done with all up to `start`; what is the group's own after that."""
        before = told(start, self._options.group)
        reading = queue_names(self._options) if self._pinned is None else tuple(self._pinned)
        # A queue that is not read any more may still hold a batch that was planned.
        names = in_turn(sorted({*reading, *before.marks}), before)
        marks = self._planned(names, before)
        if not marks:
            rows, size = self._limits(limit, len(names))
            for place, name in enumerate(names):
                done = before.mark(name)
                share = min(rows, -(-rows // (len(names) - place)))
                end = self._advance(name, done, share if name in reading else 0, size).end
                rows = max(0, rows - (end.count - done.count))
                if end != BEGINNING:
                    marks[name] = end
        self._acknowledged, self._begun = before, True
        return Offset(before.group, {**before.marks, **marks}).told()

    def _planned(self, names: list[str], before: Offset) -> dict[str, Mark]:
        """What of several queues was in a batch that the checkpoint may not know.

        With one queue there is no need to ask: what it gave is told again, with nothing added.
        """
        marks: dict[str, Mark] = {}
        if self._begun or len(names) < 2:
            return marks
        for name in names:
            done = before.mark(name)
            told = self._advance(name, done, 0, EVERYTHING)
            if told.end.count > done.count and told.located > done.count:
                marks[name] = told.end
        return marks

    @plainly()
    def commit(self, end: dict[str, Any]) -> None:
        """Done with all up to `end`; most often said already, by `latestOffset`."""
        done = told(end, self._options.group)
        if done == self._acknowledged:
            return
        for name, mark in done.marks.items():
            self._advance(name, mark, 0, EVERYTHING)
        self._acknowledged = done

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """What waits, for the progress report. See `lag.py`."""
        with plainly():
            names = queue_names(self._options)
            return report(self._options.group, map(self._queue, names))

    # --- which rows -------------------------------------------------------------------------------

    @plainly()
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """A partition for each run of the items between two offsets; the same ones every time."""
        options = self._options
        before, after = told(start, options.group), told(end, options.group)
        found: list[Found] = []
        for name, mark in after.marks.items():
            done = before.mark(name)
            if mark == done:
                continue
            found += self._claimed(name, done, mark)
            lost = mark.count - done.count - sum(one.rows for one in found if one.queue == name)
            if lost:
                text = (
                    f"{lost} of {mark.count - done.count} items of queue {name!r} that group "
                    f"{options.group!r} was given are gone: lost with all copies"
                )
                report_loss(text, options)
        return [InputPartition(portion) for portion in portions(found, options.partitions_min)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one partition, on an executor."""
        with plainly():
            if partition.value is not None:
                yield from rows_of(partition.value, self._options, self._schema)

    def stop(self) -> None:
        """Nothing is held here: the group keeps what it was given, and goes on where it was."""

    # --- asking -----------------------------------------------------------------------------------

    @property
    def _timeout(self) -> float:
        return self._options.connection.timeout

    def _queue(self, name: str) -> Fifo:
        return cluster_at(self._options.connection).fifo(name)

    def _limits(self, limit: ReadLimit, queues: int) -> tuple[int, int]:
        """Rows in all, and bytes of each queue: the limit that Spark gives, and the options'."""
        rows, size = at_most(limit, self._options)
        return rows, size if size == EVERYTHING else max(1, size // max(1, queues))

    def _advance(self, name: str, done: Mark, rows: int, size: int) -> Advance:
        below = _NOWHERE
        if self._pinned is not None:
            below = self._pinned.get(name, _NOWHERE)
            rows = rows if below != _NOWHERE else 0  # below 0 would be anywhere
        group = self._queue(name).group(self._options.group)
        with self._telling(name):
            return group.advance(
                done, items_max=rows, bytes_max=size, below=below, timeout=self._timeout
            )

    def _claimed(self, name: str, done: Mark, end: Mark) -> list[Found]:
        options = self._options
        with self._telling(name):
            return list(claimed(self._queue(name), options.group, done, end, self._timeout))

    @contextmanager
    def _telling(self, name: str) -> Iterator[None]:
        """Adds to what a queue refuses what can be done about it."""
        try:
            yield
        except LeaseLost as error:
            raise LeaseLost(f"{error}; {self._way_out(name)}") from None
        except OutcomeUnknown as error:
            text = f"queue {name!r} gave no answer within {self._timeout:g} s (option timeout)"
            advice = "when its nodes run (`snowmelt status`), start the query again: it goes on"
            raise OutcomeUnknown(f"{text}: {error}; {advice}") from None

    def _way_out(self, name: str) -> str:
        group = self._options.group
        return (
            f"this checkpoint can't go on. Run one query only with group {group!r}; to begin anew, "
            f"run `snowmelt groups release {name} {group}` or choose another group, and give the "
            "query a new checkpointLocation"
        )


def in_turn(names: list[str], before: Offset) -> list[str]:
    """Queues in the order in which they are asked: where few rows are to be had, each has its turn.

    >>> [in_turn(["a", "b", "c"], Offset("g", {"a": Mark(1, count)}))[0] for count in range(4)]
    ['a', 'b', 'c', 'a']
    """
    first = sum(mark.count for mark in before.marks.values()) % max(1, len(names))
    return names[first:] + names[:first]
