# Made of objects_async.py by scripts/faces.py, which `make faces` runs: change it there.
"""What a pool gives a person: one `Object`, or `Objects` of one producer; blocking.

Not items as a fifo's: an object has no position and no headers, and its body may be large, so it is
handed over as it came. `loop_state.py` has the rules of the loop over them.
"""

import sys
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Self

from snowmelt.client.connection.open_loops import opened
from snowmelt.client.connection.session import TIMEOUT
from snowmelt.client.connection.staying import stays
from snowmelt.client.connection.steps import Port
from snowmelt.client.connection.takers import Taker, this_thread
from snowmelt.client.pool import steps as pool_steps
from snowmelt.client.pool.bodies import alone, numbers
from snowmelt.client.pool.loans import ClientLoan
from snowmelt.client.pool.loop_state import NextObject, ObjectLoopState
from snowmelt.client.pool.open_pools import OpenPool
from snowmelt.client.pool.port import PoolPort
from snowmelt.client.pool.views import ObjectsView, ObjectView
from snowmelt.client.queue.codecs import PLAIN, ValueCodec
from snowmelt.core.errors import Closed, SnowmeltError
from snowmelt.protocols.pool.calls import Got, Nack


class Object(ObjectView[Port]):
    """One object, on loan. Use it in a `with`: done on leaving, given back on an exception.

    >>> import snowmelt, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with snowmelt.open(folder) as cluster:
    ...         frames = cluster.pool("frames")
    ...         frames.put(b"frame")
    ...         with frames.get() as frame:
    ...             print(frame.body)
    b'frame'
    """

    __slots__ = ()

    def ack(self, *, timeout: float = TIMEOUT) -> None:
        """It is done and never comes again. Raises `LeaseLost` when it may be another's by now.

        Raises `OutcomeUnknown` when its producer does not confirm it; it may have died since.
        """
        loan = self.closed()
        if loan.token:
            self._port.call(pool_steps.ack(loan.token, self.intervals, timeout), timeout)
        loan.told()

    def nack(self) -> None:
        """It is not done, and is offered again."""
        loan = self.closed()
        if loan.token:
            self._port.call(Nack(loan.token, self.intervals), TIMEOUT)
        loan.told()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        leave(self, error)


class Objects(ObjectsView[Port]):
    """Objects of one producer, under one loan, made into Python's only when iterated.

    >>> import snowmelt, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with snowmelt.open(folder) as cluster:
    ...         frames = cluster.pool("frames")
    ...         _ = frames.put_many([b"one", b"two"])
    ...         with frames.get_many() as objects:
    ...             print(len(objects), [one.body for one in objects], objects.batch)
    2 [b'one', b'two'] Batch(2 items, 6 bytes)
    """

    __slots__ = ()

    def __iter__(self) -> Iterator[Object]:
        loan = self._loan
        for body, number in zip(self.batch, numbers(self._spans), strict=True):
            one = Object(self._port, loan, bytes(body), (number,), self._codec)
            one.open = bool(loan.left) and number.start not in loan.ended
            yield one

    def ack(self, *, timeout: float = TIMEOUT) -> None:
        """All that is open still is done; as `Object.ack`."""
        if self.open:
            loan = self._loan.begin(self._loan.left)
            if loan.token:
                self._port.call(pool_steps.ack(loan.token, (), timeout), timeout)
            loan.told()

    def nack(self) -> None:
        """All that is open still is offered again."""
        if self.open:
            loan = self._loan.begin(self._loan.left)
            if loan.token:
                self._port.call(Nack(loan.token, ()), TIMEOUT)
            loan.told()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        leave(self, error)


def leave(held: Object | Objects, error: BaseException | None) -> None:
    """What the end of a `with` means: done, or given back."""
    if not held.open:
        return
    if error is None:
        held.ack()
        return
    with suppress(SnowmeltError):  # the first failure is the one to raise
        held.nack()


def only(port: Port, loan: ClientLoan, got: Got, codec: ValueCodec) -> Object:
    """The object of a get for one."""
    return Object(port, loan, alone(got.blob), codec=codec)


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
