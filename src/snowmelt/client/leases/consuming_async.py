"""The loop over a queue, with `await`: items one by one, and a task that renews their leases."""

import asyncio
import sys
from collections.abc import Iterator
from typing import Self

from snowmelt.client.coalescing.tasks import TaskCoalescer
from snowmelt.client.connection.forking import Origin, watch
from snowmelt.client.connection.staying import stays
from snowmelt.client.connection.steps import KeepingPort, run_async
from snowmelt.client.leases.delivered import LeasedItems
from snowmelt.client.leases.items_async import Item, UpdateSender, items_under
from snowmelt.client.leases.leasing_async import leasing
from snowmelt.client.leases.leaving import GIVEN_UP, reason_left, reason_of
from snowmelt.client.leases.looping import PASSING, LoopDeadline, PrefetchSize
from snowmelt.client.leases.renewals import Hand, LeaseRenewals
from snowmelt.client.leases.renewer_async import LeaseRenewer
from snowmelt.client.leases.steps import BYTES_MAX, RELEASED, LeaseSteps, ReturnOptions
from snowmelt.client.leases.urgent_check_async import UrgentCheck
from snowmelt.client.queue.codecs import PLAIN, ValueCodec
from snowmelt.core.errors import SnowmeltError
from snowmelt.core.interval import Interval
from snowmelt.runtime.clock import steady_now


class BufferedSender(UpdateSender):
    """What a consumer sends: acknowledgements are gathered, all else goes at once."""

    def __init__(
        self, port: KeepingPort, steps: LeaseSteps, renewals: LeaseRenewals, codec: ValueCodec
    ) -> None:
        self.codec = codec
        self.port = port
        self.steps = steps
        self._renewals = renewals

    async def done(self, delivered: LeasedItems, position: int, *, wait: bool) -> None:
        """Gathers the acknowledgement of one item."""
        if wait:
            await run_async(self.port, self._renewals.ack_now(delivered, position))
        else:
            self._renewals.done(delivered, position)

    async def ack(self, delivered: LeasedItems, where: Interval | None) -> None:
        """Gathers the acknowledgements of a whole delivery."""
        self._renewals.ack(delivered, where)

    async def give_back(
        self, delivered: LeasedItems, where: Interval | None, how: ReturnOptions = RELEASED
    ) -> None:
        """Sends at once what goes back, so that others get it."""
        await run_async(self.port, self._renewals.give_back(delivered, where, how))

    async def extend(
        self, delivered: LeasedItems, lease: float | None = None, alone: Interval | None = None
    ) -> None:
        """Does nothing: the renewer extends every lease of a loop."""
        del lease, alone
        delivered.check_process()
        delivered.check_held(steady_now())

    def ended(self, delivered: LeasedItems, done: tuple[Interval, ...]) -> None:
        """Some were acknowledged in another way."""
        self._renewals.ended(delivered, done)


