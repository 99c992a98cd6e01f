"""Items for tasks that work on several at once; `item_source.py` says more."""

import asyncio
from collections import deque
from collections.abc import Iterable
from contextlib import suppress

from snowmelt.client.coalescing.tasks import TaskCoalescer
from snowmelt.client.connection.bound import until_set
from snowmelt.client.connection.forking import Origin
from snowmelt.client.connection.steps import KeepingPort, run_async
from snowmelt.client.leases.consuming_async import BufferedSender
from snowmelt.client.leases.items_async import Item, items_under
from snowmelt.client.leases.leasing_async import leasing
from snowmelt.client.leases.looping import PrefetchSize
from snowmelt.client.leases.renewals import LeaseRenewals
from snowmelt.client.leases.renewer_async import LeaseRenewer
from snowmelt.client.leases.steps import BYTES_MAX, LeaseSteps
from snowmelt.client.leases.urgent_check_async import UrgentCheck
from snowmelt.client.queue.codecs import ValueCodec
from snowmelt.core.errors import SnowmeltError
from snowmelt.runtime.clock import steady_now


class ItemSource:
    """A queue's items, one by one, to tasks that share this."""

    def __init__(
        self,
        port: KeepingPort,
        steps: LeaseSteps,
        codec: ValueCodec,
        prefetch: int | None,
        puts: TaskCoalescer | None = None,
    ) -> None:
        self.port = port
        self._steps = steps
        self._renewals = LeaseRenewals(steps)
        self._renewer = LeaseRenewer(port, self._renewals, self)
        self._gathering = BufferedSender(port, steps, self._renewals, codec)
        self._pace = PrefetchSize(prefetch)
        self._urgent_check = UrgentCheck(
            port, steps, self._renewals, self._gathering, self._pace, puts
        )
        self._turn = asyncio.Lock()  # of the caller that asks for more
        self._ahead: deque[Item] = deque()
        self._rests = False
        self._free = asyncio.Event()  # of an item that is worked on alone (`suspects.py`)
        self._free.set()
        self._alone: asyncio.Task[object] | None = None
        self._origin = Origin()

    async def next(self, timeout: float) -> Item | None:
        """The next item; None when none came in the time."""
        self._origin.check("this worker", "make one in this process")
        if not self._free.is_set():
            await self._waits(timeout)
        async with self._turn:
            await self._look()
            if not (self._ahead or self._rests) and self._free.is_set():
                self._ahead.extend(await self._more(timeout))
            while self._ahead and self._free.is_set():
                item = self._ahead.popleft()
                if not item.held[0].lost:  # else it is with others by now
                    if self._renewals.works_alone(item.failures, item.reason):
                        self._alone = asyncio.current_task()
                        self._free.clear()
                    return item
            return None

    async def _waits(self, timeout: float) -> None:
        """Until what is worked on alone is done with, as it is when its task asks for more."""
        if self._alone is asyncio.current_task():
            self._free.set()
        await until_set(self._free, timeout)

    def settled(self, item: Item) -> bool:
        """Whether somebody has said what becomes of it."""
        delivered, where = item.held
        return not delivered.open_in(where) or self._renewals.settles(delivered, where.start)

    async def rest(self) -> None:
        """Nobody is given anything from now on; what is there goes back as if it were not taken."""
        self._rests = True
        async with self._turn:
            ahead, self._ahead = self._ahead, deque()
        if ahead:
            await run_async(self.port, self._renewals.release([item.held for item in ahead]))

    async def close(self) -> None:
        """Acknowledges what is done; all else goes back, also what tasks have in hand."""
        with suppress(SnowmeltError):  # what was not taken is logged: its handlers have ended
            await self._renewer.close(None, "")

    async def end(self) -> None:
        """The same, when its cluster is closed before."""
        await self.close()

    async def _look(self) -> None:
        """Has what is more urgent come first."""
        if self._ahead and self._free.is_set() and steady_now() >= self._urgent_check.due:
            waits, *others = self._ahead
            here = await self._urgent_check.look(waits, others)
            try:
                await self._urgent_check.fewer(here)
            finally:  # a handler that was cancelled is not all of its worker
                self._ahead = deque(here)

    async def _more(self, timeout: float) -> Iterable[Item]:
        asked = steady_now()
        most = self._pace.next(asked, self._renewals.settled)
        await self._urgent_check.before_get(timeout)
        get = self._renewals.get(most, BYTES_MAX, timeout)
        delivered = await leasing(self.port, self._steps, get)
        if delivered is None:
            return ()
        self._renewer.see()
        now = steady_now()
        self._pace.came(asked, now, self._renewals.settled)
        self._urgent_check.got(now)
        return items_under(self._gathering, delivered)
