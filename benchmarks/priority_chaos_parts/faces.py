"""A queue as a client of a run holds it: the same work through the blocking face and the other.

What a client does is written once, with `await`. Through the blocking face nothing is ever waited
for that way: each call has its answer when it comes back, and `finished` runs it all in a thread.

Answers carry orders, which no face tells a person: `Told` keeps the last ones.
"""

import asyncio
import time
from collections.abc import Coroutine
from typing import Any, Protocol

from snowmelt.client.connection.steps import Steps
from snowmelt.client.leases.items import Items
from snowmelt.client.leases.items_async import Items as AsyncItems
from snowmelt.client.overlay import face as overlay
from snowmelt.client.overlay import face_async as overlay_async
from snowmelt.client.overlay.steps import OverlaySteps
from snowmelt.protocols.priority.calls import Leased, PutDone

Held = Items | AsyncItems


class Told(OverlaySteps):
    """The steps of one client's queue, and what they were told last."""

    put_done: PutDone | None = None
    leased: Leased | None = None

    def forget(self) -> None:
        """Before the next call."""
        self.put_done = self.leased = None

    def _ask(self, *more: Any, **options: Any) -> Steps[tuple[Any, Any]]:
        answer, asked = yield from super()._ask(*more, **options)
        if isinstance(answer, PutDone):
            self.put_done = answer
        elif isinstance(answer, Leased):
            self.leased = answer
        return answer, asked


class Face(Protocol):
    """What a client may do."""

    told: Told

    async def put_many(self, pairs: list[tuple[int, bytes]], timeout: float) -> None:
        """Puts them in one call."""

    async def get_many(self, most: int, timeout: float) -> Held:
        """Leases some."""

    async def settle(self, items: Held, word: str) -> None:
        """`ack`, `nack` or `release`."""

    async def rest(self, seconds: float) -> None:
        """Does nothing for a while."""


class Blocking:
    """A thread's."""

    def __init__(self, queue: overlay.OverlayQueue, told: Told) -> None:
        self.told = told
        self._queue = queue

    async def put_many(self, pairs: list[tuple[int, bytes]], timeout: float) -> None:
        self._queue.put_many(pairs, timeout=timeout)

    async def get_many(self, most: int, timeout: float) -> Held:
        return self._queue.get_many(most, timeout=timeout)

    async def settle(self, items: Held, word: str) -> None:
        getattr(items, word)()

    async def rest(self, seconds: float) -> None:
        time.sleep(seconds)


class Awaiting:
    """A task's."""

    def __init__(self, queue: overlay_async.OverlayQueue, told: Told) -> None:
        self.told = told
        self._queue = queue

    async def put_many(self, pairs: list[tuple[int, bytes]], timeout: float) -> None:
        await self._queue.put_many(pairs, timeout=timeout)

    async def get_many(self, most: int, timeout: float) -> Held:
        return await self._queue.get_many(most, timeout=timeout)

    async def settle(self, items: Held, word: str) -> None:
        await getattr(items, word)()

    async def rest(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


def finished(work: Coroutine[Any, Any, None]) -> None:
    """Runs what waits for nothing."""
    try:
        work.send(None)
    except StopIteration:
        return
    raise AssertionError("a blocking client waited for an event loop")
