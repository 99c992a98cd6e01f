"""One connection: greeting, frames, limits. It knows bytes and messages, nothing of machines.

    opening --Hello / Welcome--> open --Goodbye, error, end of stream--> closed

Two pressures are kept apart. What the other side has asked and not been answered (`in flight`) is
bounded by not reading on; what it has been sent and does not read (`unsent`) is bounded by not
reading on either, and by waiting with calls and answers, for many may be answered at once. Who
reads slowly is served slowly; who hardly reads at all is cut off after some time. Only what nodes
tell each other unasked does not wait: if too much of that is unsent, it is cut off at once.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from enum import Enum
from time import monotonic
from typing import Any, Final, Protocol, cast

from snowmelt.core.errors import FrameError, HandshakeError, SnowmeltError, TooLarge
from snowmelt.core.names import NodeId
from snowmelt.protocols.calling import Answer, Call, Declined
from snowmelt.runtime.deadline import Deadline
from snowmelt.runtime.limits import Limits
from snowmelt.runtime.statistics import ConnectionStatistics
from snowmelt.wire.codec import Codec, encode_into
from snowmelt.wire.framing import (
    GREETING_BYTES_MAX,
    HEADER,
    HEADER_BYTES,
    MAGIC,
    VERSION,
    FrameReader,
    Kind,
)
from snowmelt.wire.greeting import Goodbye, Role, as_error, goodbye, heard

MESSAGE: Final = int(Kind.MESSAGE)
# A turn takes so many frames of one connection; then its answers leave, while the other side has
# work again, and other connections have their turn.
TURN_FRAMES: Final = 32
TURN_SECONDS: Final = 0.01  # or fewer, when each is a lot of work
CALL_COST: Final = 1_024  # what a call costs besides its bytes, while it waits
SLOWEST: Final = 4  # who reads such a part of `unsent_bytes` in `slow_reader_seconds` is only slow
WAIT: Final = (Answer, Call)


class Stage(Enum):
    """How far a connection has come."""

    OPENING = "opening"
    OPEN = "open"
    CLOSED = "closed"


class Owner(Protocol):
    """Whoever holds connections."""

    limits: Limits
    touched: "list[Connection] | None"
    """What has something to send because of what another connection reads; None when none does."""
    resumed: Callable[[NodeId], None]
    """Told who has room for more again."""

    def greeted(self, connection: "Connection", kind: Kind, payload: bytes) -> None:
        """The first frame came: lets the connection in, or raises why not."""

    def connected(self, connection: "Connection") -> None:
        """The bytes can flow; whoever dialled speaks first."""

    def deliver(self, source: NodeId, message: Any) -> None:
        """A message came."""

    def spoke(self, connection: "Connection") -> None:
        """A node said something here, and will hear its answer here."""

    def inquired(self, connection: "Connection") -> bytes:
        """The other side asks how this process is."""

    def unsendable(self, connection: "Connection", what: str) -> None:
        """A message to another node was not sent: it is too large, whoever it is sent to."""

    def closed(self, connection: "Connection", reason: str) -> None:
        """The connection is gone."""


class Connection(asyncio.Protocol):
    """One end of a stream, as asyncio calls it."""

    def __init__(self, owner: Owner, codec: Codec, *, inbound: bool) -> None:
        self.peer = NodeId("")
        self.role: Role | None = None
        self.inbound = inbound
        self.stage = Stage.OPENING
        self.error: SnowmeltError | None = None  # why it ended, when that was said
        self._owner = owner
        self._limits = owner.limits
        # Read for every message, and so kept at hand.
        self._frame_max = owner.limits.frame_bytes
        self._in_flight_max = owner.limits.in_flight_bytes
        self._unsent_max = owner.limits.unsent_bytes
        self._decode = codec.decode
        self._deliver = owner.deliver
        self._reader = FrameReader(GREETING_BYTES_MAX)
        self._transport: asyncio.Transport | None = None
        self._deadline = Deadline()
        self._out = bytearray()  # what is sent in this turn of the loop
        self._later: deque[Any] = (
            deque()
        )  # calls and answers that wait until what is unsent is read
        self._rest: list[tuple[Kind, bytes]] = []  # came, but waits until what is unsent is read
        self._reading = False
        self._flush_due = False
        self.blocked = False  # too much is unsent
        self._in_flight: dict[int, int] = {}
        self._in_flight_bytes = 0
        self._began = monotonic()
        self._frames_in = self._frames_out = self._bytes_in = self._bytes_out = 0

    # --- what asyncio tells -----------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The stream is there."""
        # uvloop's transports have the methods of asyncio's, not its classes.
        self._transport = transport = cast("asyncio.Transport", transport)
        transport.set_write_buffer_limits(high=self._unsent_max)
        late = HandshakeError("no greeting came in time")
        self._deadline.set(self._limits.greeting_seconds, lambda: self.close(late))
        self._owner.connected(self)

    def data_received(self, data: bytes) -> None:
        """Bytes came."""
        if self.stage is Stage.CLOSED:
            return
        self._bytes_in += len(data)
        try:
            self._rest += self._reader.feed(data)
        except SnowmeltError as error:
            self.close(error)
        self._work()

    def _work(self) -> None:
        """Takes what came, as long as the other side reads what it is answered.

        Other connections are flushed first: whoever waits for what this one gave up goes on sooner,
        and the answer to it wakes a process that nobody waits for.
        """
        frames, self._rest = self._rest, []
        self._reading = True
        began = monotonic()
        touched: list[Connection] = []
        self._owner.touched = touched
        try:
            for at, (kind, payload) in enumerate(frames):
                if self.blocked:
                    self._rest = frames[at:]
                    return
                if at == TURN_FRAMES or (at and monotonic() - began > TURN_SECONDS):
                    self._rest = frames[at:]
                    self._set_reading()  # or a flood of small frames would heap up here
                    asyncio.get_running_loop().call_soon(self._go_on)
                    return
                self._frames_in += 1
                if kind is Kind.MESSAGE and self.stage is Stage.OPEN:
                    self._take(payload)
                else:
                    self._take_other(kind, payload)
                if self.stage is Stage.CLOSED:
                    return
        except SnowmeltError as error:
            self.close(error)
        finally:
            self._reading = False
            self._owner.touched = None
            for other in touched:
                other.flush()
            if self._out:
                self.flush()

    def _go_on(self) -> None:
        self._work()
        if not self._rest:
            self._set_reading()

    def connection_lost(self, error: Exception | None) -> None:
        """The stream is gone."""
        self._transport = None
        self._deadline.cancel()
        self._close(type(error).__name__ if error else "ended")

    def pause_writing(self) -> None:
        """Too much is unsent: stop reading, and wait only so long for one who does not read."""
        if self.stage is Stage.CLOSED:
            return
        self.blocked = True
        self._set_reading()
        slow = FrameError("slow reader: it does not read")
        self._deadline.set_without(
            self._limits.slow_reader_seconds,
            lambda: self._bytes_out - self.unsent,
            max(1, self._unsent_max // SLOWEST),
            lambda: self.close(slow),
        )

    def resume_writing(self) -> None:
        """It reads again."""
        if self.stage is Stage.CLOSED:
            return
        self.blocked = False
        self._deadline.cancel()
        while self._later and not self.blocked:
            self.send(self._later.popleft())
        if not self.blocked:
            self._owner.resumed(self.peer)
        self._work()
        self._set_reading()

    # --- what the owner asks ----------------------------------------------------------------------

    def open(self, peer: NodeId, role: Role, frame_limit: int) -> None:
        """The other side has shown who it is."""
        self.peer, self.role, self.stage = peer, role, Stage.OPEN
        self._deliver = self._owner.deliver
        if self.inbound and role is Role.CLIENT:
            self._decode = Codec.for_callers().decode
        self._reader.admit(frame_limit)
        self._deadline.cancel()

    def send(self, message: Any) -> None:
        """Sends a message, with all that is sent in the same turn of the loop."""
        if self.stage is not Stage.OPEN:
            return
        if self.blocked and type(message) in WAIT:
            self._later.append(message)
            return
        if type(message) is Answer:
            was_above = self._in_flight_bytes > self._in_flight_max
            self._in_flight_bytes -= self._in_flight.pop(message.number, 0)
            if was_above:
                self._set_reading()
        out = self._out
        begin = len(out)
        encode_into(message, out, begin + HEADER_BYTES)
        size = len(out) - begin - HEADER_BYTES
        if size > self._frame_max:
            del out[begin:]
            self._unsendable(message, size)
            return
        HEADER.pack_into(out, begin, MAGIC, VERSION, MESSAGE, 0, size)
        self._frames_out += 1
        if len(out) > self._unsent_max:
            self.flush()
        elif not self._reading and not self._flush_due:
            self._flush_soon()

    def say(self, frame: bytes) -> None:
        """Sends a frame that is made already."""
        self._frames_out += 1
        self._out += frame
        if not self._reading and not self._flush_due:
            self._flush_soon()

    def close(self, error: SnowmeltError | None = None) -> None:
        """Ends the connection; the other side is told why."""
        if self.stage is Stage.CLOSED:
            return
        self.error = error
        if error is not None and not self.blocked:  # who does not read would not read this either
            self._out += goodbye(error)
        self.flush()
        reason = "closed" if error is None else str(error).split(":", 1)[0]
        if self._transport is not None:
            if self.blocked:
                self._transport.abort()
            else:
                self._transport.close()
        self._close(type(error).__name__ if error and reason != "slow reader" else reason)

    @property
    def in_flight(self) -> int:
        """How many calls wait for their answer."""
        return len(self._in_flight)

    @property
    def unsent(self) -> int:
        """How many bytes have not left this process."""
        return self._transport.get_write_buffer_size() if self._transport else 0

    @property
    def tls(self) -> Any:
        """The TLS object, None without TLS."""
        return self._transport.get_extra_info("ssl_object") if self._transport else None

    def statistics(self) -> ConnectionStatistics:
        """How it is, now."""
        return ConnectionStatistics(
            peer=self.peer,
            role=self.role.value if self.role else "unknown",
            inbound=self.inbound,
            seconds=round(monotonic() - self._began, 3),
            frames_in=self._frames_in,
            frames_out=self._frames_out,
            bytes_in=self._bytes_in,
            bytes_out=self._bytes_out,
            in_flight_bytes=self._in_flight_bytes,
            unsent_bytes=self.unsent,
        )

    # --- in ---------------------------------------------------------------------------------------

    def _take(self, payload: bytes) -> None:
        message = self._decode(payload)
        if type(message) is Call:
            cost = len(payload) + CALL_COST
            # Asked again under the same number it costs once.
            self._in_flight_bytes += cost - self._in_flight.get(message.number, 0)
            self._in_flight[message.number] = cost
            if self._in_flight_bytes > self._in_flight_max:
                self._set_reading()
        elif self.role is Role.NODE:
            self._owner.spoke(self)
        self._deliver(self.peer, message)  # by the name it was greeted with, and no other

    def _take_other(self, kind: Kind, payload: bytes) -> None:
        if kind is Kind.GOODBYE:
            word = heard(payload, Goodbye)
            self.error = as_error(word.error, word.text)
            assert self._transport is not None
            self._transport.close()  # there is nobody left to answer
            self._close(f"goodbye: {type(self.error).__name__}")
            return
        if self.stage is Stage.OPENING:
            self._owner.greeted(self, kind, payload)
        elif kind is Kind.INQUIRE:
            self.say(self._owner.inquired(self))
        else:
            raise FrameError(f"{kind.name} does not stand in an open connection")

    def _set_reading(self) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        above = self._in_flight_bytes > self._in_flight_max
        if self.blocked or self._rest or above:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    # --- out --------------------------------------------------------------------------------------

    def _unsendable(self, message: Any, size: int) -> None:
        """A call or an answer above the limit is declined; the connection lives on in any case.

        Another message is lost, as any may be (`core.node`, rule 3): with the connection all the
        others would be lost too, each time that it is sent again.
        """
        limit = self._frame_max
        error = TooLarge(f"a message of {size} bytes; the limit of a frame is {limit}")
        if type(message) is Call:
            refusal = Declined("TooLarge", str(error))
            self._deliver(self.peer, Answer(message.number, refusal))
        elif type(message) is Answer and not isinstance(message.body, Declined):
            self.send(Answer(message.number, Declined("TooLarge", str(error))))
        else:
            self._owner.unsendable(self, f"{type(message).__name__}: {error}")

    def _flush_soon(self) -> None:
        self._flush_due = True
        if self._owner.touched is None:
            asyncio.get_running_loop().call_soon(self.flush)
        else:
            self._owner.touched.append(self)

    def flush(self) -> None:
        """Writes what is to be sent."""
        self._flush_due = False
        out, self._out = self._out, bytearray()
        transport = self._transport
        if not out or transport is None or transport.is_closing():
            return
        self._bytes_out += len(out)
        transport.write(out)
        if transport.get_write_buffer_size() > self._limits.unsent_bytes_max:
            self.blocked = True
            self.close(FrameError("slow reader: too much is unsent"))

    # --- endings ----------------------------------------------------------------------------------

    def _close(self, reason: str) -> None:
        if self.stage is Stage.CLOSED:
            return
        self.stage = Stage.CLOSED
        self._rest = []
        self._later.clear()
        self._deadline.cancel()
        if self._transport is not None:  # it may never read the last of what it was sent
            self._deadline.set(self._limits.slow_reader_seconds, self._transport.abort)
        self._owner.closed(self, reason)


def gathered(owner: Owner, work: Callable[..., None], *given: Any) -> None:
    """Does a piece of work; what it sends leaves at its end, in one write on each connection."""
    touched: list[Connection] = []
    owner.touched = touched
    try:
        work(*given)
    finally:
        owner.touched = None
        for one in touched:
            one.flush()


def forsake(connection: Connection) -> None:
    """For a child after a fork: closes its copy of the socket, and tells nobody."""
    transport = connection._transport  # noqa: SLF001 - the same file's
    shown = None if transport is None else transport.get_extra_info("socket")
    own = getattr(shown, "_sock", None)  # asyncio shows it in a cover that can't close it
    if own is not None:
        own.close()
