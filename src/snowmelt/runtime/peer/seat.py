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
"""

import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from snowmelt.core.instant import SECOND, Duration, Instant, milliseconds
from snowmelt.runtime.clock import steady_now

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
    """A thread that waits for an answer."""

    __slots__ = ("_bell", "answered", "body", "inside")

    def __init__(self) -> None:
        self._bell: Bell | None = None
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
        """The answer is there."""
        self.body = body
        self.answered = True
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
        """Whether a guest stands in line."""
        return bool(self._line)

    @property
    def empty(self) -> bool:
        """Whether nobody sits and nobody waits to."""
        return self.sitter is None and not self.keeper_sits and not self._line

    # --- guests -----------------------------------------------------------------------------------

    def enter(self, guest: Guest) -> None:
        """Rule 2."""
        guest.inside = True
        if self.sitter is None and not self.keeper_sits:
            self._seat(guest)
            return
        _ = guest.bell  # made now, under the lock, so that no ring is missed
        self._line.append(guest)
        if self.keeper_sits:
            self._ask_to_rise()

    def leave(self, guest: Guest) -> None:
        """Rule 3, for one who sits; one who stands in line just goes."""
        guest.inside = False
        if self.sitter is guest:
            self.sitter = None
            self._hand_on()
        elif guest in self._line:
            self._line.remove(guest)

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
        self._free_since = steady_now()
        if self._asleep or not self.grace:
            self._asleep = False
            self.keeper.ring()

    # --- the keeper -------------------------------------------------------------------------------

    def nap(self) -> float:
        """For how many seconds the keeper may look away; 0 when it has sat down."""
        if self.sitter is None and not self.keeper_sits:
            left = self._free_since + self.grace - steady_now()
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
        """The keeper rises."""
        self.keeper_sits = False
        self._hand_on()
