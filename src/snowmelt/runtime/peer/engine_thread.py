"""The owner: the one thread that runs a process' part in a pool.

It alone touches the machine, the links, the timers and the disk. Everybody else leaves a word for
it (`asking.py`) and waits, or not. So nothing that happens to a caller, an exception thrown in from
outside among it, can come into the middle of a step, and nobody ever holds a lock of it.

A turn is: wait for the sockets, the first timer or a word; take what has come; say what was left to
be said; fire the timers that are due; send what all of that has added, each link once.

1. Who leaves a word wakes the owner if it sleeps. It says that it sleeps before it looks at the
   words for the last time, so no word waits for more than the turn that is going on.
2. What is raised within one link ends that link, and no other. What the machine raises ends all:
   its memory is worthless then, and nobody may wait for one that has stopped.
3. However the owner ends, every call has an answer and every socket is closed.
"""

import contextlib
import os
import select
import socket
import threading
from _thread import get_ident
from io import FileIO
from itertools import islice
from typing import Any, Final, Protocol

from snowmelt.core.errors import Unavailable
from snowmelt.core.instant import SECOND, Instant
from snowmelt.runtime.clock import real_now
from snowmelt.runtime.peer.asking import Words
from snowmelt.runtime.peer.links import Links
from snowmelt.runtime.steps import Steps

EVENTS: Final = hasattr(os, "eventfd") and hasattr(select, "epoll")
_ONE: Final = (1).to_bytes(8, "little")
LONGEST_POLL: Final = SECOND
CLOSING: Final = 5.0
WORDS_A_TURN: Final = 1000
"""So that the network has its turn, however much the program asks."""


class Alarm:
    """Rung by anybody, once for each sleep; silenced by who was woken.

    >>> alarm = Alarm()
    >>> alarm.sleeps()
    >>> alarm.wake(); alarm.wake(); alarm.silence()
    >>> alarm.close()
    """

    edge = EVENTS
    """Whether only a ring wakes, and not that there was one: then nobody need silence it."""

    def __init__(self) -> None:
        # These know that they are closed: nobody writes where another file is by then.
        if EVENTS:
            self._hears = self._rings = FileIO(os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK), "w")
        else:
            hears, rings = _pair()
            self._hears, self._rings = FileIO(hears, "r"), FileIO(rings, "w")
        self._sleep = self._rung = 0
        """Who is to be woken is awake while these are the same."""

    def fileno(self) -> int:
        return self._hears.fileno()

    def sleeps(self) -> None:
        """Who is to be woken waits, or is about to."""
        self._sleep += 1

    def awake(self) -> None:
        self._rung = self._sleep

    def ring(self) -> None:
        with contextlib.suppress(OSError, ValueError):  # it is closed
            self._rings.write(_ONE)  # or it is full of rings already

    def wake(self) -> None:
        """Rings when that is needed; once too often, but never too late."""
        sleep = self._sleep
        if self._rung != sleep:
            self.ring()
            self._rung = sleep

    def silence(self) -> None:
        if not EVENTS:
            self._hears.read(64)  # what is left after that wakes once more

    def close(self) -> None:
        self._hears.close()
        self._rings.close()


def _pair() -> tuple[int, int]:
    both = socket.socketpair()
    for one in both:
        one.setblocking(False)
    hears, rings = (one.detach() for one in both)
    return hears, rings


class Owned(Protocol):
    def say(self, word: Any) -> None:
        """Gives a word to the machine."""

    def tell(self) -> None:
        """Calls that were answered in this turn hear it."""

    def failed(self, error: str, text: str) -> None:
        """All calls end: a name from `core.errors`, and a sentence."""

    def over(self) -> None:
        """Nothing of it is used any more."""


class EngineThread:
    """The thread of one engine, and what it goes on until."""

    def __init__(self, of: Owned, steps: Steps, links: Links, alarm: Alarm, words: Words) -> None:
        self.failure: tuple[str, str] | None = None
        """Why it has stopped: a name from `core.errors`, and a sentence."""
        self._of = of
        self._steps = steps
        self._links = links
        self._alarm = alarm
        self._words = words
        self._leaves_by: Instant | None = None
        """When it ends though something is still to be sent; it leaves then."""
        self._thread = threading.Thread(target=self._run, name="snowmelt-pool", daemon=True)

    def start(self) -> None:
        self._thread.start()

    @property
    def here(self) -> bool:
        """Whether this is its thread: a finalizer, wherever the collector of garbage was at work.

        It can't wait for itself.
        """
        return self._thread.ident == get_ident()

    def stopped(self, error: str, text: str) -> None:
        """Nothing goes on from here."""
        self._steps.stopped = True
        if self.failure is None:
            self.failure = (error, text)
        self._words.closed = True

    def leave(self, by: Instant) -> None:
        """What is queued leaves until then, and all ends."""
        self._leaves_by = by
        self._words.closed = True
        self._alarm.ring()
        if self._thread.ident is None:
            self._end()

    def join(self) -> None:
        """Waits for its end, within reason; it comes also if this is interrupted."""
        by = self._leaves_by
        if by is not None and self._thread.is_alive() and not self.here:
            self._thread.join((by - real_now()) / SECOND + CLOSING)

    @property
    def ended(self) -> bool:
        """Whether its thread is over."""
        return self._thread.ident is not None and not self._thread.is_alive()

    # --- its turns --------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while self.failure is None and not self._leaves():
                self._turn()
        except BaseException as error:  # rule 3
            self._steps.crash(error)
        finally:
            self._end()

    def _turn(self) -> None:
        links, steps = self._links, self._steps
        for owner, mask in self._wait():
            if owner is self._alarm:
                self._alarm.silence()
                links.adopt()
            else:
                links.ready(owner, mask)
        self._listen()
        now = real_now()
        if now >= steps.due:
            steps.expire(now)
        if now >= links.next_look:
            links.look(now)
        links.flush()
        self._of.tell()

    def _wait(self) -> Any:
        links, alarm = self._links, self._alarm
        alarm.sleeps()  # rule 1
        try:
            if self._words:
                return links.poller.wait(0)
            until = min(self._steps.due, links.next_look)
            return links.poller.wait(min(until - real_now(), LONGEST_POLL))
        finally:
            alarm.awake()

    def _listen(self) -> None:
        for word in islice(self._words.take(), WORDS_A_TURN):
            self._of.say(word)

    def _leaves(self) -> bool:
        by = self._leaves_by
        if by is None:
            return False
        self._links.stop_listening()
        return not (self._words or self._links.unsent) or real_now() >= by

    def _end(self) -> None:
        """All calls end, and the links; nothing of what was kept stays in memory."""
        left = "has left" if self.failure else "leaves"
        self._of.failed("OutcomeUnknown", "the pool was closed before the answer came")
        try:
            self._links.close(Unavailable(f"this process {left} the pool"))
        finally:
            self._alarm.close()
            self._steps.close()
            self._of.over()
