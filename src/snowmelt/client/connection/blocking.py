"""The blocking client: plain sockets, driven in the thread that calls. No loop, no second thread.

A call gives the machine its event, writes what it wants sent, and reads until its answer is there;
between calls nothing runs. So a call costs one write and one read. A client has one call at a time;
threads that share a cluster, and handlers of signals, have a client each (`clients.py`). Anybody
may close one: the call that is under way by it then ends, a little later if that is wished, and its
connections with it.
"""

import select
import socket
import ssl
import struct
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from math import ceil
from random import Random
from time import monotonic
from typing import Any, Final

from snowmelt.client.connection.forking import watch
from snowmelt.client.connection.session import Session, checked, value
from snowmelt.client.connection.steps import Query
from snowmelt.client.connection.targets import MEMBERS_WITHIN, Targets
from snowmelt.client.connection.url import ClusterURL
from snowmelt.core import errors
from snowmelt.core.instant import SECOND
from snowmelt.core.names import Address, NodeId, OperationId, address_of, contact
from snowmelt.core.node import Announced, Halt, Received, Reply
from snowmelt.core.outcome import Outcome, Succeeded
from snowmelt.protocols.calling import FIRST_WAIT, Abandoned, Answer, Caller, Declined, Lost, Moving
from snowmelt.protocols.membership.messages import GetStatus
from snowmelt.runtime import near
from snowmelt.runtime.clock import seconds_until, steady_now
from snowmelt.runtime.credentials import channel_of, check_certificate
from snowmelt.runtime.running import EndWatcher
from snowmelt.runtime.steps import Steps
from snowmelt.runtime.unheard import is_unheard
from snowmelt.wire.connection import Connection, ControlFrame, Ended, Heard, Stage
from snowmelt.wire.framing import Kind
from snowmelt.wire.sides import ConnectionOpened, Dialling

DIAL_SECONDS: Final = 3.0
DIALS_MAX: Final = 1_000
DIAL_FIRST: Final = FIRST_WAIT / SECOND
"""So long a node is dialled before the next is asked; twice as long each time that it was late."""
READ_BYTES: Final = 256 << 10
READ_SECONDS: Final = 0.05
"""How long one read waits at most where the system bounds it; the timers are looked at between."""
SMALL_BYTES: Final = 32 << 10


