"""Calls that a process makes to its own machines, as a client of theirs would.

Their answers are told to whoever runs the machines (`Running`), by the process' own name.
"""

import asyncio
from collections.abc import Callable
from itertools import count
from typing import Any, Final

from snowmelt.core.names import NodeId, OperationId
from snowmelt.core.node import Reply, Requested

FIRST: Final = 1_000
"""Numbers below are of calls of other kinds (`server.Server.stop`)."""


class Inquiries:
    """Of one process, on its event loop."""

    def __init__(self, me: NodeId, handle: Callable[[Requested[Any]], None]) -> None:
        self._me = me
        self._handle = handle
        self._numbers = count(FIRST)
        self._open: dict[int, asyncio.Future[Any]] = {}

    async def ask(self, request: Any) -> Any:
        """What is answered. Nobody waits without end: it is asked within a time."""
        number = next(self._numbers)
        answer = self._open[number] = asyncio.get_running_loop().create_future()
        try:
            self._handle(Requested(OperationId(self._me, number), request))
            return await answer
        finally:
            del self._open[number]

    def replied(self, effect: Reply[Any]) -> bool:
        """An answer came; whether it is to one of these."""
        answer = self._open.get(effect.operation.number)
        if answer is None or effect.operation.client != self._me:
            return effect.operation.number >= FIRST  # nobody waits for it any more
        if not answer.done():
            answer.set_result(effect.message)
        return True
