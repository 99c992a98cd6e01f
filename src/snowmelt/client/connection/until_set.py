"""Waiting for an event of the loop, so long at most."""

import asyncio
from contextlib import suppress


async def until_set(event: asyncio.Event, timeout: float) -> None:
    """Until it is set, or so many seconds.

    Not by `wait_for`: that of Python 3.11 forgets a cancellation in the moment of the answer.

    >>> asyncio.run(until_set(asyncio.Event(), 0.001))
    """
    with suppress(TimeoutError):
        async with asyncio.timeout(timeout):
            await event.wait()
