"""Where others connect to this process: who listens, who may come in, and who pays for it."""

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from time import monotonic
from typing import Final

from snowmelt.core.errors import HandshakeError, SnowmeltError, Unavailable
from snowmelt.core.names import Address, NodeId
from snowmelt.runtime import near
from snowmelt.runtime.connection import LoopConnection
from snowmelt.runtime.credentials import Credentials
from snowmelt.runtime.handshakes import Knock, TlsListener
from snowmelt.runtime.ledger import NOBODY, Cost, CostLedger, payer_of
from snowmelt.runtime.limits import Limits
from snowmelt.runtime.logs import tell
from snowmelt.runtime.purse import Purse
from snowmelt.wire.greeting import Role

BACKLOG: Final = 1024
CONTEXTS_MAX: Final = 8
"""Of TLS, by which handshakes may still be under way."""
CROWDED: Final = "this node has too many connections"


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
