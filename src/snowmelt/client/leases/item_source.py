"""Items for threads that work on several at once: leased ahead, renewed, acknowledged together.

A loop over a queue (`consuming.py`) has one item in hand, and ends when none came. Here any number
of threads ask, each works on what it was given for as long as it takes, and nothing ends by itself.
"""

import threading
from _thread import get_ident
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from snowmelt.client.coalescing.threads import ThreadCoalescer
from snowmelt.client.connection.forking import Origin
from snowmelt.client.connection.steps import Port, run
from snowmelt.client.leases.consuming import BufferedSender
from snowmelt.client.leases.items import Item, items_under
from snowmelt.client.leases.looping import PrefetchSize
from snowmelt.client.leases.renewals import LeaseRenewals
from snowmelt.client.leases.renewer import LeaseRenewer
from snowmelt.client.leases.steps import BYTES_MAX, LeaseSteps
from snowmelt.client.leases.urgent_check import UrgentCheck
from snowmelt.client.queue.codecs import ValueCodec
from snowmelt.core.errors import SnowmeltError
from snowmelt.runtime.clock import steady_now

ASKED_SECONDS: Final = 1.5
"""A worker's gets wait for a second."""


class ItemSource:
    """A queue's items, one by one, to threads that share this."""

    def __init__(
        self,
        port: Port,
        steps: LeaseSteps,
        codec: ValueCodec,
        prefetch: int | None,
        puts: ThreadCoalescer | None = None,
    ) -> None:
        self.port = port
        self._renewals = LeaseRenewals(steps)
        self._renewer = LeaseRenewer(port, self._renewals, self)
        self._gathering = BufferedSender(port, steps, self._renewals, codec)
        self._pace = PrefetchSize(prefetch)
        self._urgent_check = UrgentCheck(
            port, steps, self._renewals, self._gathering, self._pace, puts
        )
        self._turn = threading.Lock()  # of the caller that asks for more
        self._ahead: deque[Item] = deque()
        self.empty = False
        """Whether who asked last found nothing; who only waited for his turn knows nothing."""
        self._rests = False
        self._free = threading.Event()  # of an item that is worked on alone (`suspects.py`)
        self._free.set()
        self._alone = 0
        self._origin = Origin()

    def next(self, timeout: float) -> Item | None:
        """The next item; None when none came in the time, or others wait before."""
        self._origin.check("this worker", "make one in this process")
        if not (self._free.is_set() or self._waits(timeout)):
            return None
        if not self._turn.acquire(timeout=timeout):
            return None
        try:
            self._look()
            if not (self._ahead or self._rests) and self._free.is_set():
                self._ahead.extend(self._more(timeout))
                self.empty = not self._ahead
            while self._ahead and self._free.is_set():
                item = self._ahead.popleft()
                if not item.held[0].lost:  # else it is with others by now
                    if self._renewals.works_alone(item.failures, item.reason):
                        self._alone = get_ident()
                        self._free.clear()
                    return item
            return None
        finally:
            self._turn.release()

    def _waits(self, timeout: float) -> bool:
        """Until what is worked on alone is done with, as it is when its thread asks for more."""
        if self._alone == get_ident():
            self._free.set()
        return self._free.wait(timeout)

    def take(self, most: int, timeout: float) -> list[Item]:
        """Up to so many, all of one get, for a program that counts itself what it has in hand.

        None when none came in the time, or nobody is given anything any more.
        """
        self._origin.check("this worker", "make one in this process")
        with self._turn:
            if self._rests:
                return []
            self._urgent_check.before_get(timeout)
            return list(self._leased(most, timeout))

    def swap(self, item: Item, most: int) -> list[Item]:
        """Acknowledges an item, and leases up to so many more, in one call that waits for none.

        It is acknowledged when this returns; raises what `ack` does.
        """
        self._origin.check("this worker", "make one in this process")
        delivered, where = item.held
        with self._turn:
            self._urgent_check.before_get(0.0)
            self._renewals.done(delivered, where.start)
            items = list(self._leased(most, 0.0, delivered.token))
        delivered.check_kept(where)
        return items

    def settled(self, item: Item) -> bool:
        """Whether somebody has said what becomes of it."""
        delivered, where = item.held
        return not delivered.open_in(where) or self._renewals.settles(delivered, where.start)

    def rest(self) -> None:
        """Nobody is given anything from now on; what is there goes back as if it were not taken."""
        self._rests = True
        with self._turn:
            ahead, self._ahead = self._ahead, deque()
        if ahead:
            run(self.port, self._renewals.release([item.held for item in ahead]))

    def close(self) -> None:
        """Acknowledges what is done; all else goes back, also what threads have in hand.

        Also what a thread asked for and has not got yet: it is waited for, a little, since a
        program that ends has no thread any more that could give it back.
        """
        with suppress(SnowmeltError):  # what was not taken is logged: its handlers have ended
            self._renewer.close(None, "")
        if self._turn.acquire(timeout=ASKED_SECONDS):
            self._turn.release()

    def abandon(self) -> None:
        """Ends it without waiting for its last acknowledgements."""
        self._renewer.abandon()

    def end(self) -> None:
        """The same, when its cluster is closed before."""
        self.close()

    def _look(self) -> None:
        """Has what is more urgent come first."""
        if self._ahead and self._free.is_set() and steady_now() >= self._urgent_check.due:
            waits, *others = self._ahead
            here = self._urgent_check.look(waits, others)
            try:
                self._urgent_check.fewer(here)
            finally:  # a handler that was cancelled is not all of its worker
                self._ahead = deque(here)

    def _more(self, timeout: float) -> Iterable[Item]:
        asked = steady_now()
        most = self._pace.next(asked, self._renewals.settled)
        self._urgent_check.before_get(timeout)
        items = self._leased(most, timeout)
        if not items:
            return ()
        now = steady_now()
        self._pace.came(asked, now, self._renewals.settled)
        self._urgent_check.got(now)
        return items

    def _leased(self, most: int, timeout: float, ended: int = 0) -> Iterable[Item]:
        asks = self._renewals.get(most, BYTES_MAX, timeout, ended=ended)
        delivered = run(self.port, asks)
        if delivered is None:
            return ()
        self._renewer.see()
        return items_under(self._gathering, delivered)
