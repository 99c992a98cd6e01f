"""The loop over a queue, with `await`: items one by one, and a task that tends their leases."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import suppress

from snowmelt.client.consuming import POLL_SECONDS
from snowmelt.client.delivered import Delivered, part_bodies
from snowmelt.client.fifo_steps import BYTES_MAX, FifoSteps
from snowmelt.client.items_async import Item
from snowmelt.client.leasing_async import leasing
from snowmelt.client.steps import AsyncPort, run_async
from snowmelt.client.tending import Tending
from snowmelt.core.instant import later, seconds
from snowmelt.core.interval import Interval
from snowmelt.runtime.clock import seconds_until, steady_now


class Gathering:
    """The desk of a consumer: acknowledgements are gathered, all else is sent at once."""

    def __init__(self, port: AsyncPort, steps: FifoSteps, tending: Tending) -> None:
        self._port = port
        self._steps = steps
        self._tending = tending

    async def ack(self, delivered: Delivered, where: Interval | None) -> None:
        """Done with these."""
        self._tending.ack(delivered, where)

    async def give_back(
        self, delivered: Delivered, where: Interval | None, delay: float, reason: str
    ) -> None:
        """These go back."""
        await run_async(self._port, self._steps.give_back(delivered, where, delay, reason))

    async def extend(self, delivered: Delivered) -> None:
        """The task does that."""
        delivered.check_held(steady_now())


async def consume(
    port: AsyncPort, steps: FifoSteps, prefetch: int, timeout: float | None
) -> AsyncGenerator[Item, None]:
    """Items, as long as they come within the time."""
    tending = Tending(steps)
    counter = Gathering(port, steps, tending)
    wake = asyncio.Event()
    tender = asyncio.create_task(_tend(port, tending, wake))
    try:
        while (delivered := await _next(port, steps, tending, prefetch, timeout)) is not None:
            wake.set()
            for part in delivered.parts:
                for position, body in enumerate(part_bodies(part), start=part.start):
                    yield Item(counter, delivered, part, body, position)
    finally:
        tender.cancel()
        with suppress(asyncio.CancelledError):
            await tender
        await run_async(port, tending.close())


async def _tend(port: AsyncPort, tending: Tending, wake: asyncio.Event) -> None:
    while True:
        await wake.wait()
        wake.clear()
        while not tending.idle:
            await asyncio.sleep(tending.tick)
            await run_async(port, tending.tend())


async def _next(
    port: AsyncPort, steps: FifoSteps, tending: Tending, prefetch: int, timeout: float | None
) -> Delivered | None:
    """The next lease; None when the time is over without one."""
    end = None if timeout is None else later(steady_now(), seconds(timeout))
    while True:
        left = POLL_SECONDS if end is None else min(POLL_SECONDS, seconds_until(end))
        delivered = await leasing(port, steps, tending.get(prefetch, BYTES_MAX, left))
        if delivered is not None or (end is not None and seconds_until(end) == 0):
            return delivered
