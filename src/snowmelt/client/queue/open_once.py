"""Tasks that all find a queue unopened ask for it together."""

import asyncio
from collections.abc import Coroutine
from functools import partial
from typing import Any, Final

from snowmelt.client.connection.steps import AsyncEndable, KeepingPort
from snowmelt.core.errors import SnowmeltError, Unreachable
from snowmelt.core.names import NodeId
from snowmelt.protocols.queue.api.calls import Open

_GRACE: Final = 0.03
"""So long a call that is over in the same moment may take to say itself what was the matter."""


class OpenOnce:
    """A port through which calls that all find the queue unopened ask for it together."""

    def __init__(self, port: KeepingPort) -> None:
        self.port = port
        self._opening: dict[Open, asyncio.Future[Any]] = {}
        """By what is asked: some know no settings, and some only look."""

    async def call(
        self, body: Any, timeout: float, target: NodeId | None = None, weight: int = 0
    ) -> Any:
        """Calls, waits, and returns the answer's body; raises what went wrong."""
        if type(body) is not Open:
            return await self.port.call(body, timeout, target, weight)
        opening = self._opening.get(body)
        if opening is None:
            opening = asyncio.ensure_future(self.port.call(body, timeout, target, weight))
            self._opening[body] = opening
            opening.add_done_callback(partial(self._opened, body))
        try:
            # Not `wait_for`: that of 3.11 forgets a cancellation in the moment of the answer.
            async with asyncio.timeout(timeout + _GRACE):
                return await asyncio.shield(opening)
        except TimeoutError as error:  # or ours, of the same name
            if isinstance(error, SnowmeltError):
                raise
            raise Unreachable("the queue could not be opened in the time given") from None

    def check_loop(self) -> None:
        self.port.check_loop()

    def keep(self, work: Coroutine[Any, Any, None]) -> None:
        self.port.keep(work)

    def before_closing(self, one: AsyncEndable) -> None:
        self.port.before_closing(one)

    def leave(self, task: asyncio.Task[Any]) -> None:
        self.port.leave(task)

    def _opened(self, asked: Open, opening: asyncio.Future[Any]) -> None:
        del self._opening[asked]
        if not opening.cancelled():
            opening.exception()  # seen, also when nobody waits any more


def root(port: object) -> object:
    """The port of the whole cluster, below."""
    return port.port if isinstance(port, OpenOnce) else port
