"""The task that renews the leases of a loop over a queue."""

import asyncio

from snowmelt.client.connection.steps import AsyncEndable, KeepingPort, run_async
from snowmelt.client.leases.renewals import Hand, LeaseRenewals


class LeaseRenewer:
    """Renews a consumer's leases, sends what it gathered, and has the last word."""

    def __init__(self, port: KeepingPort, renewals: LeaseRenewals, loop: AsyncEndable) -> None:
        self._port = port
        self._renewals = renewals
        self._wake = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        port.before_closing(loop)

    def see(self) -> None:
        if self._task is None:
            self._loop = asyncio.get_running_loop()
            self._task = self._loop.create_task(_tend(self._port, self._renewals, self._wake))
        self._wake.set()

    async def close(self, hand: Hand | None, reason: str) -> None:
        """Acknowledges what is done and gives back the rest, though its caller is cancelled.

        Raises when something that was acknowledged was not taken, or may not have been.
        """
        ending = asyncio.ensure_future(self._ended(hand, reason))
        try:
            await asyncio.shield(ending)
        except asyncio.CancelledError:
            self._port.keep(_seen(ending))
            raise
        self._renewals.check_told()

    def drop(self, hand: Hand | None, reason: str) -> None:
        """The loop was dropped, perhaps by the collector of garbage, which may be anywhere."""
        loop = self._loop
        if loop is not None and loop.is_running():
            loop.call_soon_threadsafe(self._port.keep, self._ended(hand, reason))

    async def _ended(self, hand: Hand | None, reason: str) -> None:
        self._renewals.closing = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])  # which lets a cancellation of whoever waits through
        await run_async(self._port, self._renewals.close(hand, reason))


async def _tend(port: KeepingPort, renewals: LeaseRenewals, wake: asyncio.Event) -> None:
    while True:
        await wake.wait()
        wake.clear()
        while not renewals.idle:
            await asyncio.sleep(renewals.tick)
            await run_async(port, renewals.tend())


async def _seen(ending: asyncio.Future[None]) -> None:
    await ending
