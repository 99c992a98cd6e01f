# Made of items_async.py by scripts/faces.py, which `make faces` runs: change it there.
"""What a get gives a person: one `Item`, or `Items` under one lease; blocking.

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
from snowmelt.client.coalescing.threads import ThreadCoalescer
from snowmelt.client.connection.steps import Port, run
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

    port: Port
    """By which it sends."""
    steps: LeaseSteps
    """The queue that they are from."""

    @property
    def queue(self) -> str:
        """The name of the queue that they are from."""
        return self.steps.name

    def ended(self, delivered: LeasedItems, done: tuple[Interval, ...]) -> None:
        """Some were acknowledged in another way."""

    def done(self, delivered: LeasedItems, position: int, *, wait: bool) -> None:
        """Acknowledges one item of a lease."""

    def ack(self, delivered: LeasedItems, where: Interval | None) -> None:
        """Done with these, or with all."""

    def give_back(
        self, delivered: LeasedItems, where: Interval | None, how: ReturnOptions = RELEASED
    ) -> None:
        """Returns items; others may get them after the delay."""

    def extend(
        self, delivered: LeasedItems, lease: float | None = None, alone: Interval | None = None
    ) -> None:
        """Extends the lease by its whole length, or for so many seconds; or these of it alone."""


class ImmediateSender(UpdateSender):
    """Sends every word, acknowledgements together, and waits until it is taken."""

    def __init__(
        self,
        port: Port,
        steps: LeaseSteps,
        codec: ValueCodec = PLAIN,
        tracing: Tracing = UNTRACED,
    ) -> None:
        self.codec = codec
        self._tracing = tracing
        self.port = port
        self.steps = steps
        self._kind = Acks(steps)
        self._acks = ThreadCoalescer(port, self._kind)

    def done(self, delivered: LeasedItems, position: int, *, wait: bool) -> None:
        """Acknowledges one item of a lease."""
        del wait  # it does, always
        self.ack(delivered, Interval(position, position + 1))

    def ack(self, delivered: LeasedItems, where: Interval | None) -> None:
        """Done with these, or with all."""
        with self._tracing.settle(self.steps.name, "ack", delivered, where):
            delivered.check_process()
            done = delivered.open_in(where)
            asked = self._kind.asked(delivered, done) if done else None
            if asked is None:
                run(self.port, self.steps.ack(delivered, where))
            else:
                self._acks.ask(asked)
                delivered.check_kept(where)

    def give_back(
        self, delivered: LeasedItems, where: Interval | None, how: ReturnOptions = RELEASED
    ) -> None:
        """Returns items; others may get them after the delay."""
        word = "release" if how == RELEASED else "nack"
        with self._tracing.settle(self.steps.name, word, delivered, where):
            run(self.port, self.steps.give_back(delivered, where, how))

    def extend(
        self, delivered: LeasedItems, lease: float | None = None, alone: Interval | None = None
    ) -> None:
        """Extends the lease by its whole length, or for so many seconds; or these of it alone."""
        if alone is None or lease is None:
            run(self.port, self.steps.extend(delivered, lease))
        else:
            run(self.port, self.steps.extend_alone(delivered, alone, lease))

    def ended(self, delivered: LeasedItems, done: tuple[Interval, ...]) -> None:
        """Some were acknowledged in another way."""
        delivered.settled(done)


class Item(ItemView[UpdateSender]):
    """One item, leased. In a `with`: acknowledged on leaving, given back on an exception.

    >>> import snowmelt, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with snowmelt.open(folder) as cluster:
    ...         orders = cluster.fifo("orders")
    ...         _ = orders.put(b"one", headers={"kind": "order"})
    ...         with orders.get() as item:
    ...             print(item.body, item.position, item.headers, item.failures)
    b'one' 0 {'kind': 'order'} 0
    """

    __slots__ = ()

    def ack(self, *, wait: bool = False) -> None:
        """It is done and never comes again. Raises `LeaseLost` when it is another's by now.

        Of a loop it is gathered: it is safe when the loop has ended, and a moment later
        otherwise. With `wait` it is when this returns, as it always is of an item of a get.
        """
        self._counter.done(self.delivered, self._place, wait=wait)

    def nack(self, delay: float = 0.0, reason: str = "", *, dead: bool = False) -> None:
        """It failed and is to be delivered again, not before `delay` seconds have passed.

        With `dead` it is set aside as dead at once, as after `max_deliveries`.
        """
        how = ReturnOptions(delay, told_reason(reason), dead)
        self._counter.give_back(self.delivered, self._where(), how)

    def release(self) -> None:
        """It goes back to its place as if it had not been taken; that counts as no failure."""
        self._counter.give_back(self.delivered, self._where())

    def extend(self, *, lease: float | None = None, alone: bool = False) -> None:
        """Its lease lasts the whole time again, and so does that of what came with it.

        With `lease` it ends so many seconds from now, be that later or sooner; with `alone` too
        only this item is leased so long, and what came with it as before. In a loop that says
        nothing: the loop extends what it has.
        """
        if alone and lease is None:
            raise BadOption("alone", alone, "True only with a lease of so many seconds")
        self._counter.extend(self.delivered, lease, self._where() if alone else None)

    def _told_by(self, counter: UpdateSender) -> "Item":
        """The same item, about which another tells its queue."""
        return Item(counter, self.delivered, self._part, self.body, self._place)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        leave(self, error)


class Items(ItemsView[UpdateSender]):
    """Items under one lease, made into objects only when iterated. `with` as for an item.

    >>> import snowmelt, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with snowmelt.open(folder) as cluster:
    ...         orders = cluster.fifo("orders")
    ...         _ = orders.put_many([b"one", b"two"])
    ...         with orders.get_many(100) as items:
    ...             print(len(items), items.batch, items.positions)
    2 Batch(2 items, 6 bytes) (Interval(start=0, stop=2),)
    """

    __slots__ = ()

    def __iter__(self) -> Iterator[Item]:
        return items_under(self._counter, self._delivered)

    def _told_by(self, counter: UpdateSender) -> "Items":
        """The same items, about which another tells their queue."""
        return Items(counter, self._delivered)

    def ack(self) -> None:
        """All that is still open is done. Raises `LeaseLost` when it is another's by now."""
        self._counter.ack(self._delivered, None)

    def nack(self, delay: float = 0.0, reason: str = "") -> None:
        """All that is still open failed, and is to be delivered again after `delay` seconds."""
        how = ReturnOptions(delay, told_reason(reason))
        self._counter.give_back(self._delivered, None, how)

    def release(self) -> None:
        """All that is still open goes back as if it had not been taken."""
        self._counter.give_back(self._delivered, None)

    def extend(self) -> None:
        """What is still open is leased for the whole time again."""
        self._counter.extend(self._delivered)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        leave(self, error)


def leave(held: Item | Items, error: BaseException | None) -> None:
    """What the end of a `with` means: done; failed; or, when it was stopped, neither."""
    if error is None:
        held.ack()
        return
    with suppress(SnowmeltError):  # the first failure is the one to raise
        if isinstance(error, Exception):
            held.nack(reason=failure_text(error))
        else:
            held.release()


def items_under(counter: UpdateSender, delivered: LeasedItems) -> Iterator[Item]:
    """All of a lease, made when they are wanted; threads may share it, as no generator is."""
    return starmap(partial(Item, counter, delivered), items_of(delivered.parts))


def only(counter: UpdateSender, delivered: LeasedItems) -> Item:
    """The first item of a lease on one."""
    part = delivered.parts[0]
    return Item(counter, delivered, part, part_bodies(part)[0], part.start)
