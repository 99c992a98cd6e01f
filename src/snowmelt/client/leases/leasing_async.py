"""What nobody waits for any more: a get leaves its queue, and what it brings goes back at once.

The steps of a get that is cancelled go on, for as long as its node takes to hear that it leaves.
Then it is answered with nothing, or what came meanwhile goes back.
"""

import asyncio
from typing import TypeVar

import msgspec

from snowmelt.client.connection.steps import KeepingPort, Query, Sleep, Steps, run_async
from snowmelt.client.leases.delivered import LeasedItems
from snowmelt.client.leases.steps import LeaseSteps
from snowmelt.core.errors import Closed, SnowmeltError
from snowmelt.protocols.queue.api.calls import Get

T = TypeVar("T")


class Cancellation(msgspec.Struct):
    """Whether anybody waits for what some steps bring."""

    nobody_waits: bool = False


def unless_left(steps: Steps[T], leaves: Cancellation) -> Steps[T]:
    """The same steps, which ask for no items, and wait for nothing, once nobody waits for them.

    >>> leaves = Cancellation()
    >>> steps = unless_left((rest for rest in [Sleep(1), Sleep(1)]), leaves)
    >>> next(steps)
    Sleep(seconds=1)
    >>> leaves.nobody_waits = True
    >>> next(steps)
    Traceback (most recent call last):
    snowmelt.core.errors.Closed: the caller of this get has gone
    """
    try:
        step = next(steps)
        while True:
            asks = isinstance(step, Sleep) or (isinstance(step, Query) and type(step.body) is Get)
            if asks and leaves.nobody_waits:
                step = steps.throw(Closed("the caller of this get has gone"))
                continue
            try:
                answer = yield step
            except BaseException as error:  # an interrupt, too: see `SoFar`
                step = steps.throw(error)
            else:
                step = steps.send(answer)
    except StopIteration as end:
        value: T = end.value
        return value


async def leasing(
    port: KeepingPort, steps: LeaseSteps, get: Steps[LeasedItems | None]
) -> LeasedItems | None:
    """Takes the steps of a get; when it is cancelled meanwhile, they leave, and end in a return."""
    leaves = Cancellation()
    task = asyncio.ensure_future(run_async(port, unless_left(get, leaves)))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        leaves.nobody_waits = True
        port.leave(task)
        port.keep(_return(port, steps, task))
        raise


async def _return(
    port: KeepingPort, steps: LeaseSteps, task: asyncio.Future[LeasedItems | None]
) -> None:
    try:
        delivered = await task
        if delivered is not None:
            await run_async(port, steps.give_back(delivered, None))
    except SnowmeltError:
        pass  # the lease will end by itself
