"""What a get gives a person: one `Item`, or `Items` under one lease, with `await`.

Items know how to be acknowledged, but not by what way: that is the matter of their sender. An
`ImmediateSender` sends each word, and waits until it is taken; `consume` has another, which gathers
acknowledgements (see `consuming.py`).
"""

from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from itertools import starmap
from typing import Protocol, Self

from snowmelt.client.coalescing.joint_acks import Acks
from snowmelt.client.coalescing.tasks import TaskCoalescer
from snowmelt.client.connection.steps import KeepingPort, run_async
from snowmelt.client.leases.delivered import LeasedItems, items_of, part_bodies
from snowmelt.client.leases.reasons import failure_text, told_reason
from snowmelt.client.leases.steps import RELEASED, LeaseSteps, ReturnOptions
from snowmelt.client.leases.views import ItemOrigin, ItemsView, ItemView
from snowmelt.client.queue.codecs import PLAIN, ValueCodec
from snowmelt.client.tracing import UNTRACED, Tracing
from snowmelt.core.errors import BadOption, SnowmeltError
from snowmelt.core.interval import Interval


class UpdateSender(ItemOrigin, Protocol):
    """Where words about a lease are handed in."""

    port: KeepingPort
    """By which it sends."""
    steps: LeaseSteps
    """The queue that they are from."""

    @property
    def queue(self) -> str:
        """The name of the queue that they are from."""
        return self.steps.name

    def ended(self, delivered: LeasedItems, done: tuple[Interval, ...]) -> None:
        """Some were acknowledged in another way."""

    async def done(self, delivered: LeasedItems, position: int, *, wait: bool) -> None:
        """Acknowledges one item of a lease."""

    async def ack(self, delivered: LeasedItems, where: Interval | None) -> None:
        """Done with these, or with all."""

    async def give_back(
        self, delivered: LeasedItems, where: Interval | None, how: ReturnOptions = RELEASED
    ) -> None:
        """Returns items; others may get them after the delay."""

    async def extend(
        self, delivered: LeasedItems, lease: float | None = None, alone: Interval | None = None
    ) -> None:
        """Extends the lease by its whole length, or for so many seconds; or these of it alone."""


class ImmediateSender(UpdateSender):
    """Sends every word, acknowledgements together, and waits until it is taken."""

    def __init__(
        self,
        port: KeepingPort,
        steps: LeaseSteps,
        codec: ValueCodec = PLAIN,
        tracing: Tracing = UNTRACED,
    ) -> None:
        self.codec = codec
        self._tracing = tracing
        self.port = port
        self.steps = steps
        self._kind = Acks(steps)
        self._acks = TaskCoalescer(port, self._kind)

    async def done(self, delivered: LeasedItems, position: int, *, wait: bool) -> None:
        """Acknowledges one item of a lease."""
        del wait  # it does, always
        await self.ack(delivered, Interval(position, position + 1))

    async def ack(self, delivered: LeasedItems, where: Interval | None) -> None:
        """Done with these, or with all."""
        with self._tracing.settle(self.steps.name, "ack", delivered, where):
            delivered.check_process()
            done = delivered.open_in(where)
            asked = self._kind.asked(delivered, done) if done else None
            if asked is None:
                await run_async(self.port, self.steps.ack(delivered, where))
            else:
                await self._acks.ask(asked)
                delivered.check_kept(where)

    async def give_back(
        self, delivered: LeasedItems, where: Interval | None, how: ReturnOptions = RELEASED
    ) -> None:
        """Returns items; others may get them after the delay."""
        word = "release" if how == RELEASED else "nack"
        with self._tracing.settle(self.steps.name, word, delivered, where):
            await run_async(self.port, self.steps.give_back(delivered, where, how))

    async def extend(
        self, delivered: LeasedItems, lease: float | None = None, alone: Interval | None = None
    ) -> None:
        """Extends the lease by its whole length, or for so many seconds; or these of it alone."""
        if alone is None or lease is None:
            await run_async(self.port, self.steps.extend(delivered, lease))
        else:
            await run_async(self.port, self.steps.extend_alone(delivered, alone, lease))

    def ended(self, delivered: LeasedItems, done: tuple[Interval, ...]) -> None:
        """Some were acknowledged in another way."""
        delivered.settled(done)


