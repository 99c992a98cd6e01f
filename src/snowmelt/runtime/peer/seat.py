"""The seat: who of a process' threads waits for the network.

Only one thread at a time may wait for all sockets, and an answer is had soonest by a thread that
was itself waiting for it: no other has to be woken first. So there is one seat. Guests are threads
that wait for an answer; the keeper is the engine's own thread, which sits when no guest does.

Everything here happens under the engine's lock. The rules:

1. At most one sits. Only who sits may wait for the sockets and take what has come.
2. A guest that must wait takes the seat when it is free; else it stands in line, and waits for its
   own bell. When the keeper sits, it is asked to rise.
3. Who rises hands the seat to the first in line, and rings its bell. The seat is free only when
   nobody stands in line; so there is no moment at which somebody waits and nobody sits, but for
   the grace of rule 5.
4. A guest's bell is rung when its answer is there or the seat is its own. Who wakes looks which it
   is; one that has its answer and the seat hands the seat on before it leaves. Bells are rung under
   the lock, after what they tell of has changed; so no ring is lost, and one too many does no harm.
5. The keeper sits when the seat has been free for a grace: a program that asks again and again pays
   for no change of threads. Meanwhile the keeper dozes, in naps of that grace; when one guest sits
   through many of them it sleeps until it is rung, which whoever leaves the seat free then does.
6. With a grace of 0 it is rung each time: others wait for what this process has.
7. No wait is without end: each comes back by itself after a while, and looks.
8. The handler of a signal may call while the thread that it has interrupted waits. The call takes
   the place of that one, in the seat or in line, for that one can do nothing meanwhile; and gives
   it back when it leaves.
"""

import threading
from _thread import get_ident
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from snowmelt.core.instant import SECOND, Duration, Instant, milliseconds
from snowmelt.runtime.clock import real_now

GRACE: Final = milliseconds(1)
NAPS: Final = 10
LONGEST_SLEEP: Final = 1.0


class Bell:
    """Wakes one thread; rung while nobody waits, it wakes the next wait.

    >>> bell = Bell()
    >>> bell.ring(); bell.ring()
    >>> bell.wait(9.0), bell.wait(0.0)
    (True, False)
    """

    __slots__ = ("_lock", "_rung")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()
        self._rung = False

    def ring(self) -> None:
        """Called under the engine's lock, so by one thread at a time."""
        if not self._rung:
            self._rung = True
            self._lock.release()

    def wait(self, seconds: float) -> bool:
        """Whether it was rung in this time."""
        if self._lock.acquire(timeout=max(0.0, min(seconds, LONGEST_SLEEP))):
            self._rung = False
            return True
        return False


class Guest:
    __slots__ = ("_bell", "answered", "below", "body", "inside", "thread")

    def __init__(self) -> None:
        self._bell: Bell | None = None
        self.thread = 0
        self.below: Guest | None = None
        """Whose place it has taken (rule 8)."""
        self.answered = False
        self.inside = False
        self.body: Any = None

    @property
    def bell(self) -> Bell:
        """What wakes it where it stands in line; most are answered at once, and need none."""
        if self._bell is None:
            self._bell = Bell()
        return self._bell

    def answer(self, body: Any) -> None:
        self.body = body
        self.answered = True
        self.ring()

    def ring(self) -> None:
        if self._bell is not None:
            self._bell.ring()


class Seat:
    """Who sits, who stands in line, and when the keeper's turn is."""

    def __init__(self, ask_to_rise: Callable[[], None]) -> None:
        self.grace: Duration = GRACE
        self.sitter: Guest | None = None
        self.keeper_sits = False
        self.keeper = Bell()
        self._ask_to_rise = ask_to_rise
        self._line: deque[Guest] = deque()
        self._free_since = Instant(0)
        self._sittings = 0
        self._seen = (0, 0)  # the sitting that the keeper saw last, and for how many naps
        self._asleep = False

    @property
    def wanted(self) -> bool:
        return bool(self._line)

    def empty_but(self, thread: int) -> bool:
        """Whether nobody sits and nobody waits to, but this thread."""
        there = [*self._line] if self.sitter is None else [self.sitter, *self._line]
        return not self.keeper_sits and all(guest.thread == thread for guest in there)

    # --- guests -----------------------------------------------------------------------------------

    def enter(self, guest: Guest) -> None:
        """Rules 2 and 8."""
        guest.inside = True
        guest.thread = get_ident()
        if self.sitter is None and not self.keeper_sits:
            self._seat(guest)
            return
        _ = guest.bell  # made now, under the lock, so that no ring is missed
        below = self._of(guest.thread)
        if below is not None:
            guest.below = below
            self._replace(below, guest)
            return
        self._line.append(guest)
        if self.keeper_sits:
            self._ask_to_rise()

    def leave(self, guest: Guest) -> None:
        """Rule 3, for one who sits; one who stands in line just goes."""
        guest.inside = False
        below, guest.below = guest.below, None
        if below is not None and below.inside and not below.answered:
            self._replace(guest, below)
            below.ring()
            self._ask_to_rise()  # it may be waiting for the sockets beneath all this
        elif self.sitter is guest:
            self.sitter = None
            self._hand_on()
        elif guest in self._line:
            self._line.remove(guest)

    def _of(self, thread: int) -> Guest | None:
        if self.sitter is not None and self.sitter.thread == thread:
            return self.sitter
        return next((guest for guest in self._line if guest.thread == thread), None)

    def _replace(self, guest: Guest, by: Guest) -> None:
        if self.sitter is guest:
            self._seat(by)
        elif guest in self._line:
            self._line[self._line.index(guest)] = by

    def _seat(self, guest: Guest) -> None:
        self.sitter = guest
        self._sittings += 1

    def _hand_on(self) -> None:
        while self._line:
            guest = self._line.popleft()
            if not guest.answered:
                self._seat(guest)
                guest.bell.ring()
                return
        self._free_since = real_now()
        if self._asleep or not self.grace:
            self._asleep = False
            self.keeper.ring()

    # --- the keeper -------------------------------------------------------------------------------

    def nap(self) -> float:
        """For how many seconds the keeper may look away; 0 when it has sat down."""
        if self.sitter is None and not self.keeper_sits:
            left = self._free_since + self.grace - real_now()
            if left <= 0:
                self.keeper_sits = True
                return 0.0
            return left / SECOND
        sitting, naps = self._seen
        self._seen = (self._sittings, naps + 1 if sitting == self._sittings else 0)
        if self._seen[1] < NAPS and self.grace:
            return GRACE / SECOND
        self._asleep = True
        return LONGEST_SLEEP

    def rise(self) -> None:
        self.keeper_sits = False
        self._hand_on()
