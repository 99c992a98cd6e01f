"""What a process holds at the nodes of a cluster: renewed in time, and given back when dropped.

A hold is renewed when a fifth of its lease is over, with all others that are due at its node. Where
a node does not answer, each request to it takes its whole time in vain; so whatever is held
elsewhere goes first. `Keeping` has the books, the same for both faces; the blocking one has a
thread that goes by them, for all batons of a cluster:

1. The thread has a connection of its own. What a hold came by serves others at once, but stays open
   until the hold was renewed through the thread's: the node goes by who renewed last. Should it end
   before, the hold is renewed at once. So thousands are taken by few connections.
2. It gives back what somebody dropped or was interrupted with: whoever says so does nothing but put
   it into a queue. It may be the collector of garbage, in any thread, with any lock held.
3. It ends when nothing was held for a while, and with its cluster.
"""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Final

import msgspec

from snowmelt.client.baton.holding import Word
from snowmelt.client.baton.steps import KEEP_SECONDS, Hold, Home, keep_many
from snowmelt.client.connection.clients import Borrowed, Clients
from snowmelt.client.connection.forking import watch
from snowmelt.client.connection.steps import Steps, run
from snowmelt.core.instant import Duration, Instant, later, milliseconds, seconds
from snowmelt.core.names import Address
from snowmelt.protocols.baton.calls import KEEPS_AT_ONCE
from snowmelt.runtime.clock import seconds_until, steady_now

IDLE: Final = seconds(10)
AGAIN: Final = milliseconds(100)
LOOK: Final = milliseconds(500)
"""How often one looks for what is held while nothing is: short turns wake nobody so."""
TOGETHER: Final = 20
"""What is due within such a part of its lease goes along with what is due now."""


class Kept(msgspec.Struct, eq=False):
    """A hold, the connection that it came by, and when something is to be done about it."""

    hold: Hold
    due: Instant
    borrowed: Borrowed | None = None


