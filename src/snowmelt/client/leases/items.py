# Made of items_async.py by scripts/faces.py, which `make faces` runs: change it there.
"""What a get gives a person: one `Item`, or `Items` under one lease; blocking.

Items know how to be acknowledged, but not by what way: that is the matter of their sender. An
`ImmediateSender` sends each word, and waits until it is taken; `consume` has another, which gathers
acknowledgements (see `consuming.py`).
"""

from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from functools import partial
from itertools import starmap
from typing import Any, Protocol, Self

from snowmelt.client.coalescing.joint_acks import Acks
from snowmelt.client.coalescing.threads import ThreadCoalescer
from snowmelt.client.connection.staying import stays
from snowmelt.client.connection.steps import Port, run
from snowmelt.client.leases.delivered import (
    ItemBatch,
    LeasedItems,
    items_of,
    joined,
    label_of,
    part_bodies,
    position_of,
    priority_of,
    put_at_of,
)
from snowmelt.client.leases.reasons import failure_text, told_reason
from snowmelt.client.leases.steps import LeaseSteps
from snowmelt.client.queue.codecs import PLAIN, ValueCodec
from snowmelt.client.tracing import Tracing
from snowmelt.core.batch import Batch
from snowmelt.core.errors import SnowmeltError
from snowmelt.core.headers import Headers
from snowmelt.core.interval import Interval, Position


class UpdateSender(Protocol):
    """Where words about a lease are handed in."""

    codec: ValueCodec
    """In which its bodies are written."""

    port: Port
    """By which it sends."""
    steps: LeaseSteps
    """The queue that they are from."""

    @property
    def queue(self) -> str:
        """The name of the queue that they are from."""

    def ended(self, delivered: LeasedItems, done: tuple[Interval, ...]) -> None:
        """Some were acknowledged in another way."""

    def done(self, delivered: LeasedItems, position: int, *, wait: bool) -> None:
        """Acknowledges one item of a lease."""

    def ack(self, delivered: LeasedItems, where: Interval | None) -> None:
        """Done with these, or with all."""

    def give_back(
        self,
        delivered: LeasedItems,
        where: Interval | None,
        delay: float,
        reason: str,
        dead: bool = False,
    ) -> None:
        """Returns items; others may get them after the delay."""

    def extend(self, delivered: LeasedItems, lease: float | None = None) -> None:
        """Extends the lease by its whole length, or for so many seconds."""


class ImmediateSender:
    """Sends every word, acknowledgements together, and waits until it is taken."""

    _plain: Self
    """The same, without spans."""

    def __init__(
        self,
        port: Port,
        steps: LeaseSteps,
        codec: ValueCodec = PLAIN,
        tracing: Tracing | None = None,
    ) -> None:
        self.codec = codec
        self._tracing = tracing
        plain: Any = self if tracing is None else type(self)(port, steps, codec)
        self._plain = plain
        self.port = port
        self.steps = steps
        self._kind = Acks(steps)
        self._acks = ThreadCoalescer(port, self._kind)

    @property
    def queue(self) -> str:
        """The name of the queue that they are from."""
        return self.steps.name

    def done(self, delivered: LeasedItems, position: int, *, wait: bool) -> None:
        """Acknowledges one item of a lease."""
        del wait  # it does, always
        self.ack(delivered, Interval(position, position + 1))

    def ack(self, delivered: LeasedItems, where: Interval | None) -> None:
        """Done with these, or with all."""
        if self._tracing is not None:
            with self._tracing.settle(self.queue, "ack", _count(delivered, where)):
                self._plain.ack(delivered, where)
                return
        delivered.check_process()
        done = delivered.open_in(where)
        asked = self._kind.asked(delivered, done) if done else None
        if asked is None:
            run(self.port, self.steps.ack(delivered, where))
        else:
            self._acks.ask(asked)
            delivered.check_kept(where)

    def give_back(
        self,
        delivered: LeasedItems,
        where: Interval | None,
        delay: float,
        reason: str,
        dead: bool = False,
    ) -> None:
        """Returns items; others may get them after the delay."""
        if self._tracing is not None:
            word = "nack" if reason or delay or dead else "release"
            with self._tracing.settle(self.queue, word, _count(delivered, where)):
                self._plain.give_back(delivered, where, delay, reason, dead)
                return
        run(self.port, self.steps.give_back(delivered, where, delay, reason, dead))

    def extend(self, delivered: LeasedItems, lease: float | None = None) -> None:
        """Extends the lease by its whole length, or for so many seconds."""
        run(self.port, self.steps.extend(delivered, lease))

    def ended(self, delivered: LeasedItems, done: tuple[Interval, ...]) -> None:
        """Some were acknowledged in another way."""
        delivered.settled(done)


