"""A connection on an event loop: bytes between its machine and asyncio, in turns, within limits.

What a connection says and hears is `wire.connection`'s matter; here are the socket's. Reading stops
while the machine is crowded, or a client's large frame waits for its place (`arriving.py`), and
whoever reads slowly is served slowly. Who hardly reads at all is cut off after some time, and so is
who has a place and hardly goes on. Only what nodes tell each other does not wait: if too much of
that is unsent, it is cut off at once.
"""

import asyncio
import ssl
from collections.abc import Callable
from time import monotonic, perf_counter
from typing import Any, Final, Protocol, cast
from weakref import proxy

from snowmelt.core.errors import (
    AccessDenied,
    FrameError,
    HandshakeError,
    SnowmeltError,
    TooLarge,
)
from snowmelt.core.names import NodeId
from snowmelt.core.users import ANYBODY, User
from snowmelt.protocols.calling import Answer, Call, Declined
from snowmelt.runtime.arriving import LARGE, Arriving
from snowmelt.runtime.caused import caused
from snowmelt.runtime.deadline import Deadline
from snowmelt.runtime.frame_place import FramePlace
from snowmelt.runtime.hearing import OWES_MOST, SLICE_SECONDS, Hearing
from snowmelt.runtime.ledger import NOBODY, CostLedger, Payer
from snowmelt.runtime.limits import Limits
from snowmelt.runtime.owed import HURRY, Owed
from snowmelt.runtime.purse import host_of
from snowmelt.runtime.statistics import ConnectionStatistics
from snowmelt.wire.connection import SIGNALS, Connection, ControlFrame, Ended, Heard
from snowmelt.wire.framing import Kind
from snowmelt.wire.greeting import Role
from snowmelt.wire.sides import ConnectionOpened, Side

# A slice is so many frames of one connection at most; then its answers leave, while the other side
# has work again, and other connections are heard.
SLICE_FRAMES: Final = 32
SLOWEST_READER: Final = 8  # the same of its answer, where others have no room
SLOWEST: Final = 4  # who reads such a part of `unsent_bytes` in `slow_reader_seconds` is only slow

STRANGERS: Final = " strangers"
"""The account of those who have not shown who they are; a user's name has no blank."""
UNBELIEVED: Final = "whoever dialled knows another secret"
"""A dialler that does not believe this process says so, and gives no proof of its own."""
_SLOW: Final = ("slow reader", "slow sender")


class ConnectionOwner(Protocol):
    limits: Limits
    ledger: CostLedger
    arriving: Arriving[FramePlace]
    touched: "list[LoopConnection] | None"
    """What has something to send because of what another connection reads; None when none does."""
    hearing: Hearing
    resumed: Callable[[NodeId], None]
    """Told who has room for more again."""

    def side(self, connection: "LoopConnection") -> Side: ...

    def connected(self, connection: "LoopConnection") -> None: ...

    def opened(self, connection: "LoopConnection", opened: ConnectionOpened) -> None:
        """The other side has shown who it is."""

    def denied(self, connection: "LoopConnection", error: SnowmeltError) -> float:
        """The other side may not come in; after so many seconds it is told."""

    def deliver(self, source: NodeId, message: Any) -> None: ...

    def called(self, connection: "LoopConnection", call: Call[Any]) -> None:
        """The other side asks for something."""

    def shown(self, user: User, message: Any) -> Any:
        """A message as this user may see it."""

    def spoke(self, connection: "LoopConnection", message: Any) -> None:
        """A node said something here, and will hear its answer here."""

    def inquired(self, connection: "LoopConnection", kind: Kind) -> bytes:
        """The other side asks how this process is, or that it reads its files again."""

    def unsendable(self, connection: "LoopConnection", what: str) -> None:
        """A message to another node was not sent: it is too large, whoever it is sent to."""

    def closed(self, connection: "LoopConnection", reason: str) -> None: ...