class Keeping:
    """The books: which holds are renewed next, and together. Adding one takes no lock."""

    def __init__(self) -> None:
        self._come: deque[Kept] = deque()
        self._kept: dict[int, Kept] = {}
        self._silent: set[Address] = set()

    def __bool__(self) -> bool:
        """Whether anything may be held."""
        return bool(self._come or self._kept)

    @property
    def fresh(self) -> bool:
        """Whether `next` has yet to look at some."""
        return bool(self._come)

    def add(self, hold: Hold, borrowed: Borrowed | None = None) -> None:
        """Renews this from now on, until it is over."""
        self._come.append(Kept(hold, hold.renewal, borrowed))

    def next(self, now: Instant) -> list[Kept] | Instant | None:
        """What to renew now, in one call, or when to look again; None for never. O(n)."""
        while self._come:
            one = self._come.popleft()
            self._kept[one.hold.ticket] = one
        self._kept = {ticket: one for ticket, one in self._kept.items() if not one.hold.over}
        self._hurry(now)
        due = [one for one in self._kept.values() if one.due <= now]
        if not due:
            return min((one.due for one in self._kept.values()), default=None)
        first = min(due, key=lambda one: (one.hold.where.address in self._silent, one.due))
        soon = later(now, Duration(first.hold.lease // TOGETHER))
        where = first.hold.where
        beside = [o for o in self._kept.values() if o.due <= soon and o.hold.where == where]
        return sorted(beside, key=lambda one: one.due)[:KEEPS_AT_ONCE]

    def _hurry(self, now: Instant) -> None:
        """Rule 1, for those whose connection has ended."""
        for one in self._kept.values():
            if one.borrowed is not None and one.borrowed.ended:
                one.borrowed.give_back()
                one.borrowed, one.due = None, now

    def renew(self, batch: Sequence[Kept]) -> Steps[None]:
        """Asks for another lease of these."""
        answered = yield from keep_many([one.hold for one in batch])
        address = batch[0].hold.where.address
        (self._silent.discard if answered else self._silent.add)(address)
        for one in batch:
            one.due = one.hold.renewal if answered else later(steady_now(), AGAIN)
            if answered and one.borrowed is not None:
                one.borrowed.give_back()
                one.borrowed = None

    def close(self) -> None:
        """What is held still is over, and the connections that it came by end."""
        left = [*self._kept.values(), *self._come]
        self._kept = {}
        self._come.clear()
        for one in left:
            lose(one.hold)
            if one.borrowed is not None:
                one.borrowed.close()


def lose(hold: Hold) -> None:
    """Its cluster was closed."""
    hold.lose(f"the cluster was closed while baton {hold.name!r} was held")


class Keeper:
    """The thread."""

    def __init__(self, clients: Clients) -> None:
        self.home = Home()
        """Where all batons of the cluster are asked for."""
        self._clients = clients
        self._closed = False
        self._begin()
        watch(self)

    def _begin(self) -> None:
        self._keeping = Keeping()
        self._dropped: SimpleQueue[Word | tuple[Hold, Borrowed] | None] = SimpleQueue()
        self.leave: Callable[[Word], None] = self._dropped.put
        """Takes the word of whoever is dropped: rule 2."""
        self._clients.ended = self._dropped.put  # rule 1
        self._turn = threading.RLock()  # a handler of signals may call within a call
        self._next = Instant(0)
        self._idle_end = Instant(0)
        self._thread: threading.Thread | None = None

    def forked(self) -> None:
        """A child has no such thread, and nothing that one would renew."""
        self._begin()

    def add(self, hold: Hold, borrowed: Borrowed) -> None:
        """Renews this from now on, until it is over."""
        with self._turn:
            self._keeping.add(hold, borrowed)
            self._see(hold.renewal)
        if self._closed:
            lose(hold)

    def give_back(self, hold: Hold, borrowed: Borrowed) -> None:
        """Somebody was interrupted who had it: it is given up behind the scenes."""
        self._dropped.put((hold, borrowed))
        with self._turn:
            self._see(None)

    def dropped(self, hold: Hold, borrowed: Borrowed) -> None:
        """The same, from within the collector of garbage: rule 2."""
        self._dropped.put((hold, borrowed))

    def _see(self, due: Instant | None) -> None:
        """Sees to it that there is a thread, and that it looks by then."""
        if self._thread is None and not self._closed:
            self._idle_end = later(steady_now(), IDLE)
            self._thread = thread = threading.Thread(
                target=self._work, name="snowmelt-baton-keeper", daemon=True
            )
            try:
                thread.start()
            except BaseException:
                self._thread = None
                raise
        elif due is not None and due < self._next:
            self._dropped.put(None)

    def close(self) -> None:
        """Ends the thread. What is held still is over: whoever has its connection ends that."""
        self._closed = True
        self._dropped.put(None)
        thread = self._thread
        if thread is not None:
            thread.join(2 * KEEP_SECONDS)
        self._keeping.close()

    def _work(self) -> None:
        me, mine = threading.current_thread(), Borrowed(self._clients)
        try:
            while self._thread is me and not self._ended():
                due, pause = self._keeping.next(steady_now()), 0.0
                if isinstance(due, list):
                    run(mine, self._keeping.renew(due))
                else:
                    pause = self._pause(due)
                with suppress(Empty):
                    dropped = self._dropped.get(timeout=pause)
                    if isinstance(dropped, Word):
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
        """For how long nothing is due; whoever adds something that is due sooner says so."""
        with self._turn:
            if self._keeping.fresh:
                return 0.0
            idle = min(self._idle_end, later(steady_now(), LOOK))
            self._next = idle if due is None else due
            return seconds_until(self._next)

    def _ended(self) -> bool:
        """Rule 3. Whoever adds something then finds no thread, and begins one."""
        with self._turn:
            now = steady_now()
            if self._keeping:
                self._idle_end = later(now, IDLE)
            over = self._closed or (not self._keeping and now >= self._idle_end)
            if over and self._dropped.empty():
                self._thread = None
                return True
        return False
