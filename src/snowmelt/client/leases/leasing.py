"""A get, blocking: only an interrupt ends it before its answer, and the steps see it.

What would be half done for as long as a lease lasts, if its caller were interrupted, is an errand:
a thread takes its steps, and goes on though nobody waits for it any more.
"""

import threading
from typing import Any, Generic, TypeVar

from snowmelt.client.connection.forking import Origin, Own
from snowmelt.client.connection.open_loops import opened
from snowmelt.client.connection.steps import Port, Steps, run
from snowmelt.client.connection.waits import CLOSING_LONGEST
from snowmelt.client.leases.delivered import LeasedItems
from snowmelt.client.leases.steps import LeaseSteps

T = TypeVar("T")


def leasing(port: Port, steps: LeaseSteps, get: Steps[LeasedItems | None]) -> LeasedItems | None:
    del steps
    return run(port, get)


def to_the_end(port: Own, steps: Steps[T]) -> T:
    """Takes steps; when their caller is interrupted meanwhile, they go on to their end."""
    return BackgroundSteps(port, steps).wait()


class BackgroundSteps(Generic[T]):
    """One of them; its cluster, or the program, waits for it a little before it ends."""

    def __init__(self, port: Own, steps: Steps[T]) -> None:
        self._port = port
        self._origin = Origin()  # no thread is in a child
        self._done = threading.Event()
        self._value: T
        self._error: BaseException | None = None
        opened(self)
        threading.Thread(
            target=self._work, args=(steps,), name="snowmelt-errand", daemon=True
        ).start()

    def wait(self) -> T:
        """Until it is done, unless an interrupt ends the wait."""
        self._done.wait()
        if self._error is None:
            return self._value
        try:
            raise self._error
        finally:
            self._error = None  # it refers to this frame

    def end_of(self, port: Any) -> None:
        """Waits for its end when it is of this port, which is about to be closed, or of any."""
        if not self._origin.left and (port is None or port is self._port.shared):
            self._done.wait(CLOSING_LONGEST)

    def _work(self, steps: Steps[T]) -> None:
        try:
            self._value = run(self._port, steps)
        except BaseException as error:  # raised where it is waited for
            self._error = error
        finally:
            self._done.set()
