"""How tasks ask their process' part in a pool.

The machine runs in a thread of its own; only answers cross over to the event loop.
"""

import asyncio
from contextlib import suppress
from typing import Any

from snowmelt.client.pool.loop_state import ObjectLoopState
from snowmelt.client.pool.open_pools import PoolPortBase
from snowmelt.client.pool.steps import check_kept
from snowmelt.core.instant import Instant
from snowmelt.core.names import NodeId
from snowmelt.protocols.pool.calls import PoolPut
from snowmelt.runtime.clock import seconds_until
from snowmelt.runtime.peer.asking import PendingCall


class LoopNotifier:
    """Sets a future of an event loop, from any thread; does nothing when the loop is closed."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.future: asyncio.Future[None] = self._loop.create_future()

    def answer(self, body: Any) -> bool:
        """Whether the loop still runs and was notified."""
        del body
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._tell)
            return True
        return False

    def _tell(self) -> None:
        if not self.future.done():
            self.future.set_result(None)


class PoolPort(PoolPortBase):
    """A port to one process' part in a pool, for one event loop at a time."""

    async def call(
        self, body: Any, timeout: float, target: NodeId | None = None, weight: int = 0
    ) -> Any:
        del target, weight
        return (await self.ask(body, timeout)).take()

    async def ask(self, body: Any, timeout: float) -> PendingCall:
        """The same; the answer stays where it goes back by itself if nobody takes it."""
        del timeout  # the machine keeps it
        self.check()
        crossing = LoopNotifier()

        def told(asked: PendingCall) -> None:
            if not crossing.answer(None):
                asked.give_back()  # its event loop is closed

        asked = PendingCall(self._engine.words, told)
        try:
            self._engine.begin(body, asked)
            await crossing.future
        except BaseException:
            asked.drop()
            raise
        return self._engine.checked(asked)

    async def put(self, put: PoolPut, timeout: float) -> None:
        """Returns when one object is kept; other tasks have had their turn by then."""
        if self._engine.places:
            await asyncio.sleep(0)  # before: who is cancelled here has put nothing
        self.check()
        if not self._engine.put_ahead(put):
            check_kept(await self.call(put, timeout), timeout)

    async def wait(self, state: ObjectLoopState, until: Instant) -> None:
        """Until there is something for a loop to look at, or the time is over."""
        self.check()
        self._engine.check()
        crossing = LoopNotifier()
        if not state.ready(crossing):
            await asyncio.wait([crossing.future], timeout=seconds_until(until))
