"""The engine of one process in a pool: a machine, its links, its timers, and who runs them.

Callers drive. A call gives the machine its event in the caller's own thread, sends what follows
from it at once, and when the answer is not there yet the caller itself waits for the network. One
lock guards all of it, and nobody waits for anything while holding it, but for the disk of a pool
that spills.

`driving.py` has who runs it and when, `seat.py` who waits for the sockets, `asking.py` what becomes
of an answer, `turn.py` the lock, `runtime/steps.py` the machine, `links.py` the network.

Nothing that the program does to itself ends an engine: an interrupt ends the wait of a call, never
a step; a call that nobody waits for any more is withdrawn, and what it brought goes back. A fork
takes no engine along: a child closes its copies of the sockets, and that is all it may do.
"""

import sys
from collections.abc import Callable
from typing import Any, Final

import msgspec

from snowmelt.core.errors import Closed, OutcomeUnknown, SnowmeltError, Unavailable
from snowmelt.core.instant import Duration, Instant, later, seconds
from snowmelt.core.names import Address
from snowmelt.core.node import Announced, Node, Requested
from snowmelt.protocols.calling import Declined
from snowmelt.protocols.pool.calls import CLOSED, Listening, Put, Withdraw
from snowmelt.runtime.clock import real_now
from snowmelt.runtime.forks import watch
from snowmelt.runtime.peer.alarm import Alarm
from snowmelt.runtime.peer.asking import Asked, Calls, Words
from snowmelt.runtime.peer.config import PeerConfig
from snowmelt.runtime.peer.dialling import Caller
from snowmelt.runtime.peer.driving import CLOSING, Driving
from snowmelt.runtime.peer.links import Links, LinkStatistics, forsake
from snowmelt.runtime.peer.protection import Protection
from snowmelt.runtime.peer.seat import Guest
from snowmelt.runtime.peer.told import Told
from snowmelt.runtime.steps import Steps
from snowmelt.store import Store
from snowmelt.wire.greeting import Gate, as_error

MARGIN: Final = seconds(5)
"""How long after its time a call waits for the machine to say that the time is over."""
LEFT: Final = (
    "this part in a pool belongs to the process that this one was forked from; connect anew in "
    "this one"
)

ENDED: Final = (
    "the interpreter shuts down, and what this part in a pool had kept goes with it; close it "
    "before: use it in a `with`, or have `atexit` close it"
)


class EngineStatistics(msgspec.Struct, frozen=True):
    events: int
    calls: int
    links: LinkStatistics


