"""The thread that renews what a process holds: one for all batons of a cluster.

A hold is renewed when a fifth of its lease is over. Where a node does not answer, each request to
it takes its whole time in vain; so whatever is held elsewhere goes first, and its holds take turns.
The thread ends when nothing was held for a while.
"""

import threading
from typing import Final

import msgspec

from snowmelt.client.baton_steps import KEEP_SECONDS, Hold, Home
from snowmelt.client.forking import watch
from snowmelt.client.steps import Port, run
from snowmelt.core.instant import Instant, later, milliseconds, seconds
from snowmelt.core.names import Address
from snowmelt.runtime.clock import seconds_until, steady_now

IDLE: Final = seconds(10)
AGAIN: Final = milliseconds(100)


class Kept(msgspec.Struct, eq=False):
    """A hold, the connection that it came by, and when something is to be done about it."""

    hold: Hold
    port: Port
    due: Instant


class Keeper:
    """Renews what it is given, until that is over or dropped."""

    def __init__(self) -> None:
        self.home = Home()
        """Where all batons of the cluster are asked for."""
        self._closed = False
        self._begin()
        watch(self)

    def _begin(self) -> None:
        self._kept: dict[int, Kept] = {}
        self._silent: set[Address] = set()
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._next = Instant(0)
        self._idle_end = Instant(0)
        self._thread: threading.Thread | None = None

    def forked(self) -> None:
        """A child has no such thread, and nothing that one would renew."""
        self._begin()

    def add(self, hold: Hold, port: Port) -> None:
        """Renews this from now on."""
        one = Kept(hold, port, hold.renewal)
        with self._lock:
            if self._closed:
                hold.lose(f"the cluster was closed while baton {hold.name!r} was held")
                return
            self._kept[hold.ticket] = one
            if self._thread is None:
                self._idle_end = later(steady_now(), IDLE)
                self._thread = threading.Thread(
                    target=self._work, name="snowmelt-baton-keeper", daemon=True
                )
                self._thread.start()
            elif one.due < self._next:
                self._wake.set()

    def drop(self, hold: Hold) -> None:
        """Renews it no more; one last request may be on its way."""
        with self._lock:
            self._kept.pop(hold.ticket, None)

    def close(self) -> None:
        """Ends the thread. What is held still is over: whoever has its connection ends that."""
        with self._lock:
            self._closed = True
            left, self._kept = list(self._kept.values()), {}
            thread = self._thread
        for one in left:
            one.hold.lose(f"the cluster was closed while baton {one.hold.name!r} was held")
        self._wake.set()
        if thread is not None:
            thread.join(2 * KEEP_SECONDS)

    def _work(self) -> None:
        while (chosen := self._chosen()) is not None:
            if isinstance(chosen, Kept):
                self._asked(chosen, answered=run(chosen.port, chosen.hold.keep()))
            else:
                self._wake.wait(seconds_until(chosen))
                self._wake.clear()

    def _chosen(self) -> Kept | Instant | None:
        """What to renew now, or when to look again; None when the thread is not needed."""
        now = steady_now()
        with self._lock:
            due = [one for one in self._kept.values() if one.due <= now]
            if due:
                return min(due, key=lambda one: (one.hold.where.address in self._silent, one.due))
            if self._kept:
                self._idle_end = later(now, IDLE)
            elif self._closed or now >= self._idle_end:
                self._thread = None
                return None
            self._next = min((one.due for one in self._kept.values()), default=self._idle_end)
            return self._next

    def _asked(self, one: Kept, *, answered: bool) -> None:
        address = one.hold.where.address
        with self._lock:
            if answered:
                self._silent.discard(address)
                one.due = one.hold.renewal
            else:
                self._silent.add(address)
                one.due = later(steady_now(), AGAIN)
            if one.hold.over:
                self._kept.pop(one.hold.ticket, None)
