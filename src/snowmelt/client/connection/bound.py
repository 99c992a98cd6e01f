"""What an async client belongs to: one process, and one event loop; and what it must see to."""

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, Final
from weakref import WeakSet

from snowmelt.client.connection.forking import Origin
from snowmelt.client.connection.steps import AsyncEndable
from snowmelt.core.errors import Closed, SnowmeltError, WrongLoop

CLOSING_SECONDS: Final = 0.25
"""How long closing waits for what cancelled calls have left behind."""


class LoopBinding:
    """Where an async client may be used, and whether it is closed."""

    def __init__(self) -> None:
        self.closed = False
        self.failure: SnowmeltError | None = None
        """What a loop that was ended by closing could not acknowledge; `close` raises it."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._orphans: set[asyncio.Task[None]] = set()
        self._endings: WeakSet[AsyncEndable] = WeakSet()
        self._origin = Origin()

    def check(self) -> asyncio.AbstractEventLoop:
        """The loop that runs, if it is the one; raises `Closed` and `WrongLoop`."""
        self._origin.check("this cluster", "connect anew in this one")
        if self.closed:
            raise Closed("this client is closed")
        self.check_loop()
        self._loop = self._loop or asyncio.get_running_loop()
        return self._loop

    def check_loop(self) -> None:
        """Raises `WrongLoop` where another event loop runs; a forked child has its own to say."""
        if self._loop not in (None, asyncio.get_running_loop()) and not self._origin.left:
            raise WrongLoop(
                "this cluster is used by another event loop: connect within the loop that uses it"
            )

    def keep(self, work: Coroutine[Any, Any, None]) -> None:
        """Sees something to its end that nobody awaits; closing waits for it, a little."""
        task = asyncio.ensure_future(work)
        self._orphans.add(task)  # a loop itself keeps no task alive
        task.add_done_callback(self._orphans.discard)

    def before_closing(self, one: AsyncEndable) -> None:
        """Ends this before it closes, if it is there still."""
        self._endings.add(one)

    async def close(self) -> bool:
        """Whether there is something to close: not twice, nor when its loop or process is gone."""
        ended = self._loop is not None and self._loop.is_closed()
        if self.closed or ended or self._origin.left:
            self.closed = True
            return False
        self.check()
        for one in list(self._endings):
            try:
                await one.end()
            except SnowmeltError as failure:
                self.failure = self.failure or failure
        if self._orphans:  # what a cancelled call got goes back, if it is there by now
            await asyncio.wait(self._orphans, timeout=CLOSING_SECONDS)
        self.closed = True
        return True


async def until_set(event: asyncio.Event, timeout: float) -> None:
    """Until it is set, or so many seconds.

    Not by `wait_for`: that of Python 3.11 forgets a cancellation in the moment of the answer.

    >>> asyncio.run(until_set(asyncio.Event(), 0.001))
    """
    with suppress(TimeoutError):
        async with asyncio.timeout(timeout):
            await event.wait()
