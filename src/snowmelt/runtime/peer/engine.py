"""The engine of one process in a pool: a machine, its links, its timers, and who runs them.

Callers drive. A call gives the machine its event in the caller's own thread, sends what follows
from it at once, and when the answer is not there yet the caller itself waits for the network, in
the seat (`seat.py` has the rules). The engine's own thread, the keeper, does the same work while no
caller does, so that others are answered while the program computes. One lock guards all of it;
nobody waits for anything while holding it, but for the disk of a pool that spills.

A turn is what one thread does under the lock: take what has come, fire the timers that are due,
then send what all of that has added, each link once.

A fork takes no engine along: make a new one in the child. An interrupt while a call waits
withdraws the call; one that hits the machine in the middle of a step ends the engine.
"""

import os
import threading
from collections.abc import Callable, Iterable
from time import monotonic, sleep
from typing import Any, Final

import msgspec

from snowmelt.core.errors import BadOption, OutcomeUnknown, SnowmeltError, Unavailable, Unreachable
from snowmelt.core.instant import SECOND, Duration, Instant, later, seconds
from snowmelt.core.names import Address, NodeId, OperationId
from snowmelt.core.node import Announced, Node, Requested
from snowmelt.protocols.calling import Declined
from snowmelt.protocols.pool.calls import Listening, Put, Withdraw
from snowmelt.runtime.clock import steady_now
from snowmelt.runtime.credentials import Credentials, is_everywhere, is_loopback
from snowmelt.runtime.peer.alarm import Alarm
from snowmelt.runtime.peer.dialling import Caller
from snowmelt.runtime.peer.limits import PeerLimits
from snowmelt.runtime.peer.links import FOR_EVER, Links, LinkStatistics
from snowmelt.runtime.peer.protection import Protection
from snowmelt.runtime.peer.seat import Guest, Seat
from snowmelt.runtime.peer.steps import Steps
from snowmelt.store import Store
from snowmelt.wire.greeting import Gate, as_error

ANYWHERE: Final = Address("127.0.0.1", 0)
MARGIN: Final = seconds(5)
"""How long after its time a call waits for the machine to say that the time is over."""
LONGEST_POLL: Final = SECOND
CLOSING: Final = 5.0


class PeerConfig(msgspec.Struct, frozen=True, kw_only=True):
    """What one process needs to be reached by others, and to reach them."""

    name: NodeId
    cluster: str = "snowmelt"
    credentials: Credentials = Credentials()
    listen: Address = ANYWHERE
    advertise: Address | None = None
    """What others are told; None for where it listens, port 0 for the port it listens on."""
    limits: PeerLimits = PeerLimits()

    def checked(self) -> "PeerConfig":
        """Itself; raises `BadOption` for an address that may not be listened on.

        Off loopback a token is needed, and with TLS a certificate and its key. Who only dials
        needs neither file: it listens on loopback, as it does when nothing else is said.

        >>> PeerConfig(name=NodeId("c-1"), listen=Address("0.0.0.0", 0)).checked()
        Traceback (most recent call last):
        snowmelt.core.errors.BadOption: listen is '0.0.0.0:0'; allowed: an address on loopback...
        """
        if is_loopback(self.listen.host):
            return self
        shown = self.credentials
        missing = [] if shown.token else ["a token"]
        if shown.encrypted:
            files = {"certificate": shown.certificate, "key": shown.key}
            missing += [f"{option}=FILE in the URL" for option, given in files.items() if not given]
        if missing:
            allowed = "an address on loopback, or give " + " and ".join(missing)
            raise BadOption("listen", str(self.listen), allowed)
        if self.advertise is None and is_everywhere(self.listen.host):
            allowed = (
                f"host:port by which others reach this process, since it listens on {self.listen}"
            )
            raise BadOption("advertise", None, allowed)
        return self

    def told(self, listening: Address) -> Address:
        """What others are told when it listens there."""
        told = self.advertise or listening
        return told if told.port else Address(told.host, listening.port)


class Asked(msgspec.Struct, frozen=True):
    """A call that was begun."""

    number: int
    guest: Guest


class EngineStatistics(msgspec.Struct, frozen=True):
    """One engine, since it began."""

    events: int
    calls: int
    links: LinkStatistics


