"""A get that nobody waits for any more: what it brings goes back at once."""

import asyncio

from snowmelt.client.connection.steps import KeepingPort, Steps, run_async
from snowmelt.client.leases.delivered import Delivered
from snowmelt.client.leases.steps import LeaseSteps
from snowmelt.core.errors import SnowmeltError


async def leasing(
    port: KeepingPort, steps: LeaseSteps, get: Steps[Delivered | None]
) -> Delivered | None:
    """Takes the steps of a get; when it is cancelled meanwhile, they go on, and end in a return."""
    task = asyncio.ensure_future(run_async(port, get))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        port.keep(_return(port, steps, task))
        raise


async def _return(
    port: KeepingPort, steps: LeaseSteps, task: asyncio.Future[Delivered | None]
) -> None:
    try:
        delivered = await task
        if delivered is not None:
            await run_async(port, steps.give_back(delivered, None, 0.0, ""))
    except SnowmeltError:
        pass  # the lease will end by itself