class Engine:
    """Runs a machine for a process of a pool; threads may share it."""

    def __init__(self, node: Node[Any], config: PeerConfig, store: Store | None = None) -> None:
        self.config = config.checked()
        gate = Gate(config.cluster, config.credentials.token, known=config.known)
        protection = Protection(config.credentials)
        caller = Caller(config.name, gate, config.credentials, protection)
        self._store = store
        self._calls = Calls(config.name)
        self._alarm = Alarm()
        self.words = Words(self._alarm.ring)
        self._links = Links(caller, config.limits, self._alarm.ring)
        told = Told(self._links, self._calls, self.failed)
        self._steps = Steps(node, self._links.send, told, store)
        self._links.report = self._steps.handle
        self._driving = Driving(self._steps, self._links, self._alarm, self.words, self._say)
        self._turn = self._driving.turn
        try:
            self.address = self._start()
        except BaseException:
            self._end(Unavailable("it did not start"))
            raise
        self._driving.start()
        watch(self)

    def _start(self) -> Address:
        self._links.poller.add(self._alarm.socket, self._alarm)
        listening = self._links.listen(self.config.listen)
        address = self.config.told(listening)
        with self._turn:
            self._steps.start()
            self._steps.handle(Announced(Listening(address)))
            self._driving.finish()
            self.check()
        return address

    # --- calls ------------------------------------------------------------------------------------

    def call(self, message: Any, timeout: float) -> Any:
        """Calls the machine, waits, and returns the answer's body; raises what went wrong."""
        return self.ask(message, timeout).take()

    def ask(self, message: Any, timeout: float) -> Asked:
        """The same; the answer stays where it goes back by itself if nobody takes it."""
        asked = Asked(self.words)
        self._check_here()
        try:
            with self._turn:
                asked.number = self._request(message, asked.answer)
                if not asked.answered:
                    end = later(real_now(), Duration(seconds(max(0.0, timeout)) + MARGIN))
                    until = self._driving.enter(asked, end)
            if not asked.answered:
                self._driving.wait(asked, end, until)
            return self.checked(asked)
        except BaseException:
            self.abandon(asked)
            raise

    def begin(self, message: Any, asked: Asked) -> None:
        """Calls the machine; the answer is told to `asked`, under the lock."""
        self._check_here()
        with self._turn:
            asked.number = self._request(message, asked.answer)

    def abandon(self, asked: Asked) -> None:
        """Nobody waits for this answer any more; what came all the same goes back."""
        if asked.inside:
            self._driving.leave(asked)
        if not asked.answered:
            self.withdraw(asked.number)
        if asked.body is not None:
            asked.give_back()

    def look(self, ready: Callable[[], bool]) -> bool:
        """Whether it is ready, looked at under the lock."""
        self._check_here()
        with self._turn:
            self.check()
            return ready()

    def wait(self, guest: Guest, ready: Callable[[], bool], until: Instant) -> None:
        """Until `guest.answer` is called, or the time is over; not at all when it is ready."""
        self._check_here()
        try:
            with self._turn:
                self.check()
                if ready():
                    return
                first = self._driving.enter(guest, until)
            self._driving.wait(guest, until, first)
        finally:
            if guest.inside:
                self._driving.leave(guest)

    def checked(self, asked: Asked) -> Asked:
        """One that is answered; raises what went wrong, with a link's last failure as a note."""
        if not asked.answered:
            raise OutcomeUnknown("no answer came in the time given")
        body = asked.body
        if not isinstance(body, Declined):
            return asked
        error = as_error(body.error, body.text)
        failure = self.last_failure
        if failure is not None:
            error.add_note(f"the last link that did not come to be: {failure}")
        raise error

    def submit(self, message: Any, done: Callable[[Any], None]) -> int:
        """Calls the machine; `done(body)` is called once, in whichever thread has the answer.

        It is called under the engine's lock, so it must only hand over. A body that is `Declined`
        is what went wrong. Returns the number by which the call can be withdrawn.
        """
        self._check_here()
        with self._turn:
            return self._request(message, done)

    def announce(self, fact: msgspec.Struct) -> None:
        self._check_here()
        with self._turn:
            self.check()
            self._steps.handle(Announced(fact))
            self._driving.finish()

    def withdraw(self, number: int) -> None:
        """Ends a call that still waits; nothing happens when it does not."""
        if self.words.left or sys.is_finalizing():
            return
        with self._turn:
            if self._calls.drop(number) and self._driving.failure is None:
                self._steps.handle(Requested(self._calls.aside(), Withdraw(number)))
                self._driving.finish()

    def say_now(self) -> None:
        if self.words and not (self.closed or sys.is_finalizing()):
            with self._turn:
                if self._driving.failure is None:
                    self._driving.finish()

    def _say(self) -> None:
        """Under the lock: what was left to be said."""
        for word in self.words.take():
            self._steps.handle(Requested(self._calls.aside(), word))

    def _request(self, message: Any, done: Callable[[Any], None]) -> int:
        self.check()
        words = self.words
        if words.dropped or words.left_here:
            self._say()  # before, since this may be the last
        operation = self._calls.begin(done)
        if type(message) is Put:
            self._driving.seat.grace = Duration(0)  # others wait for what this process has
        self._links.eager = True  # it follows from one event, and somebody waits for it elsewhere
        self._steps.handle(Requested(operation, message))
        self._links.eager = False
        self._driving.finish()
        return operation.number

    def _check_here(self) -> None:
        if self.words.left:  # the lock may have been held when the fork came
            raise Closed(LEFT)
        if sys.is_finalizing():  # its own thread has ended, perhaps with the lock in hand
            raise Closed(ENDED)

    def check(self) -> None:
        if self._driving.closing:
            raise Closed(CLOSED)
        if self._driving.failure is not None:
            raise as_error(*self._driving.failure)

    # --- what the machine tells -------------------------------------------------------------------

    def failed(self, error: str, text: str) -> None:
        """The machine has stopped: all calls end."""
        self._driving.stopped(error, text)
        self._calls.end(error, text)

    # --- its end ----------------------------------------------------------------------------------

    @property
    def closed(self) -> bool:
        """Whether it was closed, or belongs to the process that this one was forked from."""
        return self.words.left or self._driving.closing

    @property
    def last_failure(self) -> Exception | None:
        """Why a link did not come to be, whoever dialled; nothing once a node is reached."""
        return self._links.last_failure

    def statistics(self) -> EngineStatistics:
        self._check_here()
        with self._turn:
            return EngineStatistics(self._steps.events, self._calls.count, self._links.statistics())

    def close(self, timeout: float = CLOSING) -> None:
        """Sends what is queued, within the time, and ends everything."""
        end = later(real_now(), seconds(max(0.0, timeout)))
        if self.words.left or sys.is_finalizing():
            return
        with self._turn:
            if self._driving.closing:
                return
            self._driving.closing = self.words.closed = True
            self._links.stop_listening()
        try:
            self._driving.drain(end)
        finally:
            self._end(Unavailable("this process leaves the pool"))

    def _end(self, reason: SnowmeltError) -> None:
        """All calls end, and the links; nothing of what was kept stays in memory."""
        with self._turn:
            if self._driving.failure is None:
                self.failed("OutcomeUnknown", "the pool was closed before the answer came")
        try:
            self._driving.close(reason)
        finally:
            self._steps.close()

    def forked(self) -> None:
        """In a child: nothing of it is the child's, and nothing is said for its parent."""
        self.words.left = True
        forsake(self._links)
        self._alarm.close()
        if self._store is not None:
            self._store.forsake()
