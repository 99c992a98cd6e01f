"""Memory that an object is made in, with `await`: written in place, and put when it is done."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from snowmelt.client.connection.staying import stays
from snowmelt.client.pool.shapes import Shape, shaped


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
