"""One connection of a process in a pool: bytes out, bytes in, and how it ends.

Never blocks. All of it runs under the engine's lock, in whichever thread has that.
"""

import contextlib
import socket
import ssl
from collections.abc import Callable
from functools import partial
from typing import Any, Final, Protocol

from snowmelt.core.errors import FrameError, Full, SnowmeltError, TooLarge
from snowmelt.core.instant import Instant
from snowmelt.core.names import NodeId
from snowmelt.core.node import Event, Received
from snowmelt.runtime.clock import real_now
from snowmelt.runtime.peer.carriers import NOT_NOW, Carrier, Near
from snowmelt.runtime.peer.incoming import Handler, Incoming
from snowmelt.runtime.peer.limits import FRAME_BYTES_MAX, PeerLimits
from snowmelt.runtime.peer.outgoing import Outgoing
from snowmelt.runtime.peer.segments import Segments
from snowmelt.runtime.peer.sharing import Sharing
from snowmelt.runtime.peer.stores import Stores
from snowmelt.wire.connection import Connection, ControlFrame, Ended, Heard, Stage
from snowmelt.wire.framing import Kind
from snowmelt.wire.sides import ConnectionOpened, Side

READ_BYTES: Final = 64 << 10
"""Of one read that is not straight into a blob: what of a blob is in it is copied once."""
SPILL_BYTES: Final = 4 << 10
"""What a read into a blob may bring besides: the head of what follows."""
TURN_BYTES: Final = 2 << 20
"""Then other links have their turn."""


class Use:
    """Whether a link is used, and how far its end is agreed (rule 5 of `ways.py`)."""

    __slots__ = ("asks", "frames", "heard", "said", "since")

    def __init__(self, now: Instant) -> None:
        self.frames = 0
        self.since = now
        """So many frames have passed, and none since then."""
        self.asks = True
        """Whether this side is to ask; not while the other is to, for it has said `KEEP`."""
        self.said = self.heard = False
        """Whether this side has said `RELEASE`, and the other."""

    @property
    def over(self) -> bool:
        return self.said and self.heard


class Buffers:
    """Where bytes are read to before it is known what they are; one for all links."""

    __slots__ = ("read", "spill")

    def __init__(self) -> None:
        self.read = memoryview(bytearray(READ_BYTES))
        self.spill = memoryview(bytearray(SPILL_BYTES))


class LinkOwner(Protocol):
    limits: PeerLimits
    stores: Stores
    buffers: Buffers
    segments: Segments
    last_failure: Exception | None
    """Why a link ended before it was open, the last time."""

    report: Callable[[Event[Any]], None]

    def side(self, link: "Link") -> Side:
        """How this end of a link greets that was accepted."""

    def opened(self, link: "Link", opened: ConnectionOpened) -> None:
        """The other side of it has shown who it is."""

    def heralded(self, link: "Link", message: Any) -> None:
        """The head of a large message came."""

    def refused(self, link: "Link", message: Any, reason: str) -> None:
        """What was heralded was not taken in."""

    def agrees(self, link: "Link", kind: Kind) -> None:
        """The other side needs the link no more, or needs it still."""

    def stir(self, link: "Link") -> None:
        """The link has something to send, at the end of the turn."""

    def watch(self, link: "Link") -> None:
        """What the link waits for has changed."""

    def closed(self, link: "Link", reason: str) -> None: ...