class Item:
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

    __slots__ = ("_counter", "_part", "_place", "_value", "body", "delivered")

    __reduce__ = stays("send item.body, and acknowledge here when the answer is back")

    def __init__(
        self,
        counter: UpdateSender,
        delivered: LeasedItems,
        part: ItemBatch,
        body: bytes,
        place: int,
    ) -> None:
        self._counter = counter
        self.delivered = delivered
        self._part = part
        self.body = body
        self._place = place

    def __repr__(self) -> str:
        return f"Item(position={self.position}, {len(self.body)} bytes)"

    @property
    def value(self) -> Any:
        """What was put, read by the queue's codec; its body where the queue has none.

        Raises `CodecError` when the body is not what the codec writes; `body` has it even so.
        """
        try:
            return self._value
        except AttributeError:  # read once, and only when it is wanted
            pass  # and outside of this, so that an error of the codec stands alone
        self._value: Any = self._counter.codec.value(self.body)
        return self._value

    @property
    def queue(self) -> str:
        """The name of the queue that it is from."""
        return self._counter.queue

    @property
    def position(self) -> Position:
        """Where it stands in its queue, among those of its priority."""
        return Position(position_of(self._place))

    @property
    def priority(self) -> int | float:
        """Its priority; 0 in a fifo."""
        return priority_of(self._part, self._place)

    @property
    def headers(self) -> Headers:
        """What was given along with it."""
        return label_of(self._part, self._place)[1]

    @property
    def key(self) -> bytes | None:
        """The key it was given, if any."""
        return label_of(self._part, self._place)[0]

    @property
    def failures(self) -> int:
        """How many deliveries of it failed before."""
        return self._part.failures

    @property
    def reason(self) -> str:
        """Why the last of those deliveries failed."""
        return self._part.reason

    @property
    def put_at(self) -> datetime | None:
        """When it was put, by the clock of the node that took it; None for items of before."""
        return put_at_of(self._part, self._place)

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
        where, why = self._where(), told_reason(reason)
        self._counter.give_back(self.delivered, where, delay, why, dead)

    def release(self) -> None:
        """It goes back to its place as if it had not been taken; that counts as no failure."""
        self._counter.give_back(self.delivered, self._where(), 0.0, "")

    def extend(self, *, lease: float | None = None) -> None:
        """Its lease lasts the whole time again, and so does that of what came with it.

        With `lease` it ends so many seconds from now, be that later or sooner. In a loop that says
        nothing: the loop extends what it has.
        """
        self._counter.extend(self.delivered, lease)

    @property
    def token(self) -> int:
        """Its lease's fencing token: a later lease has a higher one."""
        return self.delivered.token

    @property
    def leased(self) -> tuple[UpdateSender, LeasedItems, Interval | None]:
        """Who tells its queue about it, its lease, and what of it this is; for steps."""
        return self._counter, self.delivered, self._where()

    def _told_by(self, counter: UpdateSender) -> "Item":
        """The same item, about which another tells its queue."""
        return Item(counter, self.delivered, self._part, self.body, self._place)

    @property
    def held(self) -> tuple[LeasedItems, Interval]:
        """Its lease, and what of it this is; for the queue's own use."""
        return self.delivered, self._where()

    def _where(self) -> Interval:
        return Interval(self._place, self._place + 1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        leave(self, error)


class Items:
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

    __slots__ = ("_batch", "_counter", "_delivered")

    __reduce__ = stays("send its bodies as bytes, and acknowledge here when the answer is back")

    def __init__(self, counter: UpdateSender, delivered: LeasedItems) -> None:
        self._counter = counter
        self._delivered = delivered
        self._batch: Batch | None = None

    def __len__(self) -> int:
        return len(self._delivered)

    def __iter__(self) -> Iterator[Item]:
        return items_under(self._counter, self._delivered)

    def __repr__(self) -> str:
        return f"Items({len(self)} items, token={self.token})"

    @property
    def batch(self) -> Batch:
        """All bodies, in order. Copied once when they lay in several places, else not at all."""
        if self._batch is None:
            self._batch = joined(self._delivered.parts)
        return self._batch

    @property
    def positions(self) -> tuple[Interval, ...]:
        """The positions of its items in the queue, in order."""
        return self._delivered.positions_told

    @property
    def token(self) -> int:
        """The lease's fencing token: a later lease has a higher one."""
        return self._delivered.token

    @property
    def lost(self) -> str:
        """Why the lease, or a part of it, is known to be lost; empty while it is not."""
        return self._delivered.loss

    @property
    def delivered(self) -> LeasedItems:
        """The lease itself, for the queue's own use."""
        return self._delivered

    @property
    def leased(self) -> tuple[UpdateSender, LeasedItems, Interval | None]:
        """The same with who tells its queue about it; for steps."""
        return self._counter, self._delivered, None

    def _told_by(self, counter: UpdateSender) -> "Items":
        """The same items, about which another tells their queue."""
        return Items(counter, self._delivered)

    def ack(self) -> None:
        """All that is still open is done. Raises `LeaseLost` when it is another's by now."""
        self._counter.ack(self._delivered, None)

    def nack(self, delay: float = 0.0, reason: str = "") -> None:
        """All that is still open failed, and is to be delivered again after `delay` seconds."""
        self._counter.give_back(self._delivered, None, delay, told_reason(reason))

    def release(self) -> None:
        """All that is still open goes back as if it had not been taken."""
        self._counter.give_back(self._delivered, None, 0.0, "")

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


def _count(delivered: LeasedItems, where: Interval | None) -> int:
    return len(delivered) if where is None else where.size


def items_under(counter: UpdateSender, delivered: LeasedItems) -> Iterator[Item]:
    """All of a lease, made when they are wanted; threads may share it, as no generator is."""
    return starmap(partial(Item, counter, delivered), items_of(delivered.parts))


def only(counter: UpdateSender, delivered: LeasedItems) -> Item:
    """The first item of a lease on one."""
    part = delivered.parts[0]
    return Item(counter, delivered, part, part_bodies(part)[0], part.start)
