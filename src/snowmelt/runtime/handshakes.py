"""TLS with those who connect: begun once they speak, in turn by host, so many in a second.

A handshake costs milliseconds of the processor, and who asks for it has shown nothing yet. So a
flood of them must not keep a node from its work.

1. Who connects is a stranger from the first moment (`purse.py`). Who says nothing costs no more
   than its place there.
2. Who says its first byte waits in line. Hosts have their turn one after the other, so that many
   from one host do not hold up one from another.
3. So many handshakes begin in a second, a few of them at once.
"""

import asyncio
import contextlib
import logging
import socket
import ssl
from collections import OrderedDict, deque
from collections.abc import Callable
from time import monotonic
from typing import Any, Final

from snowmelt.core.errors import HandshakeError, SnowmeltError, Unavailable
from snowmelt.core.names import Address, NodeId
from snowmelt.runtime import near
from snowmelt.runtime.connection import LoopConnection
from snowmelt.runtime.credentials import Credentials
from snowmelt.runtime.deadline import Deadline
from snowmelt.runtime.ledger import NOBODY, Cost, CostLedger, payer_of
from snowmelt.runtime.limits import Limits
from snowmelt.runtime.logs import tell
from snowmelt.runtime.purse import Purse, host_of
from snowmelt.wire.greeting import Role

AT_ONCE: Final = 4
ACCEPTED_MAX: Final = 64
"""In one turn of the loop."""
PAUSE_SECONDS: Final = 1.0
"""Where nothing can be accepted: no descriptor is left."""
BACKLOG: Final = 1024
CONTEXTS_MAX: Final = 8
"""Of TLS, by which handshakes may still be under way."""
CROWDED: Final = "this node has too many connections"


class Knock:
    """A connection before its handshake."""

    __slots__ = ("_ended", "deadline", "handshake", "host", "stream")

    def __init__(self, stream: socket.socket, host: str, ended: "Callable[[Knock], None]") -> None:
        self.stream = stream
        self.host = host
        self.deadline = Deadline()
        self.handshake: asyncio.Task[None] | None = None
        """Once it has begun; the stream is the loop's then."""
        self._ended = ended

    def close(self, error: SnowmeltError | None = None) -> None:
        """Nobody is let in; it is not said why, since there is no TLS to say it in."""
        del error
        self._ended(self)


class TlsListener:
    """Accepts at one address."""

    def __init__(
        self,
        context: ssl.SSLContext,
        limits: Limits,
        purse: Purse[Any],
        accepted: Callable[[], asyncio.Protocol],
    ) -> None:
        self.sockets: list[socket.socket] = []
        self._context = context
        self._limits = limits
        self._purse = purse
        self._accepted = accepted
        self._silent: dict[Knock, None] = {}
        self._lines: OrderedDict[str, deque[Knock]] = OrderedDict()
        """Who has spoken and waits, by host: the first is whose turn it is."""
        self._under_way: dict[Knock, None] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._next = 0.0
        self._timer: asyncio.TimerHandle | None = None

    async def listen(self, host: str, port: int, backlog: int) -> None:
        """Begins; at all addresses of a name."""
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, kind, protocol, _, address in dict.fromkeys(found):
            stream = socket.socket(family, kind, protocol)
            self.sockets.append(stream)
            stream.setblocking(False)
            stream.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                stream.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            try:
                stream.bind(address)
            except OSError:
                self.close()
                raise
            stream.listen(backlog)
            loop.add_reader(stream, self._accept, stream)

    def close(self) -> None:
        """Accepts nobody any more, and lets nobody in who waits."""
        loop = asyncio.get_running_loop()
        if self._timer is not None:
            self._timer.cancel()
        while self.sockets:
            stream = self.sockets.pop()
            loop.remove_reader(stream)
            stream.close()
        waiting = [one for line in self._lines.values() for one in line]
        for knock in [*self._silent, *waiting, *self._under_way]:
            self._gone(knock)

    # --- who comes --------------------------------------------------------------------------------

    def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        for _ in range(ACCEPTED_MAX):
            try:
                stream, peer = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError:
                loop.remove_reader(listening)
                loop.call_later(PAUSE_SECONDS, self._accept_again, listening)
                return
            stream.setblocking(False)
            knock = Knock(stream, host_of(peer), self._gone)
            oldest = self._purse.enter(knock, knock.host)
            if oldest is not None:
                oldest.close(HandshakeError("others came, and this one has not greeted"))
            self._silent[knock] = None
            knock.deadline.set(self._limits.greeting_seconds, knock.close)
            loop.add_reader(stream, self._spoke, knock)

    def _accept_again(self, listening: socket.socket) -> None:
        if listening.fileno() >= 0:
            asyncio.get_running_loop().add_reader(listening, self._accept, listening)

    def _gone(self, knock: Knock) -> None:
        """It is not let in: others came, or it said nothing for long."""
        self._purse.leave(knock)
        if knock.handshake is not None:
            knock.handshake.cancel()
            return
        line = self._lines.get(knock.host)
        if line is not None and knock in line:
            line.remove(knock)
            if not line:
                del self._lines[knock.host]
        self._silent.pop(knock, None)
        knock.deadline.cancel()
        asyncio.get_running_loop().remove_reader(knock.stream)
        knock.stream.close()

    # --- who speaks -------------------------------------------------------------------------------

    def _spoke(self, knock: Knock) -> None:
        asyncio.get_running_loop().remove_reader(knock.stream)
        self._silent.pop(knock, None)
        self._lines.setdefault(knock.host, deque()).append(knock)
        self._begin_some()

    def _begin_some(self) -> None:
        loop = asyncio.get_running_loop()
        now, each = loop.time(), 1 / self._limits.handshakes
        self._next = max(self._next, now - AT_ONCE * each)
        while self._lines and self._next <= now:
            self._next += each
            host, line = next(iter(self._lines.items()))
            knock = line.popleft()
            if line:
                self._lines.move_to_end(host)
            else:
                del self._lines[host]
            knock.deadline.cancel()
            self._tasks.add(task := loop.create_task(self._shake(knock)))
            task.add_done_callback(self._tasks.discard)
        if self._lines and self._timer is None:
            self._timer = loop.call_at(self._next, self._begin_later)

    def _begin_later(self) -> None:
        self._timer = None
        self._begin_some()

    async def _shake(self, knock: Knock) -> None:
        if knock.stream.fileno() < 0:  # it went before this began
            return
        knock.handshake = asyncio.current_task()
        self._under_way[knock] = None
        try:
            with contextlib.suppress(OSError):  # also what TLS raises
                await asyncio.get_running_loop().connect_accepted_socket(
                    self._accepted,
                    knock.stream,
                    ssl=self._context,
                    ssl_handshake_timeout=self._limits.greeting_seconds,
                )
        finally:
            self._purse.leave(knock)
            del self._under_way[knock]


