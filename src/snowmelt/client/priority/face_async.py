"""A priority queue as a program holds it, with `await`."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from snowmelt.client.connection.session import TIMEOUT
from snowmelt.client.connection.steps import KeepingPort, Steps, run_async
from snowmelt.client.connection.waits import Wait
from snowmelt.client.fifo.steps import with_ranks
from snowmelt.client.leases.steps import Seen, checked_count
from snowmelt.client.priority.steps import RankedSteps
from snowmelt.client.queue.bodies import as_unique
from snowmelt.client.queue.codecs import PLAIN, ValueCodec
from snowmelt.client.queue.face_async import Queue
from snowmelt.client.queue.group_steps import GroupBodies
from snowmelt.client.queue.options import Key
from snowmelt.client.queue.ranks import RANK_HIGHEST, checked_share
from snowmelt.client.queue.staging_steps import HOLD
from snowmelt.client.tracing import UNTRACED, Tracing
from snowmelt.core.batch import Batch
from snowmelt.core.interval import Interval, Position
from snowmelt.protocols.queue.api.calls import Receipt, Span
from snowmelt.protocols.queue.api.labels import Labels


class PriorityQueue(Queue[RankedSteps]):
    """Most urgent first, made on first use. `cluster.priority(name)` gives it.

    The least priority is the most urgent, or the largest with `largest_first`; within one priority
    items come in the order in which they were put, and what was given back comes ahead of later
    ones.

    `timeout` is how many seconds a call may take; 0 means that nothing is waited for but the
    answer. Tasks may share a queue; what they ask at once goes together. Reading makes no queue:
    a get waits for a queue that is not there as it waits for its items.

    >>> import snowmelt.aio, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     async with snowmelt.aio.open(folder) as cluster:
    ...         jobs = cluster.priority("jobs")
    ...         _ = await jobs.put(b"sweep", priority=2)
    ...         _ = await jobs.put_many([(2, b"dust"), (-5, b"fire")])
    ...         async for item in jobs.consume(timeout=0):
    ...             print(item.priority, item.body)
    ...             await item.ack()
    -5 b'fire'
    2 b'sweep'
    2 b'dust'
    """

    def __init__(
        self,
        port: KeepingPort,
        steps: RankedSteps,
        codec: ValueCodec = PLAIN,
        tracing: Tracing = UNTRACED,
    ) -> None:
        super().__init__(port, steps, codec, tracing)
        self._first = self._puts

    async def put(  # noqa: PLR0913 - all that a put says
        self,
        body: Any,
        *,
        priority: float = 0,
        key: Key | None = None,
        headers: Mapping[str, str | bytes] | None = None,
        delay: float = 0.0,
        timeout: float = TIMEOUT,
        sequence: int | None = None,
        unique: Key | None = None,
        unique_for: float = 0.0,
    ) -> Position:
        """Puts an item; returns its position in its priority once it is safe. Raises `Full`.

        After `delay` seconds it may be delivered. Of any priorities positions count together.
        `key`, `sequence` and `unique` are as a fifo has them.
        """
        with self.tracing.put(self._steps.name, headers) as traced:
            labels = traced.headers
            one = self._steps.one(self._codec.body(body), priority, labels, delay, timeout, key)
            return await self._put_one(one, sequence, unique, unique_for)

    async def put_many(  # noqa: PLR0913 - all that a put says
        self,
        items: Iterable[Any] | Batch,
        *,
        priority: float | None = None,
        key: Key | Sequence[Key | None] | None = None,
        headers: Mapping[str, str | bytes] | None = None,
        delay: float = 0.0,
        timeout: float = TIMEOUT,
        sequence: int | None = None,
        unique: Key | None = None,
        unique_for: float = 0.0,
    ) -> tuple[Interval, ...]:
        """Puts bodies of one priority, or pairs of a priority and a body.

        `key` is that of all of them, or a list with the key of each.

        Returns where they are, as `Items.positions` does: an interval for each priority, the
        most urgent first.

        Up to 8 MiB and 32,768 items are one call, and in the queue together or not at all. More are
        several calls, each with its own `timeout`; when one fails, those before it are in the queue
        (a note of the exception says how many). With `sequence`, more than one call is refused as
        `TooLarge`.

        >>> import snowmelt.aio, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     async with snowmelt.aio.open(folder) as cluster:
        ...         jobs = cluster.priority("jobs", priorities=3)
        ...         await jobs.put_many([(2, b"dust"), (0, b"fire"), (2, b"sweep")])
        (Interval(start=0, stop=1), Interval(start=0, stop=2))
        """
        with self.tracing.put(self._steps.name, headers) as traced:
            rows, own = self._codec.pairs(items, priority), as_unique(unique, unique_for)
            puts = self._steps.put_ranked(
                rows, priority, traced.headers, delay, timeout, sequence, key, unique=own
            )
            return await run_async(self._port, puts)

    async def stage(
        self,
        items: Iterable[Any] | Batch,
        *,
        priority: float | None = None,
        headers: Mapping[str, str | bytes] | Labels | None = None,
        delay: float = 0.0,
        hold: float = HOLD,
        timeout: float = TIMEOUT,
    ) -> list[Receipt]:
        """Stores items safely, and in no queue: `publish` puts them there by their receipts.

        What is not published within `hold` seconds is erased.
        """
        rows = self._codec.pairs(items, priority)
        steps = self._steps.stage(rows, priority, headers, delay, hold, timeout)
        return await run_async(self._port, steps)

    def _read(self, spans: Iterable[Span], bytes_max: int) -> Steps[GroupBodies]:
        """With what their priorities mean."""
        ranks = yield from self._steps.known(Wait(TIMEOUT))
        reading = yield from super()._read(spans, bytes_max)
        return GroupBodies(with_ranks(reading.parts, ranks), reading.unread)

    async def select(self, rank: int, *, timeout: float = TIMEOUT) -> Seen | None:
        """The item of this rank among those that are ready, 1 being the next; it stays there.

        None when fewer are ready.
        """
        checked_count("rank", rank, RANK_HIGHEST)
        return await run_async(self._port, self._steps.select(rank, None, timeout))

    async def last(self, priority: float, *, timeout: float = TIMEOUT) -> Seen | None:
        """The item of this priority that was put last, of those that are ready; it stays there.

        So a priority may be a key: a queue that nobody gets from is a table of the latest values.
        None when none of this priority is ready.

        >>> import snowmelt.aio, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     async with snowmelt.aio.open(folder) as cluster:
        ...         table = cluster.priority("table")
        ...         _ = await table.put_many([(7, b"old"), (-3, b"other"), (7, b"new")])
        ...         found = await table.last(7)
        ...         found.body, await table.last(8)
        (b'new', None)
        """
        return await run_async(self._port, self._steps.last(priority, timeout))

    async def quantile(self, share: float, *, timeout: float = TIMEOUT) -> Seen | None:
        """The item behind this share of those that are ready: 0.5 is the median.

        None when none is ready.
        """
        checked_share(share)
        return await run_async(self._port, self._steps.select(0, share, timeout))
