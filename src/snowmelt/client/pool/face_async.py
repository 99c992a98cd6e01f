"""A pool as a program holds it, with `await`."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import suppress
from typing import Any, Self

from snowmelt.client.connection.session import TIMEOUT, checked
from snowmelt.client.connection.staying import stays
from snowmelt.client.connection.steps import run_async
from snowmelt.client.connection.takers import this_task
from snowmelt.client.leases.steps import checked_count
from snowmelt.client.pool import steps as pool_steps
from snowmelt.client.pool.loans import taken
from snowmelt.client.pool.objects_async import Object, ObjectLoop, Objects, only
from snowmelt.client.pool.open_pools import OpenPool
from snowmelt.client.pool.options import check_prefetch
from snowmelt.client.pool.port_async import PoolPort
from snowmelt.client.pool.shapes import Shape, bytes_of, shaped
from snowmelt.client.pool.steps import BYTES_MAX
from snowmelt.client.queue.codecs import PLAIN, ValueCodec
from snowmelt.core.batch import Batch, Buffer
from snowmelt.core.errors import SnowmeltError
from snowmelt.core.names import NodeId
from snowmelt.protocols.pool.calls import PeerStatistics
from snowmelt.protocols.pool.settings import ASKED_BYTES_MAX, ASKED_OBJECTS_MAX


class ObjectRoom:
    """An object that is being made; `pool.room` gives it, for an `async with`."""

    __reduce__ = stays("send what was made in it")

    def __init__(
        self,
        put: Callable[[memoryview, float], Any],
        room: memoryview,
        shape: Shape,
        dtype: Any,
        timeout: float,
    ) -> None:
        self._put = put
        self._room = room
        self._view = shaped(room, shape, dtype)
        self._timeout = timeout

    async def __aenter__(self) -> memoryview:
        return self._view

    async def __aexit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        try:
            if error is None:
                await self._put(self._room.toreadonly(), self._timeout)
        finally:  # it may be put though this was interrupted
            with suppress(BufferError):  # an array of it lives, and must not be written to
                self._view.release()


class Pool:
    """Objects in any order, that stay where they were made until somebody wants them.

    `cluster.pool(name)` makes this process part of a pool. It may put, get, or both. Close it (or
    use it in an `async with`): then it leaves in order, and others take over what it has left. A
    pool that is not closed takes its objects along, as a process that is killed does.

    `timeout` is how many seconds a call may wait. Tasks may share a pool.

    >>> import snowmelt.aio, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     async with snowmelt.aio.open(folder) as cluster:
    ...         frames = cluster.pool("frames", buffers=10)
    ...         await frames.put(b"one")
    ...         await frames.put_many([b"two", b"three"])
    ...         sorted([frame.body async for frame in frames.consume(timeout=0)])
    2
    [b'one', b'three', b'two']
    """

    __reduce__ = stays("send its name and the URL, and connect there")

    def __init__(
        self, part: OpenPool, codec: ValueCodec = PLAIN, port: PoolPort | None = None
    ) -> None:
        self._codec = codec
        self._part = part
        self._port = port or PoolPort(part)
        self._written = part.engine.written
        part.handles.add(self)

    def __repr__(self) -> str:
        return f"Pool({self.name!r})"

    @property
    def name(self) -> str:
        """The name that all members of the pool joined by."""
        return self._part.name

    @property
    def id(self) -> NodeId:
        """The name under which others know this process."""
        return self._part.engine.config.name

    async def put(self, body: Any, *, timeout: float = TIMEOUT) -> None:
        """Keeps an object here until somebody wants it. Raises `Full` when no buffer became free.

        The body is yours again once this returns: one that can change (a bytearray, an array) is
        copied. One of 64 KiB or more that is read-only is not: `array.flags.writeable = False`, or
        `memoryview(body).toreadonly()`, hands it over, and it must not change from now on.
        """
        await self._keep(self._codec.body(body), timeout)

    async def _keep(self, body: Buffer, timeout: float) -> None:
        call = pool_steps.put(body, timeout, this_task(), self._written)
        await self._port.put(call, timeout)

    async def put_many(self, bodies: Iterable[Any] | Batch, *, timeout: float = TIMEOUT) -> int:
        """Keeps objects here; returns how many. All of them count against `buffers`.

        Raises `Full` when there was not room for all; a note of the exception says how many are in.
        """
        rows = self._codec.bodies(bodies)
        return await run_async(
            self._port, pool_steps.put_many(rows, timeout, this_task(), self._written)
        )

    def room(self, shape: Shape, dtype: Any = "B", *, timeout: float = TIMEOUT) -> ObjectRoom:
        """Memory to make an object in, for an `async with`; put when that ends without an error.

        Processes of this machine then read it where it was written, and nothing copies it. The
        memory is an array of this shape, as `numpy.asarray` takes it; `dtype` is numpy's, or a
        letter of Python's `struct`. Behind the `with` it must not be written to.

        >>> import snowmelt.aio, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     async with snowmelt.aio.open(folder) as cluster:
        ...         frames = cluster.pool("frames")
        ...         async with frames.room(5) as frame:
        ...             frame[:] = b"frame"
        ...         async with await frames.get() as frame:
        ...             frame.body
        b'frame'
        """
        room = self._part.engine.room(bytes_of(shape, dtype))
        return ObjectRoom(self._keep, room, shape, dtype, checked(timeout))

    async def await_room(self, *, timeout: float = TIMEOUT) -> None:
        """Waits until there is room for another object, for those that are costly to make.

        A program that asks this before it makes each object never makes one that must wait.
        """
        await run_async(self._port, pool_steps.await_room(timeout, this_task()))

    async def get(self, *, timeout: float = TIMEOUT) -> Object:
        """The first object that a probe finds. Raises `Empty` when none was found in the time."""
        asked = await self._port.ask(pool_steps.get(1, BYTES_MAX, timeout), timeout)
        return only(self._port, *taken(asked, self._part.me, once=self._part.once), self._codec)

    async def get_many(
        self, objects_max: int = 1000, *, bytes_max: int = BYTES_MAX, timeout: float = TIMEOUT
    ) -> Objects:
        """What the first producer that has something has, up to so many objects."""
        checked_count("objects_max", objects_max, ASKED_OBJECTS_MAX)
        checked_count("bytes_max", bytes_max, ASKED_BYTES_MAX)
        asked = await self._port.ask(pool_steps.get(objects_max, bytes_max, timeout), timeout)
        return Objects(self._port, *taken(asked, self._part.me, once=self._part.once), self._codec)

    def consume(self, prefetch: int | None = None, timeout: float | None = None) -> ObjectLoop:
        """Objects one by one, for ever, or until none was found for `timeout` seconds.

        An object is done when the next is asked for, unless it was given back by then; when the
        loop is left, or raises, the last one goes back. Its producer's confirmation is not waited
        for; of those that came too late, `stats().late` has the number.

        As many are asked for ahead as are worked off in a moment, or `prefetch`; they travel while
        the loop works. They are then with this process, and with nobody who may be free before.
        """
        check_prefetch(prefetch)
        if timeout is not None:
            timeout = max(0.0, checked(timeout))
        return ObjectLoop(self._part, self._port, prefetch, timeout, self._codec)

    def __aiter__(self) -> AsyncIterator[Object]:
        return self.consume()

    async def stats(self, *, timeout: float = TIMEOUT) -> PeerStatistics:
        """What this member has and has given, which producers it asked, and which had something."""
        return await run_async(self._port, pool_steps.stats(timeout))

    async def close(self, *, timeout: float = TIMEOUT) -> None:
        """Leaves: what is held goes back, and what is kept here is taken over by others.

        In an open folder the last of those who share the pool leaves for all.
        Raises `DataLost` when nobody took it in the time; with `spill` it waits on the disk.
        """
        timeout = checked(timeout)
        self._part.handles.discard(self)
        if self._part.handles:
            self._port.close()
        else:
            await asyncio.to_thread(self._part.close, timeout)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        try:
            await self.close()
        except SnowmeltError as failure:
            if error is None:
                raise
            error.add_note(str(failure))  # the first failure is the one to raise
