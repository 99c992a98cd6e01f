"""A pool as a program holds it, with `await`; `face.py` tells more of each call.

The machine runs in a thread of its own; only answers cross over to the event loop.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable
from types import TracebackType
from typing import Any, Self

from snowmelt.client.connection.session import TIMEOUT, checked
from snowmelt.client.connection.staying import stays
from snowmelt.client.connection.steps import run_async
from snowmelt.client.pool import steps as pool_steps
from snowmelt.client.pool.consuming_async import Consumption, Crossing, this_task
from snowmelt.client.pool.face import check_prefetch
from snowmelt.client.pool.loans import taken
from snowmelt.client.pool.objects_async import Object, Objects, only
from snowmelt.client.pool.parts import Part
from snowmelt.client.pool.steps import BYTES_MAX
from snowmelt.client.queue.codecs import PLAIN, Codec
from snowmelt.core.batch import Batch
from snowmelt.core.errors import BadOption, SnowmeltError
from snowmelt.core.names import NodeId
from snowmelt.protocols.pool.calls import PeerStatistics
from snowmelt.runtime.peer.asking import Asked


class AsyncPart:
    """One process' part in a pool, for one event loop at a time."""

    def __init__(self, part: Part) -> None:
        self.part = part

    async def call(
        self, body: Any, timeout: float, target: NodeId | None = None, weight: int = 0
    ) -> Any:
        """Calls the machine, as `steps.AsyncPort` has it; the machine keeps the time."""
        del timeout, target, weight
        return (await self.ask(body)).take()

    async def ask(self, body: Any) -> Asked:
        """The same; the answer stays where it goes back by itself if nobody takes it."""
        engine = self.part.engine
        crossing = Crossing()

        def told(asked: Asked) -> None:
            if not crossing.answer(None):
                asked.give_back()  # its event loop is closed

        asked = Asked(engine.words, told)
        try:
            engine.begin(body, asked)
            if not asked.answered:
                await crossing.future
        except BaseException:
            asked.drop()
            raise
        return engine.checked(asked)


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

    __reduce__ = stays("send its name and the URL, and connect there")

    def __init__(self, part: Part, codec: Codec = PLAIN) -> None:
        self._codec = codec
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

    async def put(self, body: Any, *, timeout: float = TIMEOUT) -> None:
        """Keeps an object here until somebody wants it. Raises `Full`."""
        kept = await self._port.call(
            pool_steps.put(self._codec.body(body), timeout, this_task()), timeout
        )
        pool_steps.check_kept(kept, timeout)

    async def put_many(self, bodies: Iterable[Any] | Batch, *, timeout: float = TIMEOUT) -> int:
        """Keeps objects here; returns how many. Raises `Full`."""
        rows = self._codec.bodies(bodies)
        return await run_async(self._port, pool_steps.put_many(rows, timeout, this_task()))

    async def await_room(self, *, timeout: float = TIMEOUT) -> None:
        """Waits until there is room for another object."""
        await run_async(self._port, pool_steps.await_room(timeout, this_task()))

    async def get(self, *, timeout: float = TIMEOUT) -> Object:
        """The first object that a probe finds. Raises `Empty`."""
        asked = await self._port.ask(pool_steps.get(1, BYTES_MAX, timeout))
        return only(self._port, *taken(asked, self._part.me, once=self._part.once), self._codec)

    async def get_many(
        self, objects_max: int = 1000, *, bytes_max: int = BYTES_MAX, timeout: float = TIMEOUT
    ) -> Objects:
        """What the first producer that has something has, up to so many objects."""
        for option, value in (("objects_max", objects_max), ("bytes_max", bytes_max)):
            if type(value) is not int or value < 1:
                raise BadOption(option, value, "a whole number, 1 or more")
        asked = await self._port.ask(pool_steps.get(objects_max, bytes_max, timeout))
        return Objects(self._port, *taken(asked, self._part.me, once=self._part.once), self._codec)

    def consume(self, prefetch: int | None = None, timeout: float | None = None) -> Consumption:
        """Objects one by one, for ever, or until none was found for `timeout` seconds."""
        check_prefetch(prefetch)
        if timeout is not None:
            timeout = max(0.0, checked(timeout))
        return Consumption(self._part, self._port, prefetch, timeout, self._codec)

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
