# Made of consuming_async.py by scripts/faces.py, which `make faces` runs: change it there.
"""The loop over a pool's objects; blocking; `loop_state.py` has its rules."""

import sys
from typing import Any, Self

from snowmelt.client.connection.open_loops import opened
from snowmelt.client.connection.staying import stays
from snowmelt.client.connection.takers import Taker, this_thread
from snowmelt.client.pool.loans import ClientLoan
from snowmelt.client.pool.loop_state import NextObject, ObjectLoopState
from snowmelt.client.pool.objects import Object, only
from snowmelt.client.pool.open_pools import OpenPool
from snowmelt.client.pool.port import PoolPort
from snowmelt.client.queue.codecs import PLAIN, ValueCodec
from snowmelt.core.errors import Closed
from snowmelt.protocols.pool.calls import Got


class ObjectLoop:
    """Objects one by one, for a `for`; `Pool.consume` gives it.

    Close it, or use it in a `with`. Threads may share a loop; when it ends for one, it ends
    for all. It ends with its pool, too.
    """

    __reduce__ = stays("send its objects' bodies")

    def __init__(
        self,
        part: OpenPool,
        port: PoolPort,
        prefetch: int | None,
        timeout: float | None,
        codec: ValueCodec = PLAIN,
    ) -> None:
        self._codec = codec
        self._port = port
        self._state = ObjectLoopState(part, prefetch, timeout)
        opened(self)
        part.engine.words.watch(self, self._state.close)  # should this be dropped and interrupted

    def __iter__(self) -> Self:
        self._state.leave(this_thread())
        return self

    def __next__(self) -> Object:
        who = this_thread()
        try:
            held = self._next(who)
        except BaseException:
            self._state.end()
            raise
        # Between these two no handler of a signal is run: it is handed out, or it went back.
        self._state.hands[who] = held
        return held

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends it; what is in hand goes back."""
        self._state.close(this_thread())
        self._state.part.engine.words.ring()

    def end_of(self, port: Any) -> None:
        """Ends it when it is of this part, which is about to be closed, or whatever its part."""
        if port is None or port is self._state.part:
            self._state.close(this_thread())
            self._state.part.engine.words.ring()

    def __del__(self) -> None:
        if not sys.is_finalizing():
            self._state.close()

    def _next(self, who: Taker) -> Object:
        self._state.begin(who)
        found = self._state.at_once() or self._awaited(self._state.wish())
        return only(self._port, *found, self._codec)

    def _awaited(self, wish: NextObject) -> tuple[ClientLoan, Got]:
        try:
            while not wish.over:
                found = wish.met()
                if found is not None:
                    return found
                self._port.wait(self._state, wish.until)
        except Closed:
            if not self._state.over:
                raise
        raise StopIteration  # also when the pool was closed between a look and a wait
