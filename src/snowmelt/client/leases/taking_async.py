"""What is taken from a queue, of whatever kind, as a program holds it, with `await`."""

from typing import Any, Generic, TypeVar

from snowmelt.client.coalescing.joint_gets import Gets
from snowmelt.client.coalescing.tasks import TaskCoalescer
from snowmelt.client.connection.session import TIMEOUT
from snowmelt.client.connection.staying import stays
from snowmelt.client.connection.steps import KeepingPort, run_async
from snowmelt.client.fifo.steps import FifoSteps
from snowmelt.client.leases.consuming_async import ItemLoop
from snowmelt.client.leases.delivered import LeasedItems
from snowmelt.client.leases.item_source_async import ItemSource
from snowmelt.client.leases.items_async import ImmediateSender, Item, Items, only
from snowmelt.client.leases.leasing_async import leasing
from snowmelt.client.leases.looping import checked_prefetch
from snowmelt.client.leases.steps import (
    AS_SET,
    BYTES_HIGHEST,
    BYTES_MAX,
    ITEMS_HIGHEST,
    LeaseOptions,
    Seen,
    checked_count,
    lease_of,
)
from snowmelt.client.queue.codecs import PLAIN, ValueCodec
from snowmelt.client.queue.held_items import checked_state, peek
from snowmelt.client.queue.open_once import OpenOnce
from snowmelt.client.tracing import UNTRACED, Tracing
from snowmelt.core.batch import Buffer
from snowmelt.core.errors import BadOption, Empty

S = TypeVar("S", bound=FifoSteps)


class LeasingQueue(Generic[S]):
    """A queue, as far as its items are leased."""

    _first: TaskCoalescer | None = None
    """What goes before each get, where something put later may come first."""

    __reduce__ = stays("send the queue's name and the URL, and connect there")

    def __init__(
        self, port: KeepingPort, steps: S, codec: ValueCodec = PLAIN, tracing: Tracing = UNTRACED
    ) -> None:
        self.tracing = tracing
        """Makes spans of its calls, where the program has set up such."""
        self._codec = codec
        self._port = OpenOnce(port)
        self._steps = steps
        self._sender = ImmediateSender(self._port, steps, codec, tracing)
        self._kind = Gets(steps)
        self._gets = TaskCoalescer(self._port, self._kind)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    @property
    def name(self) -> str:
        """The name that the queue was asked for by."""
        return self._steps.name

    @property
    def copies(self) -> int:
        """On how many nodes the last put through this queue was when it returned; 0 before one.

        For a put whose number was used before: how many copies are left of the first one.
        """
        return self._steps.copies

    def value(self, body: Buffer) -> Any:
        """The value of a body of this queue, from `peek` or a group; as `Item.value`."""
        return self._codec.value(body)

    async def get(self, *, timeout: float = TIMEOUT, lease: float | None = None) -> Item:
        """Leases the first item. Raises `Empty` when none came in the time given.

        With `lease` it is leased for so many seconds, whatever the queue's setting is.
        """
        how = AS_SET if lease is None else LeaseOptions(lease_of(lease))
        return only(self._sender, await self._leased(None, 1, BYTES_HIGHEST, timeout, how))

    async def get_many(
        self,
        items_max: int = 1000,
        *,
        bytes_max: int = BYTES_MAX,
        timeout: float = TIMEOUT,
        ack: Items | None = None,
        lease: float | None = None,
        together: bool = False,
    ) -> Items:
        """Leases the first items there are, waiting for one. Raises `Empty`.

        With `lease` they are leased for so many seconds, whatever the queue's setting is. Where
        items are in order by key, one of each key comes; with `together` as many as there are, in
        order. No other of that key is given out until the last of them has ended or gone back.

        `ack` are items of an earlier get, done with, whose acknowledgement goes along with this
        call. When their lease was lost, the new ones are returned all the same, and the old ones'
        `lost` says so.
        """
        checked_count("items_max", items_max, ITEMS_HIGHEST)
        checked_count("bytes_max", bytes_max, BYTES_HIGHEST)
        if ack is not None and not isinstance(ack, Items):
            raise BadOption(
                "ack", ack, "the Items of an earlier get_many; an Item has its own ack()"
            )
        before = ack.delivered if ack is not None else None
        how = AS_SET if lease is None and not together else LeaseOptions(lease_of(lease), together)
        return Items(self._sender, await self._leased(before, items_max, bytes_max, timeout, how))

    async def _leased(
        self,
        before: LeasedItems | None,
        items_max: int,
        bytes_max: int,
        timeout: float,
        how: LeaseOptions = AS_SET,
    ) -> LeasedItems:
        delivered: LeasedItems | None
        with self.tracing.get(self._steps.name) as traced:
            if self._first is not None:
                await self._first.send(timeout)
            joint = None
            if how is AS_SET:
                joint = self._kind.asked(items_max, bytes_max, timeout, before)
            if joint is None:
                get = self._steps.get_after(before, items_max, bytes_max, timeout, how)
                delivered = await leasing(self._port, self._steps, get)
            else:
                delivered = await self._gets.ask(joint)
            if delivered is None:
                raise Empty(self._steps.empty(timeout))
            traced.link(delivered.parts)
            return delivered

    async def peek(
        self,
        count: int = 10,
        *,
        state: str = "ready",
        dead: bool = False,
        timeout: float = TIMEOUT,
    ) -> list[Seen]:
        """Shows the first items, taking none of them. `dead` is the state `"dead"`.

        Of those that are `"leased"` the longest held come first, with who has them; of those that
        are `"delayed"`, the next that are due.
        """
        checked_count("count", count, ITEMS_HIGHEST)
        which = checked_state(state, dead=dead)
        return await run_async(self._port, peek(self._steps, count, which, timeout))

    async def purge(
        self, *, dead: bool = False, leased: bool = False, timeout: float = TIMEOUT
    ) -> int:
        """Removes all items that wait (or all dead ones) for ever; returns how many.

        With `leased` it removes what consumers have, too: acknowledging that says nothing any more.
        """
        return await run_async(self._port, self._steps.purge(dead, leased, timeout))

    def consume(self, prefetch: int | None = None, timeout: float | None = None) -> ItemLoop:
        """Items one by one, for ever, or until none came for `timeout` seconds.

        As many are leased at once as are worked off in a moment, or up to `prefetch`: a task
        renews their leases for as long as the loop works. `item.ack()` gathers: acknowledgements
        travel with the next get, and after a tenth of a second at the latest; `ack(wait=True)`
        waits until one is taken. A loop that has ended, or was closed, has acknowledged all, or
        raises.

        Where there are priorities, what is put meanwhile and is more urgent comes before the rest
        of what was leased.

        When the loop is left by an exception, the item in hand failed, as in an `async with`,
        unless it was acknowledged. What else was not acknowledged when the loop ends goes back and
        does not count as failed; acknowledging it later is refused as `LeaseLost`.

        A `break` alone ends it a little later, and waits for nobody; `async with`, or `aclose`, at
        once.
        """
        most = checked_prefetch(prefetch)
        return ItemLoop(self._port, self._steps, most, timeout, self._codec, self._first)

    def intake(self, prefetch: int | None = None) -> ItemSource:
        """Items for a `Worker`: any number in hand at once, each for as long as it takes."""
        return ItemSource(
            self._port, self._steps, self._codec, checked_prefetch(prefetch), self._first
        )
