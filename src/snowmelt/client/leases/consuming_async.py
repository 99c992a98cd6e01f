"""The loop over a queue, with `await`: items one by one, and a task that tends their leases."""

import asyncio
import sys
from collections.abc import Iterator
from functools import partial
from itertools import starmap
from typing import Self

from snowmelt.client.connection.forking import Origin, watch
from snowmelt.client.connection.staying import stays
from snowmelt.client.connection.steps import KeepingPort, run_async
from snowmelt.client.leases.delivered import Delivered, items_of
from snowmelt.client.leases.items_async import Item
from snowmelt.client.leases.leasing_async import leasing
from snowmelt.client.leases.leaving import GIVEN_UP, reason_left, reason_of
from snowmelt.client.leases.looping import PASSING, Pace, Pursuit
from snowmelt.client.leases.steps import BYTES_MAX, LeaseSteps
from snowmelt.client.leases.tender_async import Tender
from snowmelt.client.leases.tending import Hand, Tending
from snowmelt.client.queue.codecs import PLAIN, Codec
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
    ) -> None:
        self._port = port
        self._steps = steps
        self._tending = Tending(steps)
        self._tender = Tender(port, self._tending, self)
        self._gathering = Gathering(port, steps, self._tending, codec)
        self._pace = Pace(prefetch)
        self._pursuit = Pursuit(steps.name, timeout)
        self._items: Iterator[Item] = iter(())
        self._lease: Delivered | None = None  # that those are of
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
            if self._lease is None or not self._lease.lost:  # else they are with others by now
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

    async def _more(self) -> Item:
        """The first item of the next lease, or what another task has got meanwhile."""
        self._origin.check("this loop", "call consume in this one")
        self._hand = None
        try:
            async with self._turn:
                for item in self._items:
                    self._hand = item
                    return item
                return await self._first()
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

    async def _first(self) -> Item:
        delivered = None if self._over else await self._ask()
        if delivered is None:
            raise StopAsyncIteration
        self._tender.see()
        items = _items(self._gathering, delivered)
        self._hand = item = next(items)
        self._lease, self._items = delivered, items
        return item

    async def _ask(self) -> Delivered | None:
        """The next lease; None when the time is over without one, or the loop."""
        pursuit, tending, pace = self._pursuit, self._tending, self._pace
        pursuit.begin()
        asked = steady_now()
        while True:
            most = pace.next(steady_now(), tending.settled)
            get = tending.get(most, BYTES_MAX, pursuit.left)
            try:
                delivered = await leasing(self._port, self._steps, get)
            except PASSING as error:
                await asyncio.sleep(pursuit.failed(error))
                continue
            if delivered is not None:
                pursuit.answered()
                pace.came(asked, steady_now(), tending.settled)
                return delivered
            if tending.closing or pursuit.over():
                return None


def _items(gathering: Gathering, delivered: Delivered) -> Iterator[Item]:
    """All of a lease, made when they are wanted; threads may share it, as no generator is."""
    return starmap(partial(Item, gathering, delivered), items_of(delivered.parts))