class ItemLoop:
    """Items one by one, for an `async for`; `queue.consume` gives it.

    Close it, or use it in an `async with`. The item in hand when the loop is left by an exception
    failed; `leaving.py` says how that is known. All else goes back as if it had not been taken.
    Tasks may share a loop; when it ends for one, it ends for all. It ends with its cluster, too,
    and with the program.
    """

    __reduce__ = stays("send its items' bodies")
    _over = True  # until there is something to end

    def __init__(
        self,
        port: KeepingPort,
        steps: LeaseSteps,
        prefetch: int | None,
        timeout: float | None,
        codec: ValueCodec = PLAIN,
        puts: TaskCoalescer | None = None,
    ) -> None:
        self._port = port
        self._steps = steps
        self._renewals = LeaseRenewals(steps)
        self._renewer = LeaseRenewer(port, self._renewals, self)
        self._gathering = BufferedSender(port, steps, self._renewals, codec)
        self._pace = PrefetchSize(prefetch)
        self._urgent_check = UrgentCheck(
            port, steps, self._renewals, self._gathering, self._pace, puts
        )
        self._pursuit = LoopDeadline(steps.name, timeout)
        self._items: Iterator[Item] = iter(())
        self._hand: Item | None = None
        self._around: BaseException | None = None
        self._origin = Origin()
        self._turn = asyncio.Lock()  # of the caller that asks for more
        self._over = False
        watch(self)

    def forked(self) -> None:
        """Nothing is given out in a child; the items are its parent's."""
        self._items = iter(())

    def __aiter__(self) -> Self:
        self._around = sys.exception()
        return self

    async def __anext__(self) -> Item:
        self._port.check_loop()
        for item in self._items:
            if not item.delivered.lost:  # else it is with others by now
                if self._renewals.now >= self._urgent_check.due:
                    return await self._more(item)
                self._hand = item
                return item
        return await self._more()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        await self._end_by(error, reason_of(error))

    async def aclose(self) -> None:
        """Ends it. In the handler of an exception that ended the loop, what was in hand failed.

        Raises when an acknowledgement was not taken (`LeaseLost`), or may not have been
        (`OutcomeUnknown`).
        """
        await self.end(self._handled())

    async def end(self, reason: str = "") -> None:
        """Once: acknowledges what is done, and gives back the rest. In a child it does nothing."""
        if self._over or self._origin.left:
            return
        self._port.check_loop()
        self._over = True
        await self._renewer.close(self._take_hand(), reason)

    def __del__(self) -> None:
        if not (self._over or self._origin.left or sys.is_finalizing()):
            reason = GIVEN_UP
            try:
                reason = reason_left(sys._getframe(1), self._handled())  # noqa: SLF001
            finally:  # that takes a moment, in which a signal may come
                self._renewer.drop(self._take_hand(), reason)

    def _handled(self) -> str:
        """Why what was in hand failed, if the exception that is being handled ended the loop."""
        error = sys.exception()
        return "" if error is self._around else reason_of(error)

    def _take_hand(self) -> Hand | None:
        hand, self._hand, self._items = self._hand, None, iter(())
        return None if hand is None else hand.held

    async def _more(self, waits: Item | None = None) -> Item:
        """The first item of the next lease, or what another task has got meanwhile.

        Or what is more urgent than one that waits here, if anything is.
        """
        self._origin.check("this loop", "call consume in this one")
        self._hand = None
        try:
            async with self._turn:
                if waits is not None:
                    await self._look(waits)
                for item in self._items:
                    if not item.delivered.lost:
                        self._hand = item
                        return item
                return await self._next()
        except BaseException as error:
            await self._end_by(error)
            raise

    async def _end_by(self, error: BaseException | None, reason: str = "") -> None:
        """An error that ended the loop otherwise is raised first."""
        try:
            await self.end(reason)
        except SnowmeltError as failure:
            if error is None or isinstance(error, StopAsyncIteration):
                raise failure from None
            error.add_note(str(failure))

    async def _look(self, waits: Item) -> None:
        """Has this come next, or what is more urgent; unless the loop has ended."""
        here = [waits]
        if steady_now() >= self._urgent_check.due:  # else another task has looked
            here = await self._urgent_check.look(waits, self._items)
            await self._urgent_check.fewer(here)
        if not self._over:
            self._items = iter([*here, *self._items])

    async def _next(self) -> Item:
        delivered = None if self._over else await self._ask()
        if delivered is None:
            raise StopAsyncIteration
        self._renewer.see()
        items = items_under(self._gathering, delivered)
        self._hand = item = next(items)
        self._items = items
        return item

    async def _ask(self) -> LeasedItems | None:
        """The next lease; None when the time is over without one, or the loop."""
        pursuit, renewals, pace = self._pursuit, self._renewals, self._pace
        pursuit.begin()
        asked = steady_now()
        while True:
            most = pace.next(steady_now(), renewals.settled)
            await self._urgent_check.before_get(pursuit.left)
            get = renewals.get(most, BYTES_MAX, pursuit.left)
            try:
                delivered = await leasing(self._port, self._steps, get)
            except PASSING as error:
                await asyncio.sleep(pursuit.failed(error))
                continue
            if delivered is not None:
                pursuit.answered()
                now = steady_now()
                pace.came(asked, now, renewals.settled)
                self._urgent_check.got(now)
                return delivered
            if renewals.closing or pursuit.over():
                return None
