# Made of objects_async.py by scripts/faces.py, which `make faces` runs: change it there.
"""What a pool gives a person: one `Object`, or `Objects` of one producer; blocking.

Not items as a fifo's: an object has no position and no headers, and its body may be large, so it is
handed over as it came.
"""

from collections.abc import Iterator
from contextlib import suppress
from typing import Self

from snowmelt.client.connection.session import TIMEOUT
from snowmelt.client.connection.steps import Port
from snowmelt.client.pool import steps as pool_steps
from snowmelt.client.pool.bodies import alone, numbers
from snowmelt.client.pool.loans import ClientLoan
from snowmelt.client.pool.views import ObjectsView, ObjectView
from snowmelt.client.queue.codecs import ValueCodec
from snowmelt.core.errors import SnowmeltError
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