class Item(ItemView[UpdateSender]):
    """One item, leased. In an `async with`: acknowledged on leaving, given back on an exception.

    >>> import snowmelt.aio, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     async with snowmelt.aio.open(folder) as cluster:
    ...         orders = cluster.fifo("orders")
    ...         _ = await orders.put(b"one", headers={"kind": "order"})
    ...         async with await orders.get() as item:
    ...             print(item.body, item.position, item.headers, item.failures)
    b'one' 0 {'kind': 'order'} 0
    """

    __slots__ = ()

    async def ack(self, *, wait: bool = False) -> None:
        """It is done and never comes again. Raises `LeaseLost` when it is another's by now.

        Of a loop it is gathered: it is safe when the loop has ended, and a moment later
        otherwise. With `wait` it is when this returns, as it always is of an item of a get.
        """
        await self._counter.done(self.delivered, self._place, wait=wait)

    async def nack(self, delay: float = 0.0, reason: str = "", *, dead: bool = False) -> None:
        """It failed and is to be delivered again, not before `delay` seconds have passed.

        With `dead` it is set aside as dead at once, as after `max_deliveries`.
        """
        how = ReturnOptions(delay, told_reason(reason), dead)
        await self._counter.give_back(self.delivered, self._where(), how)

    async def release(self) -> None:
        """It goes back to its place as if it had not been taken; that counts as no failure."""
        await self._counter.give_back(self.delivered, self._where())

    async def extend(self, *, lease: float | None = None, alone: bool = False) -> None:
        """Its lease lasts the whole time again, and so does that of what came with it.

        With `lease` it ends so many seconds from now, be that later or sooner; with `alone` too
        only this item is leased so long, and what came with it as before. In a loop that says
        nothing: the loop extends what it has.
        """
        if alone and lease is None:
            raise BadOption("alone", alone, "True only with a lease of so many seconds")
        await self._counter.extend(self.delivered, lease, self._where() if alone else None)

    def _told_by(self, counter: UpdateSender) -> "Item":
        """The same item, about which another tells its queue."""
        return Item(counter, self.delivered, self._part, self.body, self._place)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        await leave(self, error)


class Items(ItemsView[UpdateSender]):
    """Items under one lease, made into objects only when iterated. `async with` as for an item.

    >>> import snowmelt.aio, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     async with snowmelt.aio.open(folder) as cluster:
    ...         orders = cluster.fifo("orders")
    ...         _ = await orders.put_many([b"one", b"two"])
    ...         async with await orders.get_many(100) as items:
    ...             print(len(items), items.batch, items.positions)
    2 Batch(2 items, 6 bytes) (Interval(start=0, stop=2),)
    """

    __slots__ = ()

    def __iter__(self) -> Iterator[Item]:
        return items_under(self._counter, self._delivered)

    def _told_by(self, counter: UpdateSender) -> "Items":
        """The same items, about which another tells their queue."""
        return Items(counter, self._delivered)

    async def ack(self) -> None:
        """All that is still open is done. Raises `LeaseLost` when it is another's by now."""
        await self._counter.ack(self._delivered, None)

    async def nack(self, delay: float = 0.0, reason: str = "") -> None:
        """All that is still open failed, and is to be delivered again after `delay` seconds."""
        how = ReturnOptions(delay, told_reason(reason))
        await self._counter.give_back(self._delivered, None, how)

    async def release(self) -> None:
        """All that is still open goes back as if it had not been taken."""
        await self._counter.give_back(self._delivered, None)

    async def extend(self) -> None:
        """What is still open is leased for the whole time again."""
        await self._counter.extend(self._delivered)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        await leave(self, error)


async def leave(held: Item | Items, error: BaseException | None) -> None:
    """What the end of an `async with` means: done; failed; or, when it was stopped, neither."""
    if error is None:
        await held.ack()
        return
    with suppress(SnowmeltError):  # the first failure is the one to raise
        if isinstance(error, Exception):
            await held.nack(reason=failure_text(error))
        else:
            await held.release()


def items_under(counter: UpdateSender, delivered: LeasedItems) -> Iterator[Item]:
    """All of a lease, made when they are wanted; threads may share it, as no generator is."""
    return starmap(partial(Item, counter, delivered), items_of(delivered.parts))


def only(counter: UpdateSender, delivered: LeasedItems) -> Item:
    """The first item of a lease on one."""
    part = delivered.parts[0]
    return Item(counter, delivered, part, part_bodies(part)[0], part.start)
