"""The loop over a queue, blocking: items one by one, and a thread that tends their leases."""

import sys
import threading
from collections.abc import Iterator
from time import sleep
from types import TracebackType
from typing import Self

from snowmelt.client.delivered import Delivered, part_bodies
from snowmelt.client.fifo_steps import BYTES_MAX, FifoSteps
from snowmelt.client.forking import Origin, watch
from snowmelt.client.items import Item
from snowmelt.client.leaving import reason_left, reason_of
from snowmelt.client.looping import PASSING, Pace, Pursuit
from snowmelt.client.staying import stays
from snowmelt.client.steps import Port, run
from snowmelt.client.tending import Tending
from snowmelt.client.waits import ANSWER_SECONDS
from snowmelt.core.interval import Interval
from snowmelt.runtime.clock import steady_now


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

    def done(self, delivered: Delivered, position: int) -> None:
        """Done with this one."""
        self._tending.done(delivered, position)

    def ack(self, delivered: Delivered, where: Interval | None) -> None:
        """Done with these."""
        self._tending.ack(delivered, where)

    def give_back(
        self, delivered: Delivered, where: Interval | None, delay: float, reason: str
    ) -> None:
        """These go back."""
        run(self._port, self._tending.give_back(delivered, where, delay, reason))

    def extend(self, delivered: Delivered) -> None:
        """The thread does that."""
        delivered.check_process()
        delivered.check_held(steady_now())


class Consumption:
    """Items one by one, for a `for`; `Fifo.consume` gives it. Close it, or use it in a `with`.

    The item that is in hand when the loop is left by an exception failed; `leaving.py` tells how
    that is known. All else goes back as if it had not been taken.
    """

    __reduce__ = stays("send its items' bodies")

    def __init__(
        self, port: Port, steps: FifoSteps, prefetch: int | None, timeout: float | None
    ) -> None:
        self._over = True  # until there is something to end
        self._port = port
        self._tending = Tending(steps)
        self._tender = Tender(port, self._tending)
        self._gathering = Gathering(port, steps, self._tending)
        self._pace = Pace(prefetch)
        self._pursuit = Pursuit(steps.name, timeout)
        self._items: Iterator[Item] = iter(())
        self._hand: Item | None = None
        self._around: BaseException | None = None
        self._origin = Origin()
        self._over = False
        watch(self)

    def forked(self) -> None:
        """Nothing is given out in a child; the items are its parent's."""
        self._items = iter(())

    def __iter__(self) -> Self:
        self._around = sys.exception()
        return self

    def __next__(self) -> Item:
        for item in self._items:
            self._hand = item
            return item
        return self._first()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._end(reason_of(error))

    def close(self) -> None:
        """Ends it. In the handler of an exception that ended the loop, what was in hand failed."""
        error = sys.exception()
        self._end("" if error is self._around else reason_of(error))

    def __del__(self) -> None:
        if not (self._over or sys.is_finalizing()):
            reason = "" if self._hand is None else reason_left(sys._getframe(1))  # noqa: SLF001
            self._end(reason)

    def _first(self) -> Item:
        """The first item of the next lease."""
        self._origin.check("this loop", "call consume in this one")
        self._hand = None
        if self._over:
            raise StopIteration
        try:
            delivered = self._lease()
        except BaseException:
            self._end("")
            raise
        if delivered is None:
            self._end("")
            raise StopIteration
        self._tender.see()
        self._items = _items(self._gathering, delivered)
        self._hand = next(self._items)
        return self._hand

    def _lease(self) -> Delivered | None:
        """The next lease; None when the time is over without one."""
        pursuit, tending, pace = self._pursuit, self._tending, self._pace
        pursuit.begin()
        asked = steady_now()
        while True:
            most = pace.next(steady_now(), tending.settled)
            try:
                delivered = run(self._port, tending.get(most, BYTES_MAX, pursuit.left))
            except PASSING as error:
                sleep(pursuit.failed(error))
                continue
            if delivered is not None:
                pursuit.answered()
                pace.came(asked, steady_now(), tending.settled)
                return delivered
            if pursuit.over():
                return None

    def _end(self, reason: str) -> None:
        """Once: tells what is done, and gives back the rest. Not in a child: it is not its own."""
        if self._over or self._origin.left:
            return
        self._over = True
        hand, self._hand, self._items = self._hand, None, iter(())
        self._tender.close()
        held = None if hand is None else hand.held
        run(self._port, self._tending.close(held, reason))


def _items(gathering: Gathering, delivered: Delivered) -> Iterator[Item]:
    for part in delivered.parts:
        for position, body in enumerate(part_bodies(part), start=part.start):
            yield Item(gathering, delivered, part, body, position)
