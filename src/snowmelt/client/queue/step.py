# Made of step_async.py by scripts/faces.py, which `make faces` runs: change it there.
"""What is taken, put and acknowledged in one step; blocking."""

from contextlib import suppress
from typing import Any, Final, Self, TypeVar

from snowmelt.client.connection.session import TIMEOUT
from snowmelt.client.connection.staying import stays
from snowmelt.client.connection.steps import Port, run
from snowmelt.client.leases.delivered import LeasedItems
from snowmelt.client.leases.items import Item, Items, UpdateSender, leave
from snowmelt.client.leases.steps import BYTES_MAX, RELEASED, ReturnOptions
from snowmelt.client.queue.face import Queue
from snowmelt.client.queue.step_parts import StepView
from snowmelt.core.errors import BadOption, Closed, SnowmeltError
from snowmelt.core.interval import Interval

STEP_SECONDS: Final = 30.0


class StepSender(UpdateSender):
    """Says of what a step has taken only what goes back: that it is done is said at its end."""

    def __init__(self, sender: UpdateSender) -> None:
        self.codec, self.port, self.steps = sender.codec, sender.port, sender.steps
        self._sender = sender

    def ended(self, delivered: LeasedItems, done: tuple[Interval, ...]) -> None:
        """They are acknowledged."""
        self._sender.ended(delivered, done)

    def done(self, delivered: LeasedItems, position: int, *, wait: bool) -> None:
        """Says nothing yet."""

    def ack(self, delivered: LeasedItems, where: Interval | None) -> None:
        """Says nothing yet."""

    def give_back(
        self, delivered: LeasedItems, where: Interval | None, how: ReturnOptions = RELEASED
    ) -> None:
        """These go back at once, and are not the step's any more."""
        self._sender.give_back(delivered, where, how)

    def extend(
        self, delivered: LeasedItems, lease: float | None = None, alone: Interval | None = None
    ) -> None:
        """Extends the lease by its whole length, or for so many seconds; or these of it alone."""
        self._sender.extend(delivered, lease, alone)


T = TypeVar("T", Item, Items)


def in_step(held: T) -> T:
    """The same, whose `ack` leaves it to the step."""
    return held._told_by(StepSender(held.leased[0]))  # noqa: SLF001


class Step(StepView):
    """What is taken from queues, put into others and acknowledged: all of it happens, or nothing.

    `with cluster.step() as step:` gives it. When the block ends, all that was taken in it is
    acknowledged and all that was put comes in, whoever dies at which moment. When it is left by an
    exception nothing is put, and what was taken goes back, as from a `with` of an item.
    `ack` of an item that a step took says nothing by itself; `nack` and `release` take it out.

    What it takes is leased as by any `get`, for as long as its queue says: a step that took longer
    raises `LeaseLost` at its end, and nothing of it has happened.

    >>> import snowmelt, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with snowmelt.open(folder) as cluster:
    ...         orders, bills = cluster.fifo("orders"), cluster.fifo("bills")
    ...         _ = orders.put(b"one")
    ...         with cluster.step() as step:
    ...             order = step.get(orders)
    ...             step.put(bills, b"bill for " + order.body)
    ...         (bills.get()).body, (orders.stats()).done
    (b'bill for one', 1)
    """

    __reduce__ = stays("begin one there")

    _kind = Queue

    def __init__(self, port: Port, timeout: float = STEP_SECONDS) -> None:
        super().__init__(port, timeout)
        self._port = port
        self._held: list[Item | Items] = []

    def get(
        self, queue: Queue[Any], *, timeout: float = TIMEOUT, lease: float | None = None
    ) -> Item:
        """Takes the first item of a queue, as its own `get` does."""
        item: Item = self._own(queue).get(timeout=timeout, lease=lease)
        self._keep(item)
        return in_step(item)

    def get_many(
        self,
        queue: Queue[Any],
        items_max: int = 1000,
        *,
        bytes_max: int = BYTES_MAX,
        timeout: float = TIMEOUT,
        lease: float | None = None,
    ) -> Items:
        """Takes the first items of a queue, as its own `get_many` does."""
        get = self._own(queue).get_many(
            items_max, bytes_max=bytes_max, timeout=timeout, lease=lease
        )
        items: Items = get
        self._keep(items)
        return in_step(items)

    def _keep(self, held: Item | Items) -> None:
        try:
            self.ack(held)
        except BaseException:
            with suppress(SnowmeltError):
                held.release()
            raise
        self._held.append(held)

    def __enter__(self) -> Self:
        return self._begin()

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if error is not None:
            self._give_back(error)
            return
        try:
            self.waiting = run(self._port, self._parts.commit(self._timeout))
        except BaseException:
            for held in self._held:
                with suppress(SnowmeltError):  # if it was decided all the same, nothing is held
                    held.release()
            raise

    def _give_back(self, error: BaseException) -> None:
        with suppress(BadOption, Closed):  # it is over, or is another process's
            self._parts.end("one that failed")
        for held in self._held:
            leave(held, error)
