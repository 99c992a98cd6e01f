"""How far a stream is behind: what its source says in each progress report, and who keeps it.

A Python source can't have metrics of its own. But Spark puts `reportLatestOffset` into each report
as it is, so what waits travels there:

    {"v": 1, "group": "spark", "queues": {"raw": {"ready": 1200}}}

It is what each queue said when it gave the last batch, as Spark's own source for Kafka has it: to
ask them anew would cost a stream of a thousand queues a fifth of its trigger.
"""

import threading
from collections import Counter
from collections.abc import Mapping
from typing import Any

import msgspec
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from snowmelt.protocols.queue.api.partition_names import whole_of
from snowmelt.spark.offsets import VERSION


class QueueBacklog(msgspec.Struct, frozen=True):
    """What waits in one queue."""

    ready: int


class GroupBacklog(msgspec.Struct, frozen=True):
    """What waits for one group."""

    v: int
    group: str
    queues: dict[str, QueueBacklog]


class QueryLag(msgspec.Struct, frozen=True):
    """How one query stood at its last report."""

    id: str
    name: str
    batch: int
    queues: dict[str, int]
    """How many items waited in each queue behind the last batch."""
    rows_per_second: float

    @property
    def backlog(self) -> int:
        """How many items waited in all its queues."""
        return sum(self.queues.values())


def report(group: str, ready: Mapping[str, int]) -> dict[str, Any] | None:
    """What waits in each queue, in all its partitions; None before one has said it.

    >>> report("spark", {"raw": 1200})
    {'v': 1, 'group': 'spark', 'queues': {'raw': {'ready': 1200}}}
    >>> report("spark", {"log/0": 3, "log/1": 4})["queues"]
    {'log': {'ready': 7}}
    """
    if not ready:
        return None
    counts = Counter[str]()
    for name, count in ready.items():
        counts[whole_of(name)] += count
    waiting = {name: QueueBacklog(count) for name, count in counts.items()}
    told: dict[str, Any] = msgspec.to_builtins(GroupBacklog(VERSION, group, waiting))
    return told


def read_report(text: str | None) -> GroupBacklog | None:
    """Reads what `report` returned; None for another source's text.

    >>> read_report('{"v":1,"group":"g","queues":{"raw":{"ready":3}}}').queues
    {'raw': QueueBacklog(ready=3)}
    >>> read_report('{"offset": 4}')
    """
    try:
        return msgspec.json.decode(text or "", type=GroupBacklog)
    except msgspec.MsgspecError:
        return None


class Lag(StreamingQueryListener):
    """Keeps how far each running query is behind, by its name or its id.

    lag = Lag()
    spark.streams.addListener(lag)
    ...
    lag.of("tracks").backlog
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()  # Spark reports from a thread of its own
        self._behind: dict[str, QueryLag] = {}

    def of(self, query: str) -> QueryLag | None:
        """How a query stood at its last report; None before the first, and after its end."""
        return next((one for one in self.all() if query in (one.name, one.id)), None)

    def all(self) -> list[QueryLag]:
        """All queries that run and have a queue as a source, the earliest to report first."""
        with self._lock:
            return list(self._behind.values())

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802  # Spark's word
        """Does nothing: the first report comes with the first batch."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        """A batch is over, or the query is idle."""
        progress = event.progress
        reports = [read_report(source.latestOffset) for source in progress.sources]
        queues = {
            name: waiting.ready
            for one in reports
            if one is not None
            for name, waiting in one.queues.items()
        }
        if not queues:
            return
        identity = str(progress.id)
        rate = progress.processedRowsPerSecond
        behind = QueryLag(identity, progress.name or identity, progress.batchId, queues, rate)
        with self._lock:
            self._behind[identity] = behind

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        """Nothing came; the last report stands."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """It has no lag any more."""
        with self._lock:
            self._behind.pop(str(event.id), None)
