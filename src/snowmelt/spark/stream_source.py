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
was located, which was in that batch: it is refused too (`older.py`), or planned again on request.
Then the first batch of a reader is made of that and of nothing else, whatever has come meanwhile.
So it is the same batch again, under the same number.
"""

import time
from abc import abstractmethod
from collections.abc import Awaitable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from itertools import chain
from typing import Any, Final, TypeVar

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from snowmelt.client.cluster_async import Cluster
from snowmelt.client.queue.group_steps import BEGINNING, EVERYTHING, GroupRange, Mark
from snowmelt.core.errors import LeaseLost, OutcomeUnknown
from snowmelt.protocols.queue.api.calls import QueueStatus
from snowmelt.protocols.queue.api.settings import QueueSettings
from snowmelt.spark.batch_size import BatchSize
from snowmelt.spark.columns import check_priority, readable, source_schema
from snowmelt.spark.connections import PlannedPart, check_queues, cluster_at, known, queue_names
from snowmelt.spark.errors import plainly
from snowmelt.spark.lag import report
from snowmelt.spark.offsets import Offset, told
from snowmelt.spark.older import check_newest
from snowmelt.spark.options import PRIORITY, SourceOptions, source_options
from snowmelt.spark.partitions import LocatedItems, Tasks, claimed, tasks
from snowmelt.spark.reader_function import ReaderFunction
from snowmelt.spark.reading import report_loss, rows_of
from snowmelt.spark.settling import settling
from snowmelt.spark.several import Ask, asked, identity_at, queue_of, shared_out

_NOWHERE: Final = (0,)
T = TypeVar("T")


def usual(options: SourceOptions) -> ReadLimit:
    if options.rows_max:
        return ReadMaxRows(options.rows_max)
    if options.bytes_max:
        return ReadMaxBytes(options.bytes_max)
    return ReadAllAvailable()


def at_most(limit: ReadLimit, options: SourceOptions) -> tuple[int, int]:
    """Rows and bytes in all."""
    if isinstance(limit, ReadAllAvailable):
        return EVERYTHING, EVERYTHING
    rows = limit.max_rows if isinstance(limit, ReadMaxRows) else options.rows_max
    size = limit.max_bytes if isinstance(limit, ReadMaxBytes) else options.bytes_max
    return rows or EVERYTHING, size or EVERYTHING


class GroupReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """What both kinds of queues have in common.

    Options are read by the first call, not here: Spark hides what is raised while it makes one.
    """

    def __init__(self, given: Mapping[str, str], schema: StructType) -> None:
        self._given = dict(given)
        self._asked = schema
        self._acknowledged = Offset("")
        self._begun = False
        """Whether it has reported how far it is: from then on it knows what it planned."""

    @cached_property
    def _options(self) -> SourceOptions:
        return source_options(self._given)

    @property
    def _timeout(self) -> float:
        return self._options.connection.timeout

    @plainly()
    def initialOffset(self) -> dict[str, Any]:  # noqa: N802  # Spark's word
        """The beginning, which is the same however often it is asked for."""
        self._check()
        return Offset(self._options.group).told()

    @plainly()
    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return usual(self._options)

    @abstractmethod
    def _check(self) -> None:
        """Raises for a queue that is not there, and for columns that it has not."""

    def stop(self) -> None:
        """Nothing is held here: the group keeps what it was given, and goes on where it was."""


class StreamReader(GroupReader):
    """One group's reading of its queues, as Spark drives it: one process on the driver."""

    def __init__(
        self, given: Mapping[str, str], schema: StructType, inside: ReaderFunction | None = None
    ) -> None:
        super().__init__(given, schema)
        self._inside = inside
        self._pinned: dict[str, tuple[int, ...]] | None = None
        self._pace: BatchSize | None = None
        self._ready: dict[str, int] = {}
        """How many items waited in each queue, by the last that it said."""
        self._named: tuple[str, ...] = ()
        """The queues that are named, by partitions, once that was asked."""

    @cached_property
    def _schema(self) -> pa.Schema:
        if self._inside is not None:
            return readable(source_schema(self._options.headers))
        return readable(self._asked, urgent=self._options.kind == PRIORITY)

    def _check(self) -> None:
        _ = self._schema
        check_queues(self._options)
        if "priority" in self._asked.names:
            for name in self._options.queues:
                settings = settings_of(self._options, name)
                check_priority(self._asked["priority"], name, settings)

    def _reading(self) -> tuple[str, ...]:
        """Which queues it reads; a pattern may fit more by now, and what is named stays."""
        if self._options.pattern or not self._named:
            self._named = queue_names(self._options)
        return self._named

    # --- how far ----------------------------------------------------------------------------------

    @plainly()
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Pins the tail of each queue that is there: what comes later is for the next run."""
        self._check()
        names = self._reading()
        told = self._each(names, self._stats)
        self._pinned = {name: one.bounds for name, one in told.items()}
        self._ready = {name: one.ready for name, one in told.items()}

    @plainly()
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Done with all up to `start`; what is the group's own after that."""
        before = told(start, self._options.group)
        pace = self._paced(before, limit)
        if pace is not None:
            pace.over(time.monotonic())
        reading = self._reading() if self._pinned is None else tuple(self._pinned)
        # A queue that is not read any more may still hold a batch that was planned.
        names = in_turn(sorted({*reading, *before.marks}), before)
        marks = {} if self._begun else self._planned(names, before)
        check_newest(marks, before.marks, self._options)
        if not marks:
            marks = self._taken(names, frozenset(reading), before, limit)
        self._acknowledged, self._begun = before, True
        rows = sum(mark.count - before.mark(name).count for name, mark in marks.items())
        if pace is not None:
            pace.given(rows, time.monotonic())
        kept = pace.a_core if pace is not None and rows else before.rows_a_core
        return Offset(before.group, {**before.marks, **marks}, kept).told()

    def _planned(self, names: list[str], before: Offset) -> dict[str, Mark]:
        """What was in a batch that the checkpoint does not know, by queue."""
        told = self._advanced({name: (before.mark(name), 0) for name in names}, EVERYTHING)
        marks = {}
        for name, one in told.items():
            done = before.mark(name)
            if one.end.count > done.count and one.located > done.count:
                marks[name] = one.end
        return marks

    def _taken(
        self, names: list[str], reading: frozenset[str], before: Offset, limit: ReadLimit
    ) -> dict[str, Mark]:
        """How far each queue is given to the group, all of them asked at once.

        Where rows are bounded and the queues several, each is asked for its share of what waits. By
        the last they said, if that is enough; else they tell first. Some of it may have gone to
        others, or be for a later run, so who got no share is asked again while rows are left.
        """
        rows, size = self._limits(limit, len(names))
        waiting: dict[str, int] = {}
        fresh = False
        if self._pace is not None or (len(names) > 1 and rows != EVERYTHING):
            waiting, fresh = self._known(reading, rows)
        if self._pace is not None:
            rows = min(rows, self._pace.of(sum(waiting.values())))

        def given(shares: Mapping[str, int]) -> dict[str, Mark]:
            asks = {name: (before.mark(name), share) for name, share in shares.items()}
            return {name: one.end for name, one in self._advanced(asks, size).items()}

        if len(names) == 1 or rows == EVERYTHING:
            ends = given({name: rows if name in reading else 0 for name in names})
            return {name: end for name, end in ends.items() if end != BEGINNING}
        shares = shared_out(rows, waiting, names)
        ends = given({name: shares[name] for name in names})
        left = rows - sum(end.count - before.mark(name).count for name, end in ends.items())
        if left > 0 and not fresh:
            waiting = self._waiting(reading)
        for name in names:
            if left > 0 and not shares[name] and waiting.get(name):
                ends |= given({name: left})
                left -= ends[name].count - before.mark(name).count
        return {name: end for name, end in ends.items() if end != BEGINNING}

    @plainly()
    def commit(self, end: dict[str, Any]) -> None:
        """Done with all up to `end`; most often said already, by `latestOffset`."""
        done = told(end, self._options.group)
        if done == self._acknowledged:
            return
        self._advanced({name: (mark, 0) for name, mark in done.marks.items()}, EVERYTHING)
        self._acknowledged = done

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """What waits, for the progress report. See `lag.py`."""
        return report(self._options.group, self._ready)

    # --- which rows -------------------------------------------------------------------------------

    @plainly()
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """A partition for each run of the items between two offsets; the same ones every time."""
        options = self._options
        before, after = told(start, options.group), told(end, options.group)
        moved = [name for name, mark in after.marks.items() if mark != before.mark(name)]
        claims = self._each(
            moved, lambda at, name: self._claimed(at, name, before.mark(name), after.mark(name))
        )
        found = list(chain.from_iterable(claims.values()))
        for name in moved:
            done, mark = before.mark(name), after.mark(name)
            lost = mark.count - done.count - sum(one.rows for one in claims[name])
            if lost:
                text = (
                    f"{lost} of {mark.count - done.count} items of queue {name!r} that group "
                    f"{options.group!r} was given are gone: lost with all copies"
                )
                report_loss(text, options)
        wanted = Tasks(options.partitions_min, options.cores)
        place = known(options.connection, identity_at(options.connection))
        return [PlannedPart(task, place) for task in tasks(found, wanted)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        with plainly(), settling():
            if isinstance(partition, PlannedPart):
                rows = rows_of(partition.value, partition.there(self._options), self._schema)
                if self._inside is not None:
                    rows = self._inside.made(rows, to_arrow_schema(self._asked, timezone="UTC"))
                yield from rows

    # --- asking -----------------------------------------------------------------------------------

    def _each(self, names: Iterable[str], ask: Ask[str, T]) -> dict[str, T]:
        """What each queue answers, all asked at once; adds what can be done where one refuses."""

        async def telling(cluster: Cluster, name: str) -> T:
            with self._telling(name):
                return await ask(cluster, name)

        every = list(names)
        return dict(zip(every, asked(self._options.connection, every, telling), strict=True))

    def _stats(self, cluster: Cluster, name: str) -> Awaitable[QueueStatus]:
        return queue_of(cluster, name, self._options.kind).stats(timeout=self._timeout)

    def _waiting(self, names: Iterable[str]) -> dict[str, int]:
        return {name: told.ready for name, told in self._each(names, self._stats).items()}

    def _paced(self, before: Offset, limit: ReadLimit) -> BatchSize | None:
        """How large batches are; the first of a run is as large as the last run found."""
        options = self._options
        if options.batch_seconds and self._pace is None:
            rows, _ = at_most(limit, options)
            self._pace = BatchSize(options.batch_seconds, options.cores, rows, before.rows_a_core)
        return self._pace

    def _known(self, reading: frozenset[str], rows: int) -> tuple[dict[str, int], bool]:
        """How many items wait in each queue, and whether the queues answered now.

        What they said when they gave the last batch is as old as that: since then another stage may
        have put all that it made. If that alone is enough for a batch, they need not be asked.
        """
        rows = rows if self._pace is None else min(rows, self._pace.rows)
        waiting = {name: self._ready.get(name, 0) for name in reading}
        if sum(waiting.values()) >= rows:
            return waiting, False
        return self._waiting(reading), True

    def _limits(self, limit: ReadLimit, queues: int) -> tuple[int, int]:
        """Rows in all, and bytes of each queue: the limit that Spark gives, and the options'."""
        options = self._options
        rows, size = at_most(limit, options)
        return rows, size if size == EVERYTHING else max(1, size // max(1, queues))

    def _advanced(self, asks: Mapping[str, tuple[Mark, int]], size: int) -> dict[str, GroupRange]:
        """Each queue's group is done with all up to a mark, and asks for so many rows more."""

        def advance(cluster: Cluster, name: str) -> Awaitable[GroupRange]:
            done, rows = asks[name]
            below = () if self._pinned is None else self._pinned.get(name, _NOWHERE)
            group = queue_of(cluster, name, self._options.kind).group(self._options.group)
            return group.advance(
                done, items_max=rows, bytes_max=size, below=below, timeout=self._timeout
            )

        told = self._each(asks, advance)
        self._ready |= {name: one.ready for name, one in told.items()}
        return told

    async def _claimed(
        self, cluster: Cluster, name: str, done: Mark, end: Mark
    ) -> list[LocatedItems]:
        queue, options = queue_of(cluster, name, self._options.kind), self._options
        return [one async for one in claimed(queue, options.group, done, end, self._timeout)]

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
            f"this checkpoint can't go on. Run one query only with group {group!r}, and load a "
            "queue once only in it, or each time with a group of its own; to begin anew, run "
            f"`snowmelt groups release {name} {group}` or choose another group, and give the "
            "query a new checkpointLocation, and Parquet a new folder"
        )


def settings_of(options: SourceOptions, name: str) -> QueueSettings:
    """Those of a queue with priorities."""
    jobs = cluster_at(options.connection).priority(name)
    return jobs.stats(timeout=options.connection.timeout).settings


def in_turn(names: list[str], before: Offset) -> list[str]:
    """Queues in the order in which they are asked: where few rows are to be had, each has its turn.

    >>> [in_turn(["a", "b", "c"], Offset("g", {"a": Mark(1, count)}))[0] for count in range(4)]
    ['a', 'b', 'c', 'a']
    """
    first = sum(mark.count for mark in before.marks.values()) % max(1, len(names))
    return names[first:] + names[:first]