class Link(Handler):
    """One end of a stream of bytes to a peer, or to a node."""

    def __init__(
        self,
        owner: LinkOwner,
        stream: socket.socket,
        carrier: Carrier,
        greeted: Connection | None = None,
    ) -> None:
        self.socket = stream
        self.carrier = carrier
        self.stage = Stage.GREETING
        self.name = NodeId("")
        """Who the other side has shown to be."""
        self.target = NodeId("")
        """By which name this process speaks to it: its name, or a node's address."""
        self.nonce = b""
        """Of its greeting, between peers."""
        self.dialled = False
        """Whether this side has dialled."""
        self._peer = False
        """Whether the other side is a process of the pool, and no node."""
        self.began = self.taken = real_now()
        self.blocked = False
        """Whether something waits until the system takes more."""
        self.complete = True
        """Whether all that it had begun to bring was whole when it ended."""
        self.bytes_in = self.bytes_out = 0
        self.use = Use(self.began)
        self._owner = owner
        self._connection = greeted or Connection(owner.side(self), FRAME_BYTES_MAX)
        self.outgoing = Outgoing(owner.limits)
        mapped, stir = owner.limits.shared_bytes, partial(owner.stir, self)
        self.sharing = Sharing(owner.segments, mapped, carrier, self.outgoing, stir)
        self.incoming = Incoming(owner.limits, owner.stores, self, self.sharing)
        self._read_blocked = False  # TLS must write before it can read on

    def open(self, name: NodeId, target: NodeId, *, peer: bool) -> None:
        """The other side has shown who it is."""
        self._peer = peer
        if peer:
            self.sharing.begin()
        self.name, self.target, self.stage = name, target, Stage.OPEN
        report, connection = self._owner.report, self._connection
        self.incoming.frames += connection.frames_in
        self.incoming.admit(
            connection.frame_max, connection.decode, lambda message: report(Received(name, message))
        )

    # --- out --------------------------------------------------------------------------------------

    def send(self, message: Any) -> str:
        """Adds a message to what `flush` sends; returns why it can't be added, or nothing."""
        if self.outgoing.small_bytes > self._owner.limits.unsent_bytes:
            return "too much is unsent"
        try:
            if not self.sharing.send(message):
                self.outgoing.add(message)
        except TooLarge:
            return "too large"
        except Full:
            return "too many large ones are unsent"
        return ""

    def flush(self) -> None:
        """Sends what the system takes, in one turn; the rest when it takes more."""
        if self.stage is Stage.CLOSED:
            return
        try:
            left = self._flush()
        except NOT_NOW:
            left = True
        except OSError as error:
            self.end(type(error).__name__)
            return
        self._block(left or self._read_blocked)

    def _block(self, blocked: bool) -> None:
        if blocked is not self.blocked:
            self.blocked = blocked
            self.taken = real_now()
            self._owner.watch(self)

    def _flush(self) -> bool:
        outgoing, carrier = self.outgoing, self.carrier
        budget = TURN_BYTES
        while pieces := outgoing.pieces():
            shows = outgoing.descriptor
            if shows is None:
                sent = carrier.send(pieces)
            else:
                assert isinstance(carrier, Near)
                sent = carrier.show(pieces, shows)
            self.bytes_out += sent
            budget -= sent
            if not outgoing.sent(sent):
                self.taken = real_now()
                return True
            if budget <= 0:
                return bool(outgoing)
        return False

    # --- in ---------------------------------------------------------------------------------------

    def writable(self) -> None:
        """The system takes more: goes on with what waited for that."""
        if self._read_blocked:
            self._read_blocked = False
            self.read()
        self.flush()

    def read(self) -> None:
        """Takes in what has come, in one turn."""
        if self.stage is Stage.CLOSED:
            return
        self.incoming.heard = real_now()
        try:
            if self.stage is Stage.GREETING:
                self.carrier = self.carrier.ready()
            self._read()
        except ssl.SSLWantWriteError:
            self._read_blocked = True
            self._block(True)
        except NOT_NOW:
            pass
        except SnowmeltError as error:
            self.close(error)
        except OSError as error:
            self.end(type(error).__name__)

    def _read(self) -> None:
        incoming, carrier = self.incoming, self.carrier
        budget = TURN_BYTES
        # What is hidden from the selector must be had now: it would not be told of again.
        while (budget > 0 or carrier.hidden) and not incoming.over:
            if self.stage is Stage.GREETING:
                count, wanted = self._greet()
            else:
                count, wanted = self._pour() if incoming.pouring else self._take()
            self.bytes_in += count
            budget -= count
            if count < wanted:
                return

    def _greet(self) -> tuple[int, int]:
        """One read of the greeting: how many bytes came, and how many it wants, and no more."""
        wanted = min(self._connection.missing, READ_BYTES)
        buffer = self._owner.buffers.read[:wanted]
        count = self.carrier.receive(buffer)
        if not count:
            self.end("ended")
        for event in self._connection.receive(bytes(buffer[:count])):
            self._heard(event)
        self.say()
        return count, wanted

    def _take(self) -> tuple[int, int]:
        """One read: how many bytes came, and for how many there was room."""
        buffer = self._owner.buffers.read
        count = self.carrier.receive(buffer)
        if count:
            self.incoming.feed(buffer[:count])
        else:
            self.end("ended")
        return count, READ_BYTES

    def _pour(self) -> tuple[int, int]:
        """The same, straight into a blob."""
        incoming, spill = self.incoming, self._owner.buffers.spill
        room = incoming.room()
        wanted = len(room)
        count = self.carrier.receive(room, spill)
        del room  # the blob is the machine's when it is whole
        if not count:
            self.end("ended")
            return 0, wanted
        incoming.filled(min(count, wanted))
        if count > wanted:
            incoming.feed(spill[: count - wanted])
        return count, wanted

    def heralded(self, message: Any) -> None:
        self._owner.heralded(self, message)

    def room_made(self, number: int) -> None:
        """The other side may send what it has offered."""
        self.outgoing.grant(number)
        self._owner.stir(self)

    def granted(self, number: int) -> None:
        if not self.outgoing.granted(number):
            raise FrameError(f"room for stream {number}, which was not offered")
        self._owner.stir(self)

    def refused(self, message: Any, reason: str) -> None:
        self._owner.refused(self, message, reason)

    def said(self, kind: Kind, payload: bytes) -> None:
        """A frame of an open link that is no message."""
        self._heard(self._connection.word(kind, payload))

    def _heard(self, event: Heard) -> None:
        match event:
            case ConnectionOpened():
                self._owner.opened(self, event)
            case ControlFrame(kind) if kind is not Kind.INFORM:
                self._owner.agrees(self, kind)
            case Ended(error):
                self.end(f"goodbye: {error}")

    def say(self, kind: Kind | None = None) -> None:
        """Sends a word without anything in it, and what the connection says of itself."""
        if kind is not None:
            self._connection.speak(kind)
        if self._connection.out:
            self.outgoing.add_frame(self._connection.taken())
            self.flush()

    # --- endings ----------------------------------------------------------------------------------

    def overdue(self, now: Instant) -> SnowmeltError | None:
        """Why the link must end, when it has waited too long for the other side."""
        limits = self._owner.limits
        if self.stage is Stage.GREETING and now - self.began > limits.greeting:
            return FrameError("no greeting came in time")
        if self.incoming.pending and now - self.incoming.heard > limits.stalled:
            return FrameError("nothing came while a large object was on its way")
        unsent = self.outgoing.small_bytes
        if unsent > limits.unsent_bytes + FRAME_BYTES_MAX:  # words have no other limit
            return FrameError("slow reader: it was to be told more than it takes")
        crowded = unsent > limits.unsent_bytes
        if crowded and now - self.taken > limits.stalled:
            return FrameError("slow reader: nothing was taken while too much is unsent")
        if self.blocked and self.outgoing.large and now - self.taken > limits.stalled:
            return FrameError("slow reader: nothing of a large object was taken")
        if self.use.said and now - self.use.since > limits.stalled:
            return FrameError("no word came of whether the link is needed still")
        return None

    def unused(self, now: Instant) -> bool:
        """Whether nothing has passed for so long that this side is to ask whether it ends."""
        use, frames = self.use, self.incoming.frames + self.outgoing.frames
        if frames != use.frames:
            use.frames, use.since = frames, now
        asks = self._peer and use.asks and not (use.said or self.sharing.busy)
        return asks and now - use.since >= self._owner.limits.unused

    @property
    def quiet(self) -> bool:
        """Whether nothing at all is on its way here, nor anything to be sent."""
        return self.incoming.quiet and not self.outgoing.waits

    @property
    def idle(self) -> bool:
        """Whether nothing large is on its way, and nothing waits to be sent."""
        return not (self.incoming.pending or self.outgoing.waits)

    def close(self, error: SnowmeltError | None = None, *, told: bool = True) -> None:
        """Ends the link; the other side is told why, where it can be."""
        if self.stage is Stage.CLOSED:
            return
        if error is not None and self.stage is Stage.GREETING:
            self._owner.last_failure = error
        if error is not None and told:
            self._connection.close(error)
            self.outgoing.add_frame(self._connection.taken())
            if not self.blocked:
                with contextlib.suppress(OSError):
                    self._flush()
        self.end("closed" if error is None else f"{type(error).__name__}: {error}")

    def end(self, reason: str) -> None:
        if self.stage is Stage.CLOSED:
            return
        self.stage = Stage.CLOSED
        self.complete = self.idle
        self.incoming.end()
        self.sharing.end()
        self._owner.closed(self, reason)
        self.socket.close()
        self.outgoing.forget()
