"""A get that nobody waits for any more: what it brings goes back at once."""

import asyncio
from typing import Final

from snowmelt.client.delivered import Delivered
from snowmelt.client.fifo_steps import FifoSteps
from snowmelt.client.steps import AsyncPort, Steps, run_async
from snowmelt.core.errors import SnowmeltError

_ORPHANS: Final[set[asyncio.Task[None]]] = set()  # a loop itself keeps no task alive


async def leasing(
    port: AsyncPort, steps: FifoSteps, get: Steps[Delivered | None]
) -> Delivered | None:
    """Takes the steps of a get; when it is cancelled meanwhile, they go on, and end in a return."""
    task = asyncio.ensure_future(run_async(port, get))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        orphan = asyncio.ensure_future(_return(port, steps, task))
        _ORPHANS.add(orphan)
        orphan.add_done_callback(_ORPHANS.discard)
        raise


async def _return(
    port: AsyncPort, steps: FifoSteps, task: asyncio.Future[Delivered | None]
) -> None:
    try:
        delivered = await task
        if delivered is not None:
            await run_async(port, steps.give_back(delivered, None, 0.0, ""))
    except SnowmeltError:
        pass  # the lease will end by itself
