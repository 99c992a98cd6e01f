"""The loop over a queue, blocking: items one by one, and a thread that tends their leases."""

import threading
from collections.abc import Generator

from snowmelt.client.delivered import Delivered, part_bodies
from snowmelt.client.fifo_steps import ANSWER_SECONDS, BYTES_MAX, FifoSteps
from snowmelt.client.items import Item
from snowmelt.client.steps import Port, run
from snowmelt.client.tending import Tending
from snowmelt.core.instant import later, seconds
from snowmelt.core.interval import Interval
from snowmelt.runtime.clock import seconds_until, steady_now

POLL_SECONDS = 20.0
"""How long one get of an endless loop waits: what a call may take in vain is bounded."""


class Tender:
    """The thread that renews a consumer's leases and sends what it gathered."""

    def __init__(self, port: Port, tending: Tending) -> None:
        self._port = port
        self._tending = tending
        self._wake = threading.Event()
        self._end = threading.Event()
        self._thread: threading.Thread | None = None

    def see(self) -> None:
        """There is a lease."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="snowmelt-tender", daemon=True)
            self._thread.start()
        self._wake.set()

    def close(self) -> None:
        """Ends the thread."""
        self._end.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join(2 * ANSWER_SECONDS)

    def _work(self) -> None:
        while not self._end.is_set():
            self._wake.wait()
            self._wake.clear()
            while not (self._tending.idle or self._end.wait(self._tending.tick)):
                run(self._port, self._tending.tend())


class Gathering:
    """The desk of a consumer: acknowledgements are gathered, all else is sent at once."""

    def __init__(self, port: Port, steps: FifoSteps, tending: Tending) -> None:
        self._port = port
        self._steps = steps
        self._tending = tending

    def ack(self, delivered: Delivered, where: Interval | None) -> None:
        """Done with these."""
        self._tending.ack(delivered, where)

    def give_back(
        self, delivered: Delivered, where: Interval | None, delay: float, reason: str
    ) -> None:
        """These go back."""
        run(self._port, self._steps.give_back(delivered, where, delay, reason))

    def extend(self, delivered: Delivered) -> None:
        """The thread does that."""
        delivered.check_held(steady_now())


def consume(
    port: Port, steps: FifoSteps, prefetch: int, timeout: float | None
) -> Generator[Item, None, None]:
    """Items, as long as they come within the time."""
    tending = Tending(steps)
    tender = Tender(port, tending)
    counter = Gathering(port, steps, tending)
    try:
        while (delivered := _next(port, tending, prefetch, timeout)) is not None:
            tender.see()
            for part in delivered.parts:
                for position, body in enumerate(part_bodies(part), start=part.start):
                    yield Item(counter, delivered, part, body, position)
    finally:
        tender.close()
        run(port, tending.close())


def _next(port: Port, tending: Tending, prefetch: int, timeout: float | None) -> Delivered | None:
    """The next lease; None when the time is over without one."""
    end = None if timeout is None else later(steady_now(), seconds(timeout))
    while True:
        left = POLL_SECONDS if end is None else min(POLL_SECONDS, seconds_until(end))
        delivered = run(port, tending.get(prefetch, BYTES_MAX, left))
        if delivered is not None or (end is not None and seconds_until(end) == 0):
            return delivered