class NodeConnection:
    """One connection to one node, greeted and ready."""

    def __init__(
        self, address: Address, place: ClusterURL, session: Session, timeout: float
    ) -> None:
        deadline = monotonic() + timeout
        self.direct = False
        self.peer = NodeId("")
        self._came = self._seen = 0  # bytes: all, and at the last look
        self._buffer = memoryview(bytearray(READ_BYTES))
        me = place.speaker(session.name, session.key)
        dials = Dialling(me, certify=self._certify, channel=lambda: channel_of(self._tls))
        self._machine = Connection(dials)
        context = place.credentials.client_context()
        beside = near.reach(address) if context is None else None
        self.socket: socket.socket = beside or socket.create_connection(
            (address.host, address.port), timeout
        )
        try:
            if beside is None:
                self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.bound(deadline)
            if context is not None:
                self.socket = context.wrap_socket(self.socket)
            self.socket.sendall(self._machine.taken())
            while self._machine.stage is Stage.GREETING:
                self.bound(deadline)
                for event in self.read():
                    if type(event) is ConnectionOpened:
                        self.peer = event.name
            self.go_direct()
        except BaseException:
            self.socket.close()
            raise

    @property
    def _tls(self) -> ssl.SSLSocket | None:
        return self.socket if isinstance(self.socket, ssl.SSLSocket) else None

    def _certify(self, name: NodeId) -> None:
        check_certificate(self._tls, name)

    def read(self) -> Iterator[Heard]:
        """What the next bytes make whole; it raises when the connection ends."""
        rest = self._machine.rest()
        try:
            size = self.socket.recv_into(self._buffer if rest is None else rest)
        except BlockingIOError:  # nothing came within READ_SECONDS
            return
        if not size:
            raise ConnectionResetError(f"the node closed the connection{self._perhaps_tls()}")
        self._came += size
        machine = self._machine
        come = machine.receive(bytes(self._buffer[:size])) if rest is None else machine.filled(size)
        for event in come:
            if type(event) is Ended:
                raise event.error
            yield event

    def _perhaps_tls(self) -> str:
        """A node with TLS closes, without a word, a connection that begins without."""
        if self._came or isinstance(self.socket, ssl.SSLSocket):
            return ""
        return "; if it uses TLS, add ?authority=FILE to the URL"

    def moved(self) -> bool:
        """Whether part of a large message came since this was asked."""
        before, self._seen = self._seen, self._came
        return self._came > before and self._machine.awaited > SMALL_BYTES

    def send(self, message: Any, deadline: float) -> int:
        """Sends a message, of so many bytes; raises `TooLarge`, having sent nothing."""
        self._machine.send(message)
        data = self._machine.taken()
        self._write(data, deadline)
        return len(data)

    def inquire(self, deadline: float, kind: Kind) -> None:
        self._machine.speak(kind)
        self._write(self._machine.taken(), deadline)

    def _write(self, data: bytearray, deadline: float) -> None:
        """Bytes that the system's buffer takes whole need no bound set for them."""
        if self.direct and len(data) <= SMALL_BYTES:
            self.socket.sendall(data)
            return
        self.socket.settimeout(left(deadline))
        self.socket.sendall(data)
        if self.direct:
            self.socket.settimeout(None)

    def go_direct(self) -> None:
        """Lets the system itself bound each read and write: asking it twice costs as much again."""
        if isinstance(self.socket, ssl.SSLSocket):
            return
        self.socket.settimeout(None)
        for option, seconds in ((socket.SO_RCVTIMEO, READ_SECONDS), (socket.SO_SNDTIMEO, 1.0)):
            whole = int(seconds)
            bound = struct.pack("ll", whole, round((seconds - whole) * 1e6))
            self.socket.setsockopt(socket.SOL_SOCKET, option, bound)
        self.direct = True

    def bound(self, deadline: float) -> None:
        """Bounds the next read where the system does not."""
        if not self.direct:
            self.socket.settimeout(left(deadline))

    def pending(self) -> bool:
        """Whether TLS holds bytes that no select can see."""
        return isinstance(self.socket, ssl.SSLSocket) and self.socket.pending() > 0


