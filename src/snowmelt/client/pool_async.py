"""A pool as a program holds it, with `await`; `pool.py` tells more of each call.

The machine runs in a thread of its own; only answers cross over to the event loop.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from types import TracebackType
from typing import Any, Self

from snowmelt.client import pool_steps
from snowmelt.client.objects_async import Object, Objects, only
from snowmelt.client.parts import Part
from snowmelt.client.pool import check_prefetch
from snowmelt.client.pool_consuming import ignored
from snowmelt.client.pool_steps import BYTES_MAX
from snowmelt.client.session import TIMEOUT, checked
from snowmelt.client.steps import run_async
from snowmelt.core.batch import Batch, Buffer
from snowmelt.core.errors import BadOption, Empty, SnowmeltError
from snowmelt.core.names import NodeId
from snowmelt.protocols.pool.calls import Got, Nack, PeerStatistics
from snowmelt.runtime.peer.engine import outcome_of


class AsyncPart:
    """One process' part in a pool, for one event loop at a time."""

    def __init__(self, part: Part) -> None:
        self.part = part

    async def call(
        self, body: Any, timeout: float, target: NodeId | None = None, weight: int = 0
    ) -> Any:
        """Calls the machine, as `steps.AsyncPort` has it; the machine keeps the time."""
        del timeout, target, weight
        engine = self.part.engine
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Any] = loop.create_future()

        def told(body: Any) -> None:
            if answer.done():
                self._unwanted(body)
            else:
                answer.set_result(body)

        def crossed(body: Any) -> None:
            loop.call_soon_threadsafe(told, body)

        number = engine.submit(body, crossed)
        try:
            outcome = await answer
        except asyncio.CancelledError:
            engine.withdraw(number)
            if answer.done() and not answer.cancelled():
                self._unwanted(answer.result())
            raise
        return outcome_of(outcome, engine.last_failure)

    def _unwanted(self, body: Any) -> None:
        """What came for a call that was cancelled goes back."""
        if isinstance(body, Got) and body.token:
            self.part.engine.submit(Nack(body.token, ()), ignored)


class Pool:
    """Objects in any order, that stay where they were made until somebody wants them.

    >>> import asyncio, snowmelt.aio
    >>> async def alone():
    ...     async with snowmelt.aio.connect("snowmelt://127.0.0.1:1") as cluster:
    ...         async with cluster.pool("frames") as frames:
    ...             await frames.get(timeout=0.1)
    >>> asyncio.run(alone())
    Traceback (most recent call last):
    snowmelt.core.errors.Empty: no node of the cluster has told yet who is in this pool...
    """

    def __init__(self, part: Part) -> None:
        self._part = part
        self._port = AsyncPart(part)

    def __repr__(self) -> str:
        return f"Pool({self.name!r})"

    @property
    def name(self) -> str:
        """The pool's name."""
        return self._part.name

    @property
    def id(self) -> NodeId:
        """The name under which others know this process."""
        return self._part.engine.config.name

    async def put(self, body: Buffer, *, timeout: float = TIMEOUT) -> None:
        """Keeps an object here until somebody wants it. Raises `Full`."""
        kept = await self._port.call(pool_steps.put(body, timeout), timeout)
        pool_steps.check_kept(kept, timeout)

    async def put_many(self, bodies: Iterable[Buffer] | Batch, *, timeout: float = TIMEOUT) -> int:
        """Keeps objects here; returns how many. Raises `Full`."""
        return await run_async(self._port, pool_steps.put_many(bodies, timeout))

    async def await_room(self, *, timeout: float = TIMEOUT) -> None:
        """Waits until there is room for another object."""
        await run_async(self._port, pool_steps.await_room(timeout))

    async def get(self, *, timeout: float = TIMEOUT) -> Object:
        """The first object that a probe finds. Raises `Empty`."""
        got = await self._port.call(pool_steps.get(1, BYTES_MAX, timeout), timeout)
        return only(self._port, got)

    async def get_many(
        self, objects_max: int = 1000, *, bytes_max: int = BYTES_MAX, timeout: float = TIMEOUT
    ) -> Objects:
        """What the first producer that has something has, up to so many objects."""
        for option, value in (("objects_max", objects_max), ("bytes_max", bytes_max)):
            if type(value) is not int or value < 1:
                raise BadOption(option, value, "a whole number, 1 or more")
        get = pool_steps.get(objects_max, bytes_max, timeout)
        return Objects(self._port, await self._port.call(get, timeout))

    async def consume(
        self, prefetch: int = 0, timeout: float | None = None
    ) -> AsyncGenerator[Object, None]:
        """Objects one by one, for ever, or until none was found for `timeout` seconds."""
        check_prefetch(prefetch)
        wait = TIMEOUT if timeout is None else max(0.0, checked(timeout))
        asked: deque[asyncio.Task[Object]] = deque()
        try:
            while True:
                while len(asked) <= prefetch:
                    asked.append(asyncio.ensure_future(self.get(timeout=wait)))
                try:
                    held = await asked.popleft()
                except Empty:
                    if timeout is None:
                        continue
                    return
                try:
                    yield held
                except BaseException:
                    await _give_back(held)
                    raise
                if held.open:
                    self._part.engine.submit(held.close(), ignored)
        finally:
            for one in asked:
                one.cancel()
            for ended in await asyncio.gather(*asked, return_exceptions=True):
                if isinstance(ended, Object):
                    await _give_back(ended)

    def __aiter__(self) -> AsyncIterator[Object]:
        return self.consume()

    async def stats(self, *, timeout: float = TIMEOUT) -> PeerStatistics:
        """How this process' part is."""
        return await run_async(self._port, pool_steps.stats(timeout))

    async def close(self, *, timeout: float = TIMEOUT) -> None:
        """Leaves in order. Raises `DataLost` when nobody took what is left."""
        await asyncio.to_thread(self._part.close, checked(timeout))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            await self.close()
        except SnowmeltError as failure:
            if error is None:
                raise
            error.add_note(str(failure))  # what went wrong first is what is to be told


async def _give_back(held: Object) -> None:
    if held.open:
        try:
            await held.nack()
        except SnowmeltError:
            return  # its lease ends by itself
