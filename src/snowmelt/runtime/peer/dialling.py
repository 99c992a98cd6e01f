"""Making connections, and greeting, in threads of their own.

A dial waits: for a name to be looked up, for the other side to answer, for a handshake of TLS. So
it is done aside, in plain blocking steps with one limit, by a few short-lived threads; what comes
of it is handed over. They are daemons: a program that ends does not wait for a dial.
"""

import contextlib
import encodings.idna  # noqa: F401 - else a dial loads it, and a fork meanwhile never can
import socket
import ssl
import threading
from collections import deque
from collections.abc import Callable, Iterator
from time import monotonic
from typing import Final

import msgspec

from snowmelt.core.errors import HandshakeError, SnowmeltError, Unavailable
from snowmelt.core.names import Address, NodeId
from snowmelt.runtime import near
from snowmelt.runtime.credentials import channel_of, check_certificate
from snowmelt.runtime.peer.config import PeerConfig
from snowmelt.runtime.peer.limits import FRAME_BYTES_MAX
from snowmelt.runtime.peer.protection import Protection, why
from snowmelt.wire.connection import Connection, Ended
from snowmelt.wire.greeting import Role, Speaker
from snowmelt.wire.sides import ConnectionOpened, Dialling, Side

KEEPALIVE: Final = (("TCP_KEEPIDLE", 10), ("TCP_KEEPINTVL", 3), ("TCP_KEEPCNT", 3))
UNACKNOWLEDGED_MS: Final = 10_000


class DialledPeer(msgspec.Struct, frozen=True):
    target: NodeId
    stream: socket.socket
    connection: Connection
    opened: ConnectionOpened


class Missed(msgspec.Struct, frozen=True):
    target: NodeId
    error: Exception


class Outcomes:
    """What dials have brought, handed over by their threads."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._row: deque[DialledPeer | Missed] = deque()
        self._over = False

    def add(self, outcome: DialledPeer | Missed) -> None:
        self._row.append(outcome)
        if self._over:
            self.end()
        else:
            self._wake()

    def __iter__(self) -> Iterator[DialledPeer | Missed]:
        with contextlib.suppress(IndexError):  # two threads may do it at once, at the end
            while True:
                yield self._row.popleft()

    def end(self) -> None:
        """Nobody takes them over any more."""
        self._over = True
        for outcome in self:
            if not isinstance(outcome, Missed):
                outcome.stream.close()


class Dialler:
    """Dials, a few at a time, in the order asked."""

    def __init__(
        self,
        config: PeerConfig,
        protection: Protection,
        done: Callable[[DialledPeer | Missed], None],
    ) -> None:
        self._config = config
        self._protection = protection
        self._limits = config.limits
        self._done = done
        self._lock = threading.Lock()
        self._wanted: deque[tuple[NodeId, Address, Role, bytes]] = deque()
        self._threads = 0
        self._open: dict[int, socket.socket] = {}  # by the thread that greets there

    def dial(self, target: NodeId, address: Address, role: Role, after: bytes = b"") -> None:
        """Will say `DialledPeer` or `Missed` for this target, in another thread.

        `after` is the nonce of the last link with it that has ended here.
        """
        with self._lock:
            self._wanted.append((target, address, role, after))
            if self._threads >= self._limits.dials:
                return
            self._threads += 1
        threading.Thread(target=self._run, name="snowmelt-pool-dial", daemon=True).start()

    def stop(self) -> None:
        with self._lock:
            self._wanted.clear()

    def forsake(self) -> None:
        """For a child after a fork: closes its copies."""
        for stream in self._open.values():
            stream.close()

    def _run(self) -> None:
        while True:
            with self._lock:
                if not self._wanted:
                    self._threads -= 1
                    return
                target, address, role, after = self._wanted.popleft()
            try:
                outcome: DialledPeer | Missed = self._reach(target, address, role, after)
            except (OSError, SnowmeltError, ValueError, OverflowError) as error:
                outcome = Missed(target, error)
            self._done(outcome)
            self._open.pop(threading.get_ident(), None)

    def _reach(self, target: NodeId, address: Address, role: Role, after: bytes) -> DialledPeer:
        deadline = monotonic() + self._limits.dial_seconds
        config = self._config
        if role is Role.CLIENT and target not in config.contacts:
            config.credentials.check_dial(address)
        stream = self._stream(address, role)
        self._open[threading.get_ident()] = stream
        try:
            set_options(stream)
            if role is Role.PEER:
                stream, channel = self._protection.wrap_dialled(stream, deadline)
                side = Dialling(self._as(role), target, channel=lambda: channel, after=after)
                connection = Connection(side, FRAME_BYTES_MAX)
            else:
                stream = self._wrap_for_node(stream, deadline)
                connection = Connection(self._as_client(stream))
            self._open[threading.get_ident()] = stream
            reached = DialledPeer(
                target, stream, connection, _greeted(stream, connection, deadline)
            )
            stream.setblocking(False)
        except BaseException as error:
            stream.close()
            if isinstance(error, ssl.SSLError):
                raise HandshakeError(f"TLS with {target} failed: {why(error)}") from error
            raise
        return reached

    def _stream(self, address: Address, role: Role) -> socket.socket:
        if role is Role.PEER or not self._config.credentials.encrypted:
            stream = near.reach(address)
            if stream is not None:
                return stream
        return socket.create_connection((address.host, address.port), self._limits.dial_seconds)

    def _as(self, role: Role) -> Speaker:
        """What it says to nodes, or to another process: to that it does not give its key."""
        config = self._config
        key = config.key if role is Role.CLIENT else b""
        return config.credentials.speaker(config.cluster, config.name, role, config.known, key)

    def _as_client(self, stream: socket.socket) -> Side:
        tls = stream if isinstance(stream, ssl.SSLSocket) else None
        return Dialling(
            self._as(Role.CLIENT),
            certify=lambda name: check_certificate(tls, name),
            channel=lambda: channel_of(tls),
        )

    def _wrap_for_node(self, stream: socket.socket, deadline: float) -> socket.socket:
        context = self._config.credentials.client_context()
        if context is None:
            return stream
        stream.settimeout(max(0.001, deadline - monotonic()))
        return context.wrap_socket(stream)


def _greeted(stream: socket.socket, connection: Connection, deadline: float) -> ConnectionOpened:
    """Reads the greeting, and not a byte more: what follows is the link's."""
    stream.sendall(connection.taken())
    while True:
        stream.settimeout(max(0.001, deadline - monotonic()))
        data = stream.recv(connection.missing)
        if not data:
            raise Unavailable("it closed the connection without a word")
        for event in connection.receive(data):
            if type(event) is Ended:
                raise event.error
            assert type(event) is ConnectionOpened
            stream.sendall(connection.taken())
            return event


def set_options(stream: socket.socket) -> None:
    """No delay for small messages, room for large ones, and an end when the other side is gone."""
    if near.is_near(stream):  # the system itself sees that end
        near.make_room(stream)
        return
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (*KEEPALIVE, ("TCP_USER_TIMEOUT", UNACKNOWLEDGED_MS)):
        if hasattr(socket, option):  # not every system has all
            stream.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
