"""What nobody waits for any more: a get goes on, and what it brings goes back at once.

So it is with all that would be half done for as long as a lease lasts, if it were cancelled.
"""

import asyncio
from contextlib import suppress
from typing import TypeVar

from snowmelt.client.connection.steps import KeepingPort, Steps, run_async
from snowmelt.client.leases.delivered import Delivered
from snowmelt.client.leases.steps import LeaseSteps
from snowmelt.core.errors import SnowmeltError

T = TypeVar("T")


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


async def to_the_end(port: KeepingPort, steps: Steps[T]) -> T:
    """Takes steps; when their caller is cancelled meanwhile, they go on to their end."""
    task = asyncio.ensure_future(run_async(port, steps))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        port.keep(_ended(task))
        raise


async def _ended(task: asyncio.Future[T]) -> None:
    with suppress(SnowmeltError):  # nobody is there who could be told
        await task
