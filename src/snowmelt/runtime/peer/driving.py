"""Who runs a process' part in a pool, turn by turn.

A turn is what one thread does under the lock: take what has come, say what was left to be said,
fire the timers that are due, then send what all of that has added, each link once. A caller that
waits for its answer waits for the network itself, in the seat (`seat.py` has the rules). The
engine's own thread, the keeper, does the same work while no caller does, so that others are
answered while the program computes.

What is raised within one link ends that link, and no other. What the machine raises ends all: its
memory is worthless then, and nobody may wait for one that has stopped.
"""

import threading
from _thread import get_ident
from collections.abc import Callable, Iterable
from time import monotonic, sleep
from typing import Any, Final

from snowmelt.core.errors import SnowmeltError, Unavailable
from snowmelt.core.instant import SECOND, Instant
from snowmelt.runtime.clock import real_now
from snowmelt.runtime.peer.alarm import Alarm
from snowmelt.runtime.peer.asking import Words
from snowmelt.runtime.peer.links import Links
from snowmelt.runtime.peer.seat import Guest, Seat
from snowmelt.runtime.peer.turn import Turn
from snowmelt.runtime.shielding import SHIELD
from snowmelt.runtime.steps import FOR_EVER, Steps

LONGEST_POLL: Final = SECOND
CLOSING: Final = 5.0


class Driving:
    """The lock, the seat and the keeper of one engine."""

    def __init__(
        self, steps: Steps, links: Links, alarm: Alarm, words: Words, say: Callable[[], None]
    ) -> None:
        self.turn = Turn()
        self.seat = Seat(alarm.ring)
        self.failure: tuple[str, str] | None = None
        """Why it has stopped: a name from `core.errors`, and a sentence."""
        self.closing = False
        self._steps = steps
        self._links = links
        self._alarm = alarm
        self._words = words
        self._say = say
        """Says them to the machine."""
        self._poll_until = 0  # of who waits for the sockets now; 0 when nobody does
        self._keeper = threading.Thread(target=self._keep, name="snowmelt-pool", daemon=True)

    def start(self) -> None:
        self._keeper.start()

    # --- turns ------------------------------------------------------------------------------------

    def finish(self) -> None:
        """Under the lock, the end of a caller's turn; who sits must know of an earlier timer."""
        words, links = self._words, self._links
        try:
            if words.dropped or words.left_here:
                self._say()
            if links.stirred:
                links.flush()
        except BaseException as error:
            self._crashed(error)
        until = self._poll_until
        if until and until > min(self._steps.due, links.next_look):
            self._alarm.ring()

    def _take(self, events: Iterable[tuple[Any, int]]) -> None:
        if self.failure is not None:
            return
        links, steps, words = self._links, self._steps, self._words
        try:
            for owner, mask in events:
                if owner is self._alarm:
                    self._alarm.silence()
                    links.adopt()
                else:
                    links.ready(owner, mask)
            if words.dropped or words.left_here:
                self._say()
            now = real_now()
            if now >= steps.due:
                steps.expire(now)
            if now >= links.next_look:
                links.look(now)
            links.flush()
        except BaseException as error:
            self._crashed(error)

    def _crashed(self, error: BaseException) -> None:
        self._steps.crash(error)
        if not isinstance(error, Exception):
            raise error

    # --- waiting ----------------------------------------------------------------------------------

    def enter(self, guest: Guest, end: Instant) -> int:
        """Under the lock: it will wait; until when for the sockets, if it sits, else 0."""
        self.seat.enter(guest)
        if guest.thread == SHIELD.main:
            SHIELD.waits = True
        return self._plan(end) if self.seat.sitter is guest else 0

    def wait(self, guest: Guest, end: Instant, until: int = 0) -> None:
        """For its answer, in the seat or for its bell; one that has entered. It leaves then."""
        seat = self.seat
        try:
            while not guest.answered and real_now() < end:
                if seat.sitter is not guest:
                    guest.bell.wait((end - real_now()) / SECOND)
                    until = 0
                    continue
                if not until:
                    with self.turn:
                        until = self._plan(end)
                events = self._poll(until)
                with self.turn:
                    self._take(events)
                    if guest.answered:
                        self._leave(guest)
                    else:
                        until = self._plan(end)
        finally:
            if guest.inside:
                self.leave(guest)

    def leave(self, guest: Guest) -> None:
        """However often it is interrupted: nobody else would take its place."""
        interrupt: BaseException | None = None
        while guest.inside:
            try:
                with self.turn:
                    self._leave(guest)
            except BaseException as error:  # of the handler of a signal
                interrupt = error
        if interrupt is not None:
            raise interrupt

    def _leave(self, guest: Guest) -> None:
        self.seat.leave(guest)
        if guest.thread == SHIELD.main:
            SHIELD.waits = False

    def _plan(self, end: Instant) -> int:
        until = min(end, self._steps.due, self._links.next_look, Instant(real_now() + LONGEST_POLL))
        self._poll_until = until
        return until

    def _poll(self, until: int) -> Iterable[tuple[Any, int]]:
        """Waits for the sockets, for the first timer, or to be woken; whoever sits does."""
        try:
            return self._links.poller.wait(until - real_now())
        except (OSError, ValueError):
            if self.failure is None:
                raise
            return ()  # it was closed by the handler of a signal, in the midst of this
        finally:
            self._poll_until = 0

    # --- the keeper -------------------------------------------------------------------------------

    def _keep(self) -> None:
        seat = self.seat
        while True:
            with self.turn:
                if self.failure is not None:
                    self._links.end(Unavailable("this process has left the pool"))
                if self.failure is not None or self.closing:
                    return
                nap = seat.nap()
            if nap:
                seat.keeper.wait(nap)
            else:
                self._sit()

    def _sit(self) -> None:
        """The keeper in the seat, until a guest wants it."""
        seat = self.seat
        with self.turn:
            self._take(())
            until = self._plan(FOR_EVER)
        while True:
            events = self._poll(until)
            with self.turn:
                self._take(events)
                if seat.wanted or self.closing or self.failure is not None:
                    seat.rise()
                    return
                until = self._plan(FOR_EVER)

    # --- its end ----------------------------------------------------------------------------------

    def stopped(self, error: str, text: str) -> None:
        """Under the lock: nothing goes on from here."""
        self._steps.stopped = True
        self.failure = (error, text)
        self.seat.keeper.ring()
        self._alarm.ring()

    def drain(self, end: Instant) -> None:
        """What is queued leaves, within the time."""
        guest = Guest()
        with self.turn:
            self.seat.enter(guest)
        try:
            while self.failure is None and self._links.unsent and real_now() < end:
                self._once(guest, end)
        finally:
            self.leave(guest)

    def _once(self, guest: Guest, end: Instant) -> None:
        if self.seat.sitter is not guest:
            guest.bell.wait((end - real_now()) / SECOND)
            return
        with self.turn:
            until = self._plan(end)
        events = self._poll(until)
        with self.turn:
            self._take(events)

    def close(self, reason: SnowmeltError) -> None:
        """It has stopped: once nobody sits any more, the links end."""
        try:
            self._await_empty()
        finally:
            with self.turn:
                self._links.close(reason)
                self._alarm.close()
        if self._keeper.is_alive():
            self._keeper.join(CLOSING)

    def _await_empty(self) -> None:
        limit = monotonic() + CLOSING
        me = get_ident()  # one that this very thread has interrupted does not go before it does
        while monotonic() < limit:
            with self.turn:
                if self.seat.empty_but(me):
                    return
            self._alarm.ring()
            sleep(0.001)