def apart(
    context: ssl.SSLContext, most: int, seconds: float, accepted: Callable[[], asyncio.Protocol]
) -> TlsListener:
    """With a purse of its own: so many may be about to begin, for so long."""
    purse = Purse[Knock](CostLedger({Cost.STRANGERS: most}))
    return TlsListener(context, Limits(greeting_seconds=seconds), purse, accepted)


class Entrance:
    """Of one transport; who comes in by it has an account in the ledger."""

    def __init__(self, limits: Limits, ledger: CostLedger, credentials: Credentials) -> None:
        self.draining = False
        self._context: ssl.SSLContext | None = None
        self._shown: dict[ssl.SSLContext, bytes] = {}
        """The digest of the certificate that is shown by each."""
        self._limits = limits
        self._ledger = ledger
        self._credentials = credentials
        self._purse = Purse[LoopConnection | Knock](ledger)
        self._servers: list[asyncio.Server | TlsListener] = []

    async def listen(self, address: Address, accepted: Callable[[], LoopConnection]) -> Address:
        """Accepts connections; returns where (a port of 0 takes a free one)."""
        self._credentials.check_listen(address)
        loop = asyncio.get_running_loop()
        self.renew_tls()
        context = self._context
        server: asyncio.Server | TlsListener
        if context is None:
            server = await loop.create_server(accepted, address.host, address.port, backlog=BACKLOG)
        else:
            server = TlsListener(context, self._limits, self._purse, accepted)
            await server.listen(address.host, address.port, BACKLOG)
        self._servers.append(server)
        for one in server.sockets:  # whoever is accepted inherits it; who vanished is missed
            one.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        host, port = server.sockets[0].getsockname()[:2]
        listening = Address(host if address.host != "localhost" else "localhost", port)
        beside = near.listen(listening, BACKLOG) if context is None else None
        if beside is not None:
            self._servers.append(await loop.create_unix_server(accepted, sock=beside))
        return listening

    def renew_tls(self) -> None:
        """Reads the files of TLS; whoever comes from now on is shown what is in them."""
        context = self._credentials.server_context()
        if context is None:
            return
        while len(self._shown) >= CONTEXTS_MAX:
            del self._shown[next(iter(self._shown))]
        self._shown[context] = self._credentials.shown
        self._context = context
        context.sni_callback = self._pick

    def _pick(self, tls: ssl.SSLObject, name: str | None, asked: ssl.SSLContext) -> None:
        """A handshake begins, by the files that were there when this process began to listen."""
        del name, asked
        assert self._context is not None
        tls.context = self._context

    def shown(self, tls: ssl.SSLObject | None) -> bytes:
        """The digest of the certificate that was shown to whoever came by this."""
        return b"" if tls is None else self._shown.get(tls.context, b"")

    def drain(self) -> None:
        """Nobody comes in any more."""
        self.draining = True
        for server in self._servers:
            server.close()

    def came(self, connection: LoopConnection) -> None:
        """A stranger is there."""
        if self.draining:
            connection.close(Unavailable("this node is stopping"))
        elif self._ledger.used(Cost.CONNECTIONS) >= self._limits.connections:
            self._ledger.refuse(Cost.CONNECTIONS)
            connection.close(Unavailable(CROWDED))
        else:
            oldest = self._purse.enter(connection, connection.host)
            if oldest is not None:
                oldest.close(HandshakeError("others came, and this one has not greeted"))

    def greeted(self, connection: LoopConnection) -> bool:
        """It has shown who it is; whether it may stay."""
        self._purse.leave(connection)
        if connection.role is Role.NODE:  # there are few, and the cluster needs them
            connection.payer = NOBODY
            self._ledger.charge(Cost.CONNECTIONS, NOBODY)
            return True
        payer = payer_of(connection.user, connection.host, connection.peer)
        if self._ledger.take(Cost.CONNECTIONS, payer):
            connection.payer = payer
            return True
        connection.close(Unavailable(CROWDED))
        return False

    def left(self, connection: LoopConnection) -> None:
        """It is gone, and costs nothing more."""
        self._purse.leave(connection)
        if connection.payer is not None:
            self._ledger.give(Cost.CONNECTIONS, connection.payer)

    def denied(self, me: NodeId, host: str, error: SnowmeltError) -> float:
        """Somebody may not come in; so many seconds pass until it is said."""
        now = monotonic()
        count = self._purse.logs(host, now)
        if count:
            tell("refused", logging.WARNING, node=me, host=host, reason=error, times=count)
        return self._purse.pause(host, now)
