"""The loop over a pool's objects, with `await`; `catching.py` has its rules."""

import asyncio
import sys
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from snowmelt.client.connection.staying import stays
from snowmelt.client.connection.steps import AsyncPort
from snowmelt.client.leases.open_loops import opened
from snowmelt.client.pool.catching import Catch
from snowmelt.client.pool.objects_async import Object, only
from snowmelt.client.pool.parts import Part
from snowmelt.client.queue.codecs import PLAIN, Codec
from snowmelt.runtime.clock import seconds_until


class Crossing:
    """Tells a future of an event loop, from any thread; nobody, when the loop is closed."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.future: asyncio.Future[None] = self._loop.create_future()

    def answer(self, body: Any) -> bool:
        """Whether there is a loop still that is told."""
        del body
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._tell)
            return True
        return False

    def _tell(self) -> None:
        if not self.future.done():
            self.future.set_result(None)


class Consumption:
    """Objects one by one, for an `async for`; `pool_consuming.Consumption` tells more."""

    __reduce__ = stays("send its objects' bodies")

    def __init__(
        self,
        part: Part,
        port: AsyncPort,
        prefetch: int | None,
        timeout: float | None,
        codec: Codec = PLAIN,
    ) -> None:
        self._codec = codec
        self._port = port
        self._catch = Catch(part, prefetch, timeout)
        opened(self)
        part.engine.words.watch(self, self._catch.close)  # should this be dropped and interrupted

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Object:
        who = this_task()
        try:
            held = await self._next(who)
        except BaseException:
            self._catch.end()
            raise
        self._catch.hands[who] = held
        return held

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Ends it; what is in hand goes back."""
        self._catch.close(this_task())
        self._catch.part.engine.say_now()

    def end_of(self, port: Any) -> None:
        """Ends it when it is of this part, which is about to be closed, or whatever its part."""
        if port is None or port is self._catch.part:
            self._catch.close()
            self._catch.part.engine.say_now()

    def __del__(self) -> None:
        if not sys.is_finalizing():
            self._catch.close()

    async def _next(self, who: int) -> Object:
        catch = self._catch
        engine = catch.part.engine
        wish = catch.begin(who)
        while True:
            if wish.over:
                raise StopAsyncIteration
            found = wish.met()
            if found is not None:
                return only(self._port, *found, self._codec)
            crossing = Crossing()
            if not engine.look(catch.ready(crossing)):
                await asyncio.wait([crossing.future], timeout=seconds_until(wish.until))


def this_task() -> int:
    """The task that runs, as a number."""
    return id(asyncio.current_task())
