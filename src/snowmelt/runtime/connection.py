"""One connection: greeting, frames, limits. It knows bytes and messages, nothing of machines.

    opening --Hello / Welcome--> open --Goodbye, error, end of stream--> closed

Two pressures are kept apart. What the other side has asked and not been answered (`in flight`) is
bounded by not reading on; what it has been sent and does not read (`unsent`) is bounded by not
reading on either, then by time, then by bytes, and then it is cut off.
"""

import asyncio
from enum import Enum
from time import monotonic
from typing import Any, Final, Protocol, cast

from snowmelt.core.errors import FrameError, HandshakeError, SnowmeltError
from snowmelt.core.names import NodeId
from snowmelt.protocols.calling import Answer, Call
from snowmelt.runtime.limits import Limits
from snowmelt.runtime.statistics import ConnectionStatistics
from snowmelt.wire.codec import Codec, encode
from snowmelt.wire.framing import (
    GREETING_BYTES_MAX,
    HEADER,
    MAGIC,
    VERSION,
    FrameReader,
    Kind,
)
from snowmelt.wire.greeting import Goodbye, Role, as_error, goodbye, heard

CALL_COST: Final = 128  # what a call costs besides its bytes


class Stage(Enum):
    """How far a connection has come."""

    OPENING = "opening"
    OPEN = "open"
    CLOSED = "closed"