class Engine:
    """Runs a machine for a process of a pool; threads may share it."""

    def __init__(self, node: Node[Any], config: PeerConfig, store: Store | None = None) -> None:
        self.config = config.checked()
        self._process = os.getpid()
        gate = Gate(config.cluster, config.credentials.token)
        protection = Protection(config.credentials)
        caller = Caller(config.name, gate, config.credentials, protection)
        self._lock = threading.Lock()
        self._calls: dict[int, Callable[[Any], None]] = {}
        self._number = 0
        self._failure: tuple[str, str] | None = None
        self._closing = False
        self._poll_until = 0  # of who waits for the sockets now; 0 when nobody does
        self._alarm = Alarm()
        self._links = Links(caller, config.limits, self._alarm.ring)
        self._steps = Steps(node, self._links, self, store)
        self._links.report = self._steps.handle
        self._seat = Seat(self._alarm.ring)
        try:
            self.address = self._start()
        except BaseException:
            self._end(Unavailable("it did not start"))
            raise
        self._keeper = threading.Thread(target=self._keep, name="snowmelt-pool", daemon=True)
        self._keeper.start()

    def _start(self) -> Address:
        self._links.poller.add(self._alarm.socket, self._alarm)
        listening = self._links.listen(self.config.listen)
        address = self.config.told(listening)
        with self._lock:
            self._steps.start()
            self._steps.handle(Announced(Listening(address)))
            self._finish_turn()
            self._check_working()
        return address

    # --- calls ------------------------------------------------------------------------------------

    def call(self, message: Any, timeout: float) -> Any:
        """Calls the machine, waits, and returns the answer's body; raises what went wrong."""
        return self.finish(self.begin(message), timeout)

    def begin(self, message: Any) -> Asked:
        """Calls the machine; its answer is had by `finish`, or nobody wants it: `abandon`."""
        guest = Guest()
        return Asked(self.submit(message, guest.answer), guest)

    def finish(self, asked: Asked, timeout: float) -> Any:
        """Waits for the answer to what was begun; raises what went wrong."""
        guest = asked.guest
        end = later(steady_now(), Duration(seconds(max(0.0, timeout)) + MARGIN))
        try:
            if not guest.answered:
                with self._lock:
                    self._seat.enter(guest)
            while not guest.answered and steady_now() < end:
                self._wait(guest, end)
        finally:
            if guest.inside:
                with self._lock:
                    self._seat.leave(guest)
            if not guest.answered:
                self.withdraw(asked.number)
        if not guest.answered:
            raise OutcomeUnknown("no answer came in the time given")
        return outcome_of(guest.body, self.last_failure)

    def abandon(self, asked: Asked) -> Any:
        """Nobody waits for this answer any more; what came all the same, or None."""
        self.withdraw(asked.number)
        return asked.guest.body

    def submit(self, message: Any, done: Callable[[Any], None]) -> int:
        """Calls the machine; `done(body)` is called once, in whichever thread has the answer.

        It is called under the engine's lock, so it must only hand over. A body that is `Declined`
        is what went wrong. Returns the number by which the call can be withdrawn.
        """
        if self._process != os.getpid():  # the lock may have been held when the fork came
            raise Unreachable("this pool is its parent's since the fork; connect anew in the child")
        with self._lock:
            return self._request(message, done)

    def announce(self, fact: msgspec.Struct) -> None:
        """Tells the machine a fact."""
        with self._lock:
            self._check_working()
            self._steps.handle(Announced(fact))
            self._finish_turn()

    def withdraw(self, number: int) -> None:
        """Ends a call that still waits; nothing happens when it does not."""
        with self._lock:
            if self._calls.pop(number, None) is not None and self._failure is None:
                self._number += 1
                operation = OperationId(self.config.name, self._number)
                self._steps.handle(Requested(operation, Withdraw(number)))
                self._finish_turn()

    def _request(self, message: Any, done: Callable[[Any], None]) -> int:
        self._check_working()
        self._number += 1
        number = self._number
        self._calls[number] = done
        if type(message) is Put:
            self._seat.grace = Duration(0)  # others wait for what this process has
        self._links.eager = True  # it follows from one event, and somebody waits for it elsewhere
        self._steps.handle(Requested(OperationId(self.config.name, number), message))
        self._links.eager = False
        self._finish_turn()
        return number

    def _check_working(self) -> None:
        if self._closing:
            raise Unreachable("this pool is closed")
        if self._failure is not None:
            raise as_error(*self._failure)

    # --- waiting ----------------------------------------------------------------------------------

    def _wait(self, guest: Guest, end: Instant) -> None:
        """Once: in the seat for the network, else for the bell."""
        if self._seat.sitter is guest:
            events = self._poll(end)
            with self._lock:
                self._take(events)
                if guest.answered:
                    self._seat.leave(guest)
        else:
            guest.bell.wait((end - steady_now()) / SECOND)

    def _poll(self, end: Instant) -> Iterable[tuple[Any, int]]:
        """Waits for the sockets, for the first timer, or to be woken; whoever sits does."""
        with self._lock:
            now = steady_now()
            until = min(end, self._steps.due, self._links.next_look, now + LONGEST_POLL)
            self._poll_until = until
        try:
            return self._links.poller.wait(until - now)
        finally:
            self._poll_until = 0

    def _take(self, events: Iterable[tuple[Any, int]]) -> None:
        """One turn with what the sockets had."""
        if self._failure is not None:
            return
        links = self._links
        try:
            for owner, mask in events:
                if owner is self._alarm:
                    self._alarm.silence()
                    links.adopt()
                else:
                    links.ready(owner, mask)
            now = steady_now()
            if now >= self._steps.due:
                self._steps.expire(now)
            if now >= links.next_look:
                links.look(now)
            links.flush()
        except BaseException as error:
            self._crashed(error)

    def _crashed(self, error: BaseException) -> None:
        """Whatever is raised ends the engine: nobody may wait for one that has stopped."""
        self._steps.stopped = True
        self.failed("MachineCrashed", f"this pool's engine raised {error!r}; open it anew")
        if not isinstance(error, Exception):
            raise error

    def _finish_turn(self) -> None:
        """Sends what was added; who waits for the sockets must know of an earlier timer."""
        try:
            self._links.flush()
        except BaseException as error:
            self._crashed(error)
        if self._poll_until > min(self._steps.due, self._links.next_look):
            self._alarm.ring()

    # --- the keeper -------------------------------------------------------------------------------

    def _keep(self) -> None:
        seat = self._seat
        while True:
            with self._lock:
                if self._failure is not None:
                    self._links.end(Unavailable("this process has left the pool"))
                if self._failure is not None or self._closing:
                    return
                nap = seat.nap()
            if nap:
                seat.keeper.wait(nap)
            else:
                self._sit()

    def _sit(self) -> None:
        """The keeper in the seat, until a guest wants it."""
        seat = self._seat
        while True:
            events = self._poll(FOR_EVER)
            with self._lock:
                self._take(events)
                if seat.wanted or self._closing or self._failure is not None:
                    seat.rise()
                    return

    # --- what the machine tells -------------------------------------------------------------------

    def replied(self, operation: OperationId, body: Any) -> None:
        """A call is answered."""
        done = self._calls.pop(operation.number, None)
        if done is not None:
            done(body)

    def failed(self, error: str, text: str) -> None:
        """The machine has stopped: all calls end."""
        self._failure = (error, text)
        calls, self._calls = self._calls, {}
        for done in calls.values():
            done(Declined(error, text))
        self._seat.keeper.ring()
        self._alarm.ring()

    # --- its end ----------------------------------------------------------------------------------

    @property
    def closed(self) -> bool:
        """Whether it was closed, or belongs to the process that this one was forked from."""
        return self._closing or self._process != os.getpid()

    @property
    def last_failure(self) -> Exception | None:
        """Why a link did not come to be, whoever dialled; nothing once a node is reached."""
        return self._links.last_failure

    def statistics(self) -> EngineStatistics:
        """How it is, now."""
        with self._lock:
            return EngineStatistics(self._steps.events, self._number, self._links.statistics())

    def close(self, timeout: float = CLOSING) -> None:
        """Sends what is queued, within the time, and ends everything."""
        end = later(steady_now(), seconds(max(0.0, timeout)))
        guest = Guest()
        with self._lock:
            if self._closing:
                return
            self._closing = True
            self._links.stop_listening()
            self._seat.enter(guest)
        try:
            while self._failure is None and self._links.unsent and steady_now() < end:
                self._wait(guest, end)
        finally:
            with self._lock:
                self._seat.leave(guest)
            self._end(Unavailable("this process leaves the pool"))
            self._keeper.join(CLOSING)

    def _end(self, reason: SnowmeltError) -> None:
        """All calls end; when nobody sits any more, so do the links."""
        with self._lock:
            if self._failure is None:
                self._steps.stopped = True
                self.failed("OutcomeUnknown", "the pool was closed before the answer came")
        limit = monotonic() + CLOSING
        while monotonic() < limit:
            with self._lock:
                if self._seat.empty:
                    break
            self._alarm.ring()
            sleep(0.001)
        with self._lock:
            self._links.close(reason)
            self._alarm.close()
            self._steps.close()


def outcome_of(body: Any, failure: Exception | None) -> Any:
    """An answer's body; raises what went wrong, with the last failure of a link as a note."""
    if not isinstance(body, Declined):
        return body
    error = as_error(body.error, body.text)
    if failure is not None:
        error.add_note(f"the last link that did not come to be: {failure}")
    raise error
