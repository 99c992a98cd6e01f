"""A fifo as a program holds it, with `await`."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from snowmelt.client.connection.session import TIMEOUT
from snowmelt.client.connection.steps import run_async
from snowmelt.client.fifo.steps import FifoSteps
from snowmelt.client.leases.delivered import held_elsewhere
from snowmelt.client.leases.items_async import Item, only
from snowmelt.client.queue.bodies import as_unique, parcels
from snowmelt.client.queue.face_async import Queue
from snowmelt.client.queue.options import Key, ProducerSequence
from snowmelt.client.queue.staging_steps import HOLD, stage
from snowmelt.core.batch import Batch
from snowmelt.core.interval import Interval, Position
from snowmelt.protocols.queue.api.calls import Receipt
from snowmelt.protocols.queue.api.labels import Labels


class Fifo(Queue[FifoSteps]):
    """A queue, first in first out, made on first use. `cluster.fifo(name)` gives it.

    `timeout` is how many seconds a call may take; 0 means that nothing is waited for but the
    answer. Tasks may share a fifo; what they ask at once goes together. Reading makes no queue: a
    get waits for a queue that is not there as it waits for its items.

    >>> import snowmelt.aio, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     async with snowmelt.aio.open(folder) as cluster:
    ...         orders = cluster.fifo("orders")
    ...         await orders.put(b"one"), await orders.put_many([b"two", b"three"])
    ...         async for item in orders.consume(timeout=0):
    ...             print(item.body)
    ...             await item.ack()
    (0, (Interval(start=1, stop=3),))
    b'one'
    b'two'
    b'three'
    """

    async def put(  # noqa: PLR0913 - all that a put says
        self,
        body: Any,
        *,
        key: Key | None = None,
        headers: Mapping[str, str | bytes] | None = None,
        delay: float = 0.0,
        timeout: float = TIMEOUT,
        sequence: int | None = None,
        unique: Key | None = None,
        unique_for: float = 0.0,
    ) -> Position:
        """Puts an item at the tail; returns its position once it is safe. Raises `Full`.

        `body` is bytes, or whatever the queue's codec writes. `key` says for whom it is, such as
        `"tenant-7"`: a queue may give out the items of a key in order, or within limits. After
        `delay` seconds it may be delivered. With a named producer, `sequence` makes it safe to put
        again after a restart: the same number is the same item. The call returns its position, or
        -1 when so much was put since that it is no longer remembered.

        While what was put under `unique` is in the queue, or for `unique_for` seconds if that is
        longer, nothing more is put under it: the call returns the position of what there is.
        """
        with self.tracing.put(self._steps.name, headers) as traced:
            labels = traced.headers
            one = self._steps.one(self._codec.body(body), None, labels, delay, timeout, key)
            return await self._put_one(one, sequence, unique, unique_for)

    async def put_many(  # noqa: PLR0913 - all that a put says
        self,
        bodies: Iterable[Any] | Batch,
        *,
        key: Key | Sequence[Key | None] | None = None,
        headers: Mapping[str, str | bytes] | None = None,
        delay: float = 0.0,
        timeout: float = TIMEOUT,
        sequence: int | None = None,
        unique: Key | None = None,
        unique_for: float = 0.0,
    ) -> tuple[Interval, ...]:
        """Puts items at the tail, in order; returns where they are once they are safe.

        `key` is that of all of them, or a list with the key of each.

        That is one interval in a tuple, as a priority queue returns one for each priority.

        Up to 8 MiB and 32,768 items are one call, and in the queue together or not at all. More are
        several calls, each with its own `timeout`. Others' items may then lie between the first
        position and the last. When a call fails, the items of those before it are in the queue (a
        note of the exception says where). With `sequence`, more than one call is refused as
        `TooLarge`. `unique` is one of all items together, as `put` has it; and one call too.
        """
        with self.tracing.put(self._steps.name, headers) as traced:
            rows, own = self._codec.bodies(bodies), as_unique(unique, unique_for)
            puts = self._steps.put_many(
                rows, traced.headers, delay, timeout, sequence, key=key, unique=own
            )
            return await run_async(self._port, puts)

    def leased(self, token: int, position: int, secret: bytes = b"") -> Item:
        """An item that another process got: with its `token` and `position` it is settled here.

        That process sends `token.secret` along: who does not know it settles nothing.

        Nothing is asked before it is acknowledged, given back or extended; what is not held any
        more is refused then. It comes without its body. The queue has one partition.

        >>> import snowmelt.aio, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     async with snowmelt.aio.open(folder) as cluster:
        ...         orders = cluster.fifo("orders")
        ...         _ = await orders.put(b"one")
        ...         item = await orders.get(lease=60)
        ...         await orders.leased(item.token, item.position).ack()
        ...         (await orders.stats()).done
        1
        """
        return only(self._sender, held_elsewhere(token, position, secret))

    async def stage(
        self,
        bodies: Iterable[Any] | Batch,
        *,
        headers: Mapping[str, str | bytes] | Labels | None = None,
        delay: float = 0.0,
        hold: float = HOLD,
        timeout: float = TIMEOUT,
    ) -> list[Receipt]:
        """Stores items safely, and in no queue: `publish` puts them there by their receipts.

        What is not published within `hold` seconds is erased.
        """
        own, rows = ProducerSequence(), self._codec.bodies(bodies)
        steps = stage(self._steps, own, parcels(rows), headers, delay, hold, timeout)
        return await run_async(self._port, steps)