class LoopConnection(asyncio.Protocol):
    """One end of a stream, as asyncio calls it."""

    def __init__(
        self, owner: ConnectionOwner, *, inbound: bool, target: NodeId | None = None
    ) -> None:
        self.peer = NodeId("")
        self.role: Role | None = None
        self.user = User("", ())
        """For whom the other side speaks: nobody who may do anything, until it has shown who."""
        self.secret = ""
        """By which it has shown it."""
        self.host = ""
        """Where the other side is, as far as this side can see."""
        self.payer: Payer | None = None
        """Who pays for it, once that is known."""
        self.account = STRANGERS if inbound else ""
        """Whose turn it is when it is heard; nobody's for nodes, which come first."""
        self.inbound = inbound
        self.target = target
        """Who was dialled; None where only an address was known."""
        self.error: SnowmeltError | None = None  # why it ended, when that was said
        self._owner = owner
        self._limits = limits = owner.limits
        self._unsent_max = limits.unsent_bytes
        self._machine = Connection(owner.side(self), limits.frame_bytes, limits.in_flight_bytes)
        self._transport: asyncio.Transport | None = None
        self._deadline = Deadline()
        self._place = FramePlace(proxy(self), owner.arriving, limits)  # garbage, rule 3
        self._owed = Owed(owner.ledger, limits, self._machine)
        self._of_node = False
        self._closed = False
        self._reading = False  # what is sent meanwhile leaves at the end of it
        self.holds = False  # no more bytes are read
        self.owes = 0.0
        """What its calls cost beside what it was heard for (`hearing.py`, rules 3 and 7)."""
        self.slows = False
        """Whether clients are heard less while this node does not read."""
        self._flush_due = False
        self._began = monotonic()
        self.bytes_in = self._bytes_out = 0
        self._seen = (0, 0)  # how much had come, and left, at the last look

    # --- what asyncio tells -----------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The stream is there; whoever dialled speaks first."""
        # uvloop's transports have the methods of asyncio's, not its classes.
        self._transport = transport = cast("asyncio.Transport", transport)
        if self.inbound:
            self.host = host_of(transport.get_extra_info("peername"))
        transport.set_write_buffer_limits(high=self._unsent_max)
        late = HandshakeError("no greeting came in time")
        self._deadline.set(self._limits.greeting_seconds, lambda: self.close(late))
        self._owner.connected(self)
        self.flush()

    def data_received(self, data: bytes) -> None:
        self.bytes_in += len(data)
        machine = self._machine
        machine.take(data)
        if machine.has_news:
            self._owner.hearing.came(self)
        elif machine.awaited > LARGE or self._place.size:
            self._set_holding()
        if len(machine.frames) > SLICE_FRAMES:
            self._set_holding()

    def hear(self, until: float) -> bool:
        """Takes a slice of what came, as long as the other side reads what it is answered.

        Other connections are flushed first: whoever waits for what this one gave up goes on sooner,
        and the answer to it wakes a process that nobody waits for.
        """
        owner, machine = self._owner, self._machine
        touched: list[LoopConnection] = []
        owner.touched = touched
        self._reading = True
        event: Any
        count = 0
        try:
            for event in machine.events():
                kind = type(event)
                if kind in SIGNALS:
                    self._told(event)
                else:
                    if self._of_node:
                        owner.spoke(self, event)
                    # By the name it was greeted with, and no other.
                    if kind is Call:
                        self.owes += caused(event.body)
                        owner.called(self, event)
                    else:
                        owner.deliver(self.peer, event)
                count += 1
                if machine.frames and (
                    count == SLICE_FRAMES or self.owes > OWES_MOST or perf_counter() > until
                ):
                    break
        except SnowmeltError as error:
            self._fail(error)
        except BaseException:  # a bug: nothing more is heard here
            cut(self)
            raise
        finally:
            self._reading = False
            owner.touched = None
            for other in touched:
                other.flush()
            if machine.out:
                self.flush()
            if self.holds or machine.crowded or self._place.size or machine.awaited > LARGE:
                self._set_holding()  # or a flood of small frames would heap up here
        return bool(machine.frames) and machine.hears

    def connection_lost(self, error: Exception | None) -> None:
        if self._machine.has_news:  # what it said before it went
            self.hear(perf_counter() + SLICE_SECONDS)
        self._transport = None
        self._deadline.cancel()
        self._owed.end()
        self._close(type(error).__name__ if error else "ended")

    def pause_writing(self) -> None:
        """Too much is unsent: read no more of a client; who does not read has only so long."""
        if self._closed:
            return
        self._machine.blocked = True
        if self.slows:
            self._owner.hearing.full(self)
        self.set_reading()
        self._expect_reading(hurry=not self._owed.unreads(self.unsent))

    def _expect_reading(self, *, hurry: bool) -> None:
        """Who is sent much reads some of it in some time, and more where others have no room."""
        slow = FrameError("slow reader: it does not read")
        least = max(1, self._unsent_max // SLOWEST)
        self._deadline.set_without(
            self._limits.slow_reader_seconds / (HURRY if hurry else 1),
            lambda: self._bytes_out - self.unsent,
            lambda: max(least, self._owed.unread // SLOWEST_READER) if hurry else least,
            lambda: self.close(slow),
        )

    def resume_writing(self) -> None:
        if self._closed:
            return
        machine = self._machine
        machine.blocked = False
        self._deadline.cancel()
        self._owed.reads()
        while machine.later and not machine.blocked:
            self.send(machine.later.popleft())
        if not machine.blocked:
            self._owner.hearing.reads(self)
            self._owner.resumed(self.peer)
        self.flush()
        self.set_reading()

    def _fail(self, error: SnowmeltError) -> None:
        """The other side said what may not be; who guesses at secrets is told so late."""
        pause = 0.0
        if self.inbound and self.role is None and isinstance(error, AccessDenied):
            pause = self._owner.denied(self, error)
        if pause and self._transport is not None:
            self._transport.pause_reading()
            self._deadline.set(pause, lambda: self.close(error))
        else:
            self.close(error)

    # --- what the machine tells -------------------------------------------------------------------

    def _told(self, event: Heard) -> None:
        match event:
            case ConnectionOpened(name, role, user, secret):
                self.peer, self.role, self._of_node = name, role, role is Role.NODE
                self.user, self.secret = user, secret
                self._deadline.cancel()
                self._owner.opened(self, event)
                if role is Role.CLIENT and self.payer is not None:
                    self._owed.pays(self.payer)
                    self.account = self.payer.owner
                elif role is Role.NODE:
                    self.account = ""
            case ControlFrame(kind):
                if kind in (Kind.INQUIRE, Kind.RELOAD):
                    self._machine.speak(Kind.INFORM, self._owner.inquired(self, kind))
            case Ended(error):
                if self.inbound and self.role is None and isinstance(error, AccessDenied):
                    self._owner.denied(self, AccessDenied(UNBELIEVED))
                self.error = error
                assert self._transport is not None
                self._transport.close()  # there is nobody left to answer
                self._close(f"goodbye: {type(error).__name__}")

    # --- what the owner asks ----------------------------------------------------------------------

    def send(self, message: Any) -> None:
        """Sends a message, with all that is sent in the same turn of the loop."""
        machine = self._machine
        if type(message) is Answer and type(message.body) is Declined:
            self.owes += SLICE_SECONDS
        if self.user is not ANYBODY and not self._of_node:
            message = self._owner.shown(self.user, message)
        try:
            machine.send(message)
        except TooLarge as error:
            self._unsendable(message, error)
        if self.holds and not self._reading:
            self.set_reading()
        if len(machine.out) > self._unsent_max:
            self.flush()
        elif not self._reading and not self._flush_due:
            self._flush_soon()

    def close(self, error: SnowmeltError | None = None) -> None:
        """Ends the connection; the other side is told why."""
        if self._closed:
            return
        # Without its trace: that has this connection in it (garbage, rule 3).
        self.error = None if error is None else error.with_traceback(None)
        blocked = self._machine.blocked
        self._machine.close(None if blocked else error)  # who does not read would not read this
        self.flush()
        reason = "closed" if error is None else str(error).split(":", 1)[0]
        if self._transport is not None:
            if blocked:
                self._transport.abort()
            else:
                self._transport.close()
        self._close(type(error).__name__ if error and reason not in _SLOW else reason)

    @property
    def blocked(self) -> bool:
        """Whether too much is unsent."""
        return self._machine.blocked

    @property
    def in_flight(self) -> int:
        return self._machine.in_flight

    @property
    def unsent(self) -> int:
        """How many bytes have not left this process."""
        return self._transport.get_write_buffer_size() if self._transport else 0

    def moved(self) -> tuple[bool, bool]:
        """Whether part of a large message came since this was asked, and part of one left."""
        before, self._seen = self._seen, (self.bytes_in, self._bytes_out - self.unsent)
        came, left = (now > then for now, then in zip(self._seen, before, strict=True))
        return came and self._machine.awaited > LARGE, left and self.unsent > 0

    def statistics(self) -> ConnectionStatistics:
        return ConnectionStatistics(
            peer=self.peer,
            role=self.role.value if self.role else "unknown",
            inbound=self.inbound,
            seconds=round(monotonic() - self._began, 3),
            frames_in=self._machine.frames_in,
            frames_out=self._machine.frames_out,
            bytes_in=self.bytes_in,
            bytes_out=self._bytes_out,
            in_flight_bytes=self._machine.in_flight_bytes,
            unsent_bytes=self.unsent,
        )

    # --- the socket -------------------------------------------------------------------------------

    def set_reading(self) -> None:
        """Reads and hears on, or no more."""
        self._set_holding()
        if self._machine.frames and self._machine.hears:
            self._owner.hearing.add(self)

    def _set_holding(self) -> None:
        if self._machine.in_flight_bytes > self._machine.in_flight_max:
            self._owed.grow()
        if self._transport is None or self._transport.is_closing():
            return
        if self.role is Role.CLIENT:
            self._place.look(self._machine, self.payer or NOBODY)
        holds = self._machine.crowded or self._place.waits
        if holds is not self.holds:
            self.holds = holds
            if holds:
                self._transport.pause_reading()
            else:
                self._transport.resume_reading()
                self._place.expect()

    def _unsendable(self, message: Any, error: TooLarge) -> None:
        """A call above the limit is declined; the connection lives on in any case.

        Another message is lost, as any may be (`core.node`, rule 3): with the connection all the
        others would be lost too, each time that it is sent again.
        """
        if type(message) is Call:
            refusal = Declined("TooLarge", str(error))
            self._owner.deliver(self.peer, Answer(message.number, refusal))
        else:
            self._owner.unsendable(self, f"{type(message).__name__}: {error}")

    def _flush_soon(self) -> None:
        self._flush_due = True
        if self._owner.touched is None:
            asyncio.get_running_loop().call_soon(self.flush)
        else:
            self._owner.touched.append(self)

    def flush(self) -> None:
        self._flush_due = False
        if self._owed.calls:
            self._owed.shrink()
        out = self._machine.taken()
        transport = self._transport
        if not out or transport is None or transport.is_closing():
            return
        self._bytes_out += len(out)
        transport.write(out)
        if transport.get_write_buffer_size() > self._limits.unsent_bytes_max:
            self._machine.blocked = True
            self.close(FrameError("slow reader: too much is unsent"))

    def _close(self, reason: str) -> None:
        if self._closed:
            return
        self._closed = True
        self._machine.close()
        self._owner.hearing.reads(self)
        self._deadline.cancel()
        self._place.leave()
        if self._transport is not None:  # it may never read the last of what it was sent
            self._deadline.set(self._limits.slow_reader_seconds, self._transport.abort)
        self._owner.closed(self, reason)


def gathered(owner: ConnectionOwner, work: Callable[..., None], *given: Any) -> None:
    """Does a piece of work; what it sends leaves at its end, in one write on each connection."""
    touched: list[LoopConnection] = []
    owner.touched = touched
    try:
        work(*given)
    finally:
        owner.touched = None
        for one in touched:
            one.flush()


def stream_of(connection: LoopConnection) -> Any:
    """Its socket, as its transport shows it; None when there is none any more."""
    transport = connection._transport  # noqa: SLF001 - the same file's
    return None if transport is None else transport.get_extra_info("socket")


def tls_of(connection: LoopConnection) -> ssl.SSLObject | None:
    """The TLS that it speaks, once that stands."""
    transport = connection._transport  # noqa: SLF001 - the same file's
    return None if transport is None else transport.get_extra_info("ssl_object")


def origin_of(connection: LoopConnection) -> str:
    """From where the other side came, as far as the system says."""
    transport = connection._transport  # noqa: SLF001 - the same file's
    where = None if transport is None else transport.get_extra_info("peername")
    return f"{where[0]}:{where[1]}" if isinstance(where, tuple) else "this machine"


def cut(connection: LoopConnection) -> None:
    """Ends a connection that is closed: what has not left by now is lost."""
    transport = connection._transport  # noqa: SLF001 - the same file's
    if transport is not None:
        transport.abort()


def has_closed(connection: LoopConnection) -> bool:
    """Whether nothing is said or heard on it any more."""
    return connection._closed  # noqa: SLF001 - the same file's


def has_ended(connection: LoopConnection) -> bool:
    """Whether its socket is gone, or going."""
    return connection._transport is None  # noqa: SLF001 - the same file's


def forsake(connection: LoopConnection) -> None:
    """For a child after a fork: closes its copy of the socket, and tells nobody."""
    own = getattr(stream_of(connection), "_sock", None)  # in a cover that can't close it
    if own is not None:
        own.close()