class Owner(Protocol):
    """Whoever holds connections."""

    limits: Limits

    def greeted(self, connection: "Connection", kind: Kind, payload: bytes) -> None:
        """The first frame came: lets the connection in, or raises why not."""

    def connected(self, connection: "Connection") -> None:
        """The bytes can flow; whoever dialled speaks first."""

    def received(self, connection: "Connection", message: Any) -> None:
        """A message came."""

    def inquired(self, connection: "Connection") -> bytes:
        """The other side asks how this process is."""

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
        self._decode = codec.decode
        self._reader = FrameReader(GREETING_BYTES_MAX)
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._out: list[bytes] = []
        self._reading = False
        self._flush_due = False
        self._blocked = False
        self._in_flight: dict[int, int] = {}
        self._in_flight_bytes = 0
        self._began = monotonic()
        self._frames_in = self._frames_out = self._bytes_in = self._bytes_out = 0

    # --- what asyncio tells -----------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The stream is there."""
        # uvloop's transports have the methods of asyncio's, not its classes.
        self._transport = transport = cast("asyncio.Transport", transport)
        transport.set_write_buffer_limits(high=self._limits.unsent_bytes)
        self._after(self._limits.greeting_seconds, HandshakeError("no greeting came in time"))
        self._owner.connected(self)

    def data_received(self, data: bytes) -> None:
        """Bytes came."""
        self._bytes_in += len(data)
        self._reading = True
        try:
            for kind, payload in self._reader.feed(data):
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
            if self._out:
                self._flush()

    def connection_lost(self, error: Exception | None) -> None:
        """The stream is gone."""
        self._close(type(error).__name__ if error else "ended")

    def pause_writing(self) -> None:
        """Too much is unsent: stop reading, and wait only so long."""
        self._blocked = True
        self._set_reading()
        self._after(self._limits.slow_reader_seconds, FrameError("slow reader: it does not read"))

    def resume_writing(self) -> None:
        """It reads again."""
        self._blocked = False
        self._cancel_timer()
        self._set_reading()

    # --- what the owner asks ----------------------------------------------------------------------

    def open(self, peer: NodeId, role: Role, frame_limit: int) -> None:
        """The other side has shown who it is."""
        self.peer, self.role, self.stage = peer, role, Stage.OPEN
        self._reader.admit(frame_limit)
        self._cancel_timer()

    def send(self, message: Any) -> None:
        """Sends a message, with all that is sent in the same turn of the loop."""
        if self.stage is not Stage.OPEN:
            return
        if type(message) is Answer:
            self._answered(message.number)
        payload = encode(message)
        if len(payload) > self._limits.frame_bytes:
            self.close(FrameError(f"a message of {len(payload)} bytes was to be sent"))
            return
        self._write(HEADER.pack(MAGIC, VERSION, Kind.MESSAGE, 0, len(payload)))
        self._write(payload)
        self._frames_out += 1

    def say(self, frame: bytes) -> None:
        """Sends a frame that is made already."""
        self._frames_out += 1
        self._write(frame)

    def close(self, error: SnowmeltError | None = None) -> None:
        """Ends the connection; the other side is told why."""
        if self.stage is Stage.CLOSED:
            return
        self.error = error
        if error is not None:
            self._out.append(goodbye(error))
        self._flush()
        reason = "closed" if error is None else str(error).split(":", 1)[0]
        if self._transport is not None:
            if self._blocked:
                self._transport.abort()  # it does not read; it would not read this either
            else:
                self._transport.close()
        self._close(type(error).__name__ if error and reason != "slow reader" else reason)

    @property
    def in_flight(self) -> int:
        """How many calls wait for their answer."""
        return len(self._in_flight)

    @property
    def tls(self) -> Any:
        """The TLS object, None without TLS."""
        return self._transport.get_extra_info("ssl_object") if self._transport else None

    def statistics(self) -> ConnectionStatistics:
        """How it is, now."""
        unsent = self._transport.get_write_buffer_size() if self._transport else 0
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
            unsent_bytes=unsent,
        )

    # --- in ---------------------------------------------------------------------------------------

    def _take(self, payload: bytes) -> None:
        message = self._decode(payload)
        if type(message) is Call:
            cost = len(payload) + CALL_COST
            # Asked again under the same number it costs once.
            self._in_flight_bytes += cost - self._in_flight.get(message.number, 0)
            self._in_flight[message.number] = cost
            if self._in_flight_bytes > self._limits.in_flight_bytes:
                self._set_reading()
        self._owner.received(self, message)

    def _take_other(self, kind: Kind, payload: bytes) -> None:
        if kind is Kind.GOODBYE:
            word = heard(payload, Goodbye)
            self._part(as_error(word.error, word.text))
            return
        if self.stage is Stage.OPENING:
            self._owner.greeted(self, kind, payload)
        elif kind is Kind.INQUIRE:
            self.say(self._owner.inquired(self))
        else:
            raise FrameError(f"{kind.name} does not stand in an open connection")

    def _part(self, error: SnowmeltError) -> None:
        """The other side has said goodbye; there is nobody left to answer."""
        self.error = error
        assert self._transport is not None
        self._transport.close()
        self._close(f"goodbye: {type(error).__name__}")

    def _answered(self, number: int) -> None:
        cost = self._in_flight.pop(number, 0)
        was_above = self._in_flight_bytes > self._limits.in_flight_bytes
        self._in_flight_bytes -= cost
        if was_above:
            self._set_reading()

    def _set_reading(self) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        if self._blocked or self._in_flight_bytes > self._limits.in_flight_bytes:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    # --- out --------------------------------------------------------------------------------------

    def _write(self, data: bytes) -> None:
        self._out.append(data)
        if not self._reading and not self._flush_due:
            self._flush_due = True
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        self._flush_due = False
        out, self._out = self._out, []
        transport = self._transport
        if not out or transport is None or transport.is_closing():
            return
        data = b"".join(out)
        self._bytes_out += len(data)
        transport.write(data)
        if transport.get_write_buffer_size() > self._limits.unsent_bytes_max:
            self.close(FrameError("slow reader: too much is unsent"))

    # --- endings ----------------------------------------------------------------------------------

    def _after(self, seconds: float, error: SnowmeltError) -> None:
        self._cancel_timer()
        self._timer = asyncio.get_running_loop().call_later(seconds, self.close, error)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _close(self, reason: str) -> None:
        if self.stage is Stage.CLOSED:
            return
        self.stage = Stage.CLOSED
        self._cancel_timer()
        self._owner.closed(self, reason)
