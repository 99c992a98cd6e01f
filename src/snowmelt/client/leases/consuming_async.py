"""The loop over a queue, with `await`: items one by one, and a task that tends their leases."""

import asyncio
import sys
from collections.abc import Iterator
from typing import Self

from snowmelt.client.connection.forking import Origin, watch
from snowmelt.client.connection.staying import stays
from snowmelt.client.connection.steps import KeepingPort, run_async
from snowmelt.client.leases.delivered import Delivered
from snowmelt.client.leases.items_async import Item, items_under
from snowmelt.client.leases.leasing_async import leasing
from snowmelt.client.leases.leaving import GIVEN_UP, reason_left, reason_of
from snowmelt.client.leases.lookout_async import Lookout
from snowmelt.client.leases.looping import PASSING, Pace, Pursuit
from snowmelt.client.leases.steps import BYTES_MAX, LeaseSteps
from snowmelt.client.leases.tender_async import Tender
from snowmelt.client.leases.tending import Hand, Tending
from snowmelt.client.queue.codecs import PLAIN, Codec
from snowmelt.client.together.tasks import TogetherAsync
from snowmelt.core.errors import SnowmeltError
from snowmelt.core.interval import Interval
from snowmelt.runtime.clock import steady_now


class Gathering:
    """The desk of a consumer: acknowledgements are gathered, all else is sent at once."""

    def __init__(
        self, port: KeepingPort, steps: LeaseSteps, tending: Tending, codec: Codec
    ) -> None:
        self.codec = codec
        self._port = port
        self._steps = steps
        self._tending = tending

    @property
    def queue(self) -> str:
        """The name of the queue that they are from."""
        return self._steps.name

    async def done(self, delivered: Delivered, position: int, *, wait: bool) -> None:
        """Done with this one."""
        if wait:
            await run_async(self._port, self._tending.ack_now(delivered, position))
        else:
            self._tending.done(delivered, position)

    async def ack(self, delivered: Delivered, where: Interval | None) -> None:
        """Done with these."""
        self._tending.ack(delivered, where)

    async def give_back(
        self,
        delivered: Delivered,
        where: Interval | None,
        delay: float,
        reason: str,
        dead: bool = False,
    ) -> None:
        """These go back."""
        await run_async(self._port, self._tending.give_back(delivered, where, delay, reason, dead))

    async def extend(self, delivered: Delivered) -> None:
        """The tender does that."""
        delivered.check_process()
        delivered.check_held(steady_now())


class Consumption:
    """Items one by one, for an `async for`; `queue.consume` gives it.

    Close it, or use it in an `async with`. The item in hand when the loop is left by an exception
    failed; `leaving.py` tells how that is known. All else goes back as if it had not been taken.
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
        codec: Codec = PLAIN,
        puts: TogetherAsync | None = None,
    ) -> None:
        self._port = port
        self._steps = steps
        self._tending = Tending(steps)
        self._tender = Tender(port, self._tending, self)
        self._gathering = Gathering(port, steps, self._tending, codec)
        self._pace = pace = Pace(prefetch)
        self._lookout: Lookout | None = None
        """Where something put later may be more urgent."""
        if puts is not None:
            tending, counter = self._tending, self._gathering
            self._lookout = Lookout(port, steps, tending, counter, pace, puts)
        self._pursuit = Pursuit(steps.name, timeout)
        self._items: Iterator[Item] = iter(())
        self._hand: Item | None = None
        self._around: BaseException | None = None
        self._origin = Origin()
        self._turn = asyncio.Lock()  # of whoever asks for more
        self._over = False
        watch(self)

    def forked(self) -> None:
        """Nothing is given out in a child; the items are its parent's."""
        self._items = iter(())

    def __aiter__(self) -> Self:
        self._around = sys.exception()
        return self

    async def __anext__(self) -> Item:
        for item in self._items:
            if not item.delivered.lost:  # else it is with others by now
                if self._lookout is not None and self._tending.now >= self._lookout.due:
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
        """Once: tells what is done, and gives back the rest. Not in a child: it is not its own."""
        if self._over or self._origin.left:
            return
        self._over = True
        await self._tender.close(self._take_hand(), reason)

    def __del__(self) -> None:
        if not (self._over or self._origin.left or sys.is_finalizing()):
            reason = GIVEN_UP
            try:
                reason = reason_left(sys._getframe(1), self._handled())  # noqa: SLF001
            finally:  # that takes a moment, in which a signal may come
                self._tender.drop(self._take_hand(), reason)

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
        """What ended it otherwise is what is to be told first."""
        try:
            await self.end(reason)
        except SnowmeltError as failure:
            if error is None or isinstance(error, StopAsyncIteration):
                raise failure from None
            error.add_note(str(failure))

    async def _look(self, waits: Item) -> None:
        """Has this come next, or what is more urgent; unless the loop has ended."""
        lookout, here = self._lookout, [waits]
        if lookout is not None and steady_now() >= lookout.due:  # else another task has looked
            here = await lookout.look(waits, self._items)
            await lookout.fewer(here)
        if not self._over:
            self._items = iter([*here, *self._items])

    async def _next(self) -> Item:
        delivered = None if self._over else await self._ask()
        if delivered is None:
            raise StopAsyncIteration
        self._tender.see()
        items = items_under(self._gathering, delivered)
        self._hand = item = next(items)
        self._items = items
        return item

    async def _ask(self) -> Delivered | None:
        """The next lease; None when the time is over without one, or the loop."""
        pursuit, tending, pace = self._pursuit, self._tending, self._pace
        pursuit.begin()
        asked = steady_now()
        while True:
            most = pace.next(steady_now(), tending.settled)
            if self._lookout is not None:
                await self._lookout.before_get(pursuit.left)
            get = tending.get(most, BYTES_MAX, pursuit.left)
            try:
                delivered = await leasing(self._port, self._steps, get)
            except PASSING as error:
                await asyncio.sleep(pursuit.failed(error))
                continue
            if delivered is not None:
                pursuit.answered()
                now = steady_now()
                pace.came(asked, now, tending.settled)
                if self._lookout is not None:
                    self._lookout.got(now)
                return delivered
            if tending.closing or pursuit.over():
                return None