class BlockingClient(EndWatcher):
    def __init__(self, place: ClusterURL, targets: Targets | None = None) -> None:
        self._place = place
        self._targets = Targets(place) if targets is None else targets
        self._lines: dict[NodeId, NodeConnection] = {}
        self._dials: dict[NodeId, float] = {}
        """How long those are dialled the next time that were late."""
        self.closed = False
        self._ends = 0.0
        """When a call under way ends, once it is closed."""
        self._begin()
        watch(self)

    def _begin(self) -> None:
        self.needed: deque[None] = deque()
        """One for each thing that came by it, and that nodes would give up at its end."""
        self._session = Session()
        caller = Caller(self._targets.known, Random())
        self._steps = Steps(caller, self._send, self, clock=steady_now)
        self._outcomes: dict[OperationId, Outcome[Any]] = {}
        self._aside: OperationId | None = None
        """The call that asks for the members."""
        self._calling = False
        self._deadline = 0.0  # of the call under way
        self._reached = False
        self._failure: Exception | None = None

    def forked(self) -> None:
        """A child is another client, with connections of its own."""
        self._end()  # these copies: nothing is sent, and the parent's stay open
        self._begin()

    def call(self, body: Any, timeout: float, target: NodeId | None = None, weight: int = 0) -> Any:
        """Calls, waits, and returns the answer's body; raises what went wrong."""
        self._begin_call(timeout)
        try:
            self._reached, self._failure = False, None
            now = monotonic()
            self._ask_for_members(now)
            first = self._targets.first(target, now)
            request = self._session.request(body, self._deadline - now, first, weight)
            self._steps.handle(request)
            while request.operation not in self._outcomes:
                if self.closed and monotonic() >= self._ends:
                    raise errors.OutcomeUnknown("this client was closed before the answer came")
                self._step()
            outcome = self._outcomes.pop(request.operation)
            answer = value(outcome, self._reached, self._failure)
        finally:
            self._end_call()
        self._targets.heard(target, answer)
        return answer

    def call_all(self, queries: Sequence[Query]) -> list[Any]:
        """Makes several calls at once; an error of ours stands in place of its answer."""
        self._begin_call(max([one.timeout for one in queries]))
        try:
            self._reached, self._failure = False, None
            now = monotonic()
            self._ask_for_members(now)
            asked = []
            for one in queries:
                first = self._targets.first(one.target, now)
                request = self._session.request(one.body, one.timeout, first, one.weight)
                asked.append(request.operation)
                self._steps.handle(request)
            while not self._outcomes.keys() >= set(asked):
                if self.closed and monotonic() >= self._ends:
                    raise errors.OutcomeUnknown("this client was closed before the answers came")
                self._step()
            answers = [self._told(self._outcomes.pop(one)) for one in asked]
        finally:
            self._end_call()
        for one, answer in zip(queries, answers, strict=True):
            self._targets.heard(one.target, answer)
        return answers

    def _told(self, outcome: Outcome[Any]) -> Any:
        try:
            return value(outcome, self._reached, self._failure)
        except errors.SnowmeltError as error:
            return error

    def _ask_for_members(self, now: float) -> None:
        """By a line that is there: dialling would keep the call waiting (`targets.py`, rule 3)."""
        if self._lines and self._aside is None and self._targets.due(now):
            ask = self._session.request(GetStatus(), MEMBERS_WITHIN, next(iter(self._lines)))
            self._aside = ask.operation
            self._steps.handle(ask)

    def _begin_call(self, timeout: float) -> None:
        timeout = checked(timeout)
        if self._calling:
            raise errors.CallerError(
                "this client is in the middle of a call: each call has one to itself"
            )
        self._calling = True  # first: from here whoever closes it leaves its connections to us
        if self.closed:
            self._end_call()
            raise errors.Closed("this client is closed")
        self._deadline = monotonic() + timeout

    def _end_call(self) -> None:
        self._calling = False
        if self.closed:
            self._end()

    def inquire(self, timeout: float, kind: Kind) -> bytes:
        """Asks the first node that answers."""
        self._begin_call(timeout)
        try:
            self._failure = None
            for target in [contact(one) for one in self._place.addresses]:
                line = self._line(target)
                try:
                    if line is not None:
                        return self._informed(line, kind)
                except (OSError, errors.SnowmeltError) as error:
                    self._drop(target, error)
                if isinstance(self._failure, errors.AccessDenied | errors.CallerError):
                    raise self._failure
            raise errors.Unreachable(f"no node could be reached: {self._failure}")
        finally:
            self._end_call()

    def _informed(self, line: NodeConnection, kind: Kind) -> bytes:
        line.inquire(self._deadline, kind)
        while monotonic() < self._deadline:
            line.bound(self._deadline)
            for event in line.read():
                if type(event) is ControlFrame:
                    return event.payload
        raise TimeoutError("no answer in the time given")

    def close(self, grace: float = 0.0) -> None:
        """Ends the connections, or has the call do so that is under way, so much later at most."""
        self._ends = monotonic() + grace
        self.closed = True
        if not self._calling:
            self._end()

    def _end(self) -> None:
        for line in list(self._lines.values()):
            line.socket.close()
        self._lines.clear()

    # --- what the machine tells -------------------------------------------------------------------

    def replied(self, effect: Reply[Outcome[Any]]) -> None:
        if effect.operation != self._aside:
            self._outcomes[effect.operation] = effect.message
            return
        self._aside = None
        if isinstance(effect.message, Succeeded):
            self._targets.heard(None, effect.message.value)

    def halted(self, effect: Halt) -> None:
        """A client has no process that could halt."""
        raise AssertionError(effect)

    def crashed(self, error: BaseException) -> None:
        """It was interrupted in the middle of a step: its state is worth nothing."""
        self.closed = True
        raise error

    # --- driving it -------------------------------------------------------------------------------

    def _step(self) -> None:
        """Waits for bytes or the machine's timer, whichever comes first."""
        wait = seconds_until(self._steps.due)
        lines = list(self._lines.items())
        if len(lines) == 1 and lines[0][1].direct and wait > READ_SECONDS:
            self._read(*lines[0])  # reading waits by itself
            return
        wait = min(wait, READ_SECONDS)  # it may be closed meanwhile
        ready = [pair for pair in lines if pair[1].pending()] or _readable(lines, wait)
        for target, line in ready:
            self._read(target, line)
        now = steady_now()
        if now >= self._steps.due:
            for target, line in list(self._lines.items()):  # some ended as they were read
                if is_unheard(line.socket):
                    self._drop(target, TimeoutError("it hears nothing"))
                elif line.moved():
                    self._steps.handle(Announced(Moving(target, comes=True)))
            self._steps.expire(now)

    def _read(self, target: NodeId, line: NodeConnection) -> None:
        try:
            line.bound(monotonic() + READ_SECONDS)
            for event in line.read():
                if type(event) is Answer:
                    self._steps.handle(Received(line.peer, event))
        except TimeoutError:  # a record of TLS came in part: it is read on from there
            return
        except (OSError, errors.SnowmeltError) as error:
            self._drop(target, error)

    def _send(self, target: NodeId, message: Any) -> None:
        line = self._line(target)
        if line is None:
            if not self._reached and self._targets.hopeless(target, self._failure):
                assert isinstance(self._failure, errors.AccessDenied)
                self._decline(target, message, self._failure)  # waiting would not help
            else:
                self._steps.handle(Announced(Lost(target, reached=False)))
            return
        try:
            size = line.send(message, self._deadline)
            self._reached = True
            if size > SMALL_BYTES:  # it may have taken long, and that was no silence
                self._steps.handle(Announced(Moving(target, comes=False)))
        except errors.TooLarge as error:
            self._decline(line.peer, message, error)
        except OSError as error:
            self._drop(target, error)

    def _decline(self, source: NodeId, message: Any, error: errors.SnowmeltError) -> None:
        """Tells the machine that its call can't be made, as a node would."""
        refusal = Declined(type(error).__name__, str(error))
        self._steps.handle(Received(source, Answer(message.number, refusal)))

    def _line(self, target: NodeId) -> NodeConnection | None:
        line = self._lines.get(target)
        if line is not None:
            return line
        try:
            address = address_of(target)
            if address is None:
                return None
            if address not in self._place.addresses:
                self._place.credentials.check_dial(address)
            line = NodeConnection(address, self._place, self._session, self._dial_seconds(target))
        except (OSError, errors.SnowmeltError, UnicodeError) as error:  # the last: no host's name
            cut = isinstance(error, TimeoutError) and monotonic() >= self._deadline
            if isinstance(error, ConnectionRefusedError):
                self._failure = ConnectionRefusedError(f"nobody listens at {target}")
            elif self._failure is None or not cut:  # what was cut by the call's end says less
                self._failure = error
            self._targets.lost(target, monotonic())
            return None
        self._lines[target] = line
        self._dials.pop(target, None)
        return line

    def _dial_seconds(self, target: NodeId) -> float:
        """For how long a node is dialled: nothing else is done meanwhile."""
        seconds = (
            DIAL_SECONDS if len(self._targets.known) < 2 else self._dials.get(target, DIAL_FIRST)
        )
        if len(self._dials) > DIALS_MAX:
            self._dials.clear()
        self._dials[target] = min(2 * seconds, DIAL_SECONDS)
        return min(seconds, left(self._deadline))

    def _drop(self, target: NodeId, error: Exception) -> None:
        """The connection is gone, and with it perhaps what was asked on it."""
        self._failure = error
        line = self._lines.pop(target, None)
        if line is not None:
            line.socket.close()
            self._targets.lost(target, monotonic())
        if self._aside is not None:
            self._steps.handle(Announced(Abandoned(self._aside)))
            self._aside = None
        self._steps.handle(Announced(Lost(target)))


def left(deadline: float) -> float:
    """Seconds until then; a socket wants more than none."""
    return max(0.001, deadline - monotonic())


def _readable(
    lines: Iterable[tuple[NodeId, NodeConnection]], wait: float
) -> list[tuple[NodeId, NodeConnection]]:
    by_socket = {line.socket.fileno(): (target, line) for target, line in lines}
    poll = select.poll()  # select.select knows no descriptor above 1023
    for number in by_socket:
        poll.register(number, select.POLLIN)
    return [by_socket[number] for number, _ in poll.poll(ceil(wait * 1e3))]
