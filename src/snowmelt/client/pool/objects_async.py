"""What a pool gives a person: one `Object`, or `Objects` of one producer, with `await`.

Not items as a fifo's: an object has no position and no headers, and its body may be large, so it is
handed over as it came.
"""

from collections.abc import Iterator
from contextlib import suppress
from typing import Self

from snowmelt.client.connection.session import TIMEOUT
from snowmelt.client.connection.steps import AsyncPort
from snowmelt.client.pool import steps as pool_steps
from snowmelt.client.pool.bodies import alone, numbers
from snowmelt.client.pool.loans import ClientLoan
from snowmelt.client.pool.views import ObjectsView, ObjectView
from snowmelt.client.queue.codecs import ValueCodec
from snowmelt.core.errors import SnowmeltError
from snowmelt.protocols.pool.calls import Got, Nack


class Object(ObjectView[AsyncPort]):
    """One object, on loan. Use it in an `async with`: done on leaving, given back on an exception.

    >>> import snowmelt.aio, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     async with snowmelt.aio.open(folder) as cluster:
    ...         frames = cluster.pool("frames")
    ...         await frames.put(b"frame")
    ...         async with await frames.get() as frame:
    ...             print(frame.body)
    b'frame'
    """

    __slots__ = ()

    async def ack(self, *, timeout: float = TIMEOUT) -> None:
        """It is done and never comes again. Raises `LeaseLost` when it may be another's by now.

        Raises `OutcomeUnknown` when its producer does not confirm it; it may have died since.
        """
        loan = self.closed()
        if loan.token:
            await self._port.call(pool_steps.ack(loan.token, self.intervals, timeout), timeout)
        loan.told()

    async def nack(self) -> None:
        """It is not done, and is offered again."""
        loan = self.closed()
        if loan.token:
            await self._port.call(Nack(loan.token, self.intervals), TIMEOUT)
        loan.told()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        await leave(self, error)


class Objects(ObjectsView[AsyncPort]):
    """Objects of one producer, under one loan, made into Python's only when iterated.

    >>> import snowmelt.aio, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     async with snowmelt.aio.open(folder) as cluster:
    ...         frames = cluster.pool("frames")
    ...         _ = await frames.put_many([b"one", b"two"])
    ...         async with await frames.get_many() as objects:
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

    async def ack(self, *, timeout: float = TIMEOUT) -> None:
        """All that is open still is done; as `Object.ack`."""
        if self.open:
            loan = self._loan.begin(self._loan.left)
            if loan.token:
                await self._port.call(pool_steps.ack(loan.token, (), timeout), timeout)
            loan.told()

    async def nack(self) -> None:
        """All that is open still is offered again."""
        if self.open:
            loan = self._loan.begin(self._loan.left)
            if loan.token:
                await self._port.call(Nack(loan.token, ()), TIMEOUT)
            loan.told()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        await leave(self, error)


async def leave(held: Object | Objects, error: BaseException | None) -> None:
    """What the end of a `with` means: done, or given back."""
    if not held.open:
        return
    if error is None:
        await held.ack()
        return
    with suppress(SnowmeltError):  # the first failure is the one to raise
        await held.nack()


def only(port: AsyncPort, loan: ClientLoan, got: Got, codec: ValueCodec) -> Object:
    """The object of a get for one."""
    return Object(port, loan, alone(got.blob), codec=codec)
