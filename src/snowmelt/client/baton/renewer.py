"""Who renews what a process holds at the nodes of a cluster, and gives back what is dropped.

A thread, for all batons of a cluster, which follows the plan (`renewals.py`):

1. The thread has a connection of its own. What a hold came by serves others at once, but stays open
   until the hold was renewed through the thread's: the node goes by who renewed last. Should it end
   before, the hold is renewed at once. So thousands are taken by few connections.
2. It gives back what a caller dropped or was interrupted with. That caller only puts the hold into
   a queue. It may be the collector of garbage, in any thread, with any lock held.
3. It ends when nothing was held for a while, and with its cluster.
"""

import threading
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Final, TypeAlias

from snowmelt.client.baton.holding import DropNotice
from snowmelt.client.baton.renewals import LOOK, RenewalPlan, lose
from snowmelt.client.baton.steps import KEEP_SECONDS, AcquireRequest, BatonHold, CurrentNode
from snowmelt.client.connection.clients import BorrowedClient, Clients
from snowmelt.client.connection.forking import watch
from snowmelt.client.connection.steps import run
from snowmelt.core.errors import SnowmeltError
from snowmelt.core.instant import Instant, later, seconds
from snowmelt.runtime.clock import seconds_until, steady_now

IDLE: Final = seconds(10)

Way: TypeAlias = BorrowedClient
"""What a hold comes by, and is given up by."""


class Wakeup:
    """Rung from any thread, a handler of signals' included: it has no lock to be wanted twice."""

    def __init__(self) -> None:
        self._rung: SimpleQueue[None] = SimpleQueue()

    def ring(self) -> None:
        self._rung.put(None)

    def wait(self, timeout: float) -> None:
        with suppress(Empty):
            self._rung.get(timeout=timeout)


class HoldRenewer:
    """The thread that renews what is held of a cluster's batons."""

    def __init__(self, port: Clients) -> None:
        self.home = CurrentNode()
        """Where all batons of the cluster are asked for."""
        self.port = port
        self._closed = False
        self._begin()
        watch(self)

    def _begin(self) -> None:
        self._plan = RenewalPlan()
        self._dropped: SimpleQueue[DropNotice | tuple[BatonHold, BorrowedClient] | None] = (
            SimpleQueue()
        )
        self.leave: Callable[[DropNotice], None] = self._dropped.put
        """Takes the notice of a dropped holder (rule 2)."""
        self.port.ended = self._dropped.put  # rule 1
        self._turn = threading.RLock()  # a handler of signals may call within a call
        self._next = Instant(0)
        self._idle_end = Instant(0)
        self._thread: threading.Thread | None = None

    def forked(self) -> None:
        """A child has no such thread, and nothing that one would renew."""
        self._begin()

    def way(self) -> Way:
        return BorrowedClient(self.port)

    def in_vain(self, want: AcquireRequest, way: Way, error: BaseException) -> None:
        if want.open or not isinstance(error, SnowmeltError):
            way.close()  # the end of its connection ends the want too
        else:
            way.give_back()

    def begin(self, hold: BatonHold, way: Way) -> None:
        """It is held from now on; what it came by serves others, too."""
        self.add(hold, way)
        way.share()

    def add(self, hold: BatonHold, way: Way) -> None:
        """Renews this from now on, until it is over."""
        with self._turn:
            self._plan.add(hold, way)
            self._see(hold.renewal)
        if self._closed:
            lose(hold)

    def done(self, hold: BatonHold, way: Way) -> None:
        """Its holder is done with it, or was interrupted: then it is given up behind the scenes."""
        if hold.settled:
            way.give_back()
            return
        self._dropped.put((hold, way))
        with self._turn:
            self._see(None)

    def dropped(self, hold: BatonHold, way: Way) -> None:
        """Given up behind the scenes, as told from within the collector of garbage: rule 2."""
        self._dropped.put((hold, way))

    def _see(self, due: Instant | None) -> None:
        """Sees to it that there is a thread, and that it looks by then."""
        if self._thread is None and not self._closed:
            self._idle_end = later(steady_now(), IDLE)
            self._thread = thread = threading.Thread(
                target=self._work, name="snowmelt-baton-renewer", daemon=True
            )
            try:
                thread.start()
            except BaseException:
                self._thread = None
                raise
        elif due is not None and due < self._next:
            self._dropped.put(None)

    def lose(self) -> None:
        """Ends the thread. What is held still is over; the owner of its connection ends that."""
        self._closed = True
        self._dropped.put(None)
        thread = self._thread
        if thread is not None:
            thread.join(2 * KEEP_SECONDS)
        self._plan.close()

    def _work(self) -> None:
        me, mine = threading.current_thread(), BorrowedClient(self.port)
        try:
            while self._thread is me and not self._ended():
                due, pause = self._plan.next(steady_now()), 0.0
                if isinstance(due, list):
                    run(mine, self._plan.renew(due))
                else:
                    pause = self._pause(due)
                with suppress(Empty):
                    dropped = self._dropped.get(timeout=pause)
                    if isinstance(dropped, DropNotice):
                        dropped = dropped.hold, dropped.way
                    if dropped is not None:
                        hold, borrowed = dropped
                        run(mine, hold.give_back())
                        borrowed.give_back()
        finally:
            if self._thread is me:
                self._thread = None
            mine.give_back()

    def _pause(self, due: Instant | None) -> float:
        """For how long nothing is due; adding something that is due sooner rings the bell."""
        with self._turn:
            if self._plan.fresh:
                return 0.0
            idle = min(self._idle_end, later(steady_now(), LOOK))
            self._next = idle if due is None else due
            return seconds_until(self._next)

    def _ended(self) -> bool:
        """Rule 3. The next to add something finds no thread, and begins one."""
        with self._turn:
            now = steady_now()
            if self._plan:
                self._idle_end = later(now, IDLE)
            over = self._closed or (not self._plan and now >= self._idle_end)
            if over and self._dropped.empty():
                self._thread = None
                return True
        return False
