"""Envelopes over TCP: who is connected, who must be dialled, and what is dropped, by reason.

A message may be lost (`core.node`, rule 3), so nothing here is kept for ever: what can't be sent
now waits for one dial at most, within a limit, and is then dropped and counted. Dials that fail
wait longer each time, with jitter, so that a node which is down is not stormed when it comes back.

Between two nodes some words have a connection of their own (`routes.py`). While much of the rest is
unread, clients are heard less; what has its own bounds by itself what is on its way.
"""

import asyncio
from collections.abc import Callable, Iterator
from random import Random
from time import monotonic
from typing import Any, Final

from snowmelt.core.errors import (
    AccessDenied,
    BadOption,
    HandshakeError,
    NodeRefused,
    SnowmeltError,
    Unavailable,
)
from snowmelt.core.names import Address, NodeId, address_of
from snowmelt.core.users import Right, User
from snowmelt.protocols.calling import Call
from snowmelt.runtime import near
from snowmelt.runtime.arriving import Arriving
from snowmelt.runtime.connection import (
    LoopConnection,
    cut,
    has_closed,
    has_ended,
    stream_of,
    tls_of,
)
from snowmelt.runtime.credentials import Credentials, channel_of, check_certificate
from snowmelt.runtime.frame_place import FramePlace
from snowmelt.runtime.handshakes import Entrance
from snowmelt.runtime.hearing import Hearing
from snowmelt.runtime.ledger import Cost, CostLedger, Payer
from snowmelt.runtime.limits import Limits
from snowmelt.runtime.logs import tell
from snowmelt.runtime.routes import Lane, Routes, TargetRoute
from snowmelt.runtime.statistics import Counts
from snowmelt.runtime.unheard import end_unheard
from snowmelt.wire.framing import Kind
from snowmelt.wire.greeting import Gate, Role, Speaker
from snowmelt.wire.sides import ConnectionOpened, Dialling, Listening, Side

FIRST_PAUSE: Final = 0.05
LONGEST_PAUSE: Final = 1.0
WAITING_MAX: Final = 256
INFORM_EVERY: Final = 0.05
"""How this process is takes milliseconds to say; who asks more often is told the same."""
LAST_SECONDS: Final = 0.25
"""How long closing waits for what has not left yet."""

Deliver = Callable[[NodeId, Any], None]


class Transport:
    def __init__(
        self,
        speaker: Speaker,
        credentials: Credentials,
        limits: Limits,
        deliver: Deliver,
        gate: Gate | None = None,
    ) -> None:
        self.me = speaker.name
        self.speaker = speaker
        """Who it is where it dials."""
        self.limits = limits
        self.ledger = ledger_of(limits)
        self.arriving = Arriving[FramePlace](self.ledger)
        self.hearing = Hearing()
        self.entrance = Entrance(limits, self.ledger, credentials)
        self.addresses: dict[NodeId, Address] = {}
        self.contacts: frozenset[NodeId] = frozenset()
        """Whom a person named."""
        self.closed_by = Counts()
        self.dropped = Counts()
        self.connections_total = 0
        self.sent = 0
        self.touched: list[LoopConnection] | None = None
        self.last_failure: Exception | None = None
        self.refused: Callable[[NodeId, SnowmeltError], None] = lambda *_: None
        self.came: Callable[[NodeId, Payer], None] = lambda *_: None
        self.gone: Callable[[NodeId], None] = lambda _: None
        self.lost: Callable[[NodeId], None] = lambda _: None
        self.missed: Callable[[NodeId], None] = lambda _: None
        """Told of whom a client's dial does not reach."""
        self.resumed: Callable[[NodeId], None] = lambda _: None
        self.inform: dict[Kind, Callable[[], bytes]] = {}
        """What an admin may ask of this process, and what answers it."""
        self._informed = (-INFORM_EVERY, b"")
        self._role = speaker.role
        self._gate = gate
        """Whom it lets in; None for a client, which never listens."""
        self._credentials = credentials
        self.deliver = deliver
        self.called: Callable[[LoopConnection, Call[Any]], None] = lambda connection, call: (
            self.deliver(connection.peer, call)
        )
        """Told of a call, and on which connection it came."""
        self.shown: Callable[[User, Any], Any] = lambda _, message: message
        """A message as a user may see it."""
        self._chance = Random()
        self.routes = Routes()
        self._connections: dict[LoopConnection, None] = {}  # in the order they came
        self._clients: dict[NodeId, int] = {}  # how many connections each of them has to this node
        self._dialled: dict[LoopConnection, asyncio.Future[LoopConnection]] = {}

    # --- whole life -------------------------------------------------------------------------------

    async def listen(self, address: Address) -> Address:
        """Accepts connections; returns where (a port of 0 takes a free one)."""
        return await self.entrance.listen(address, lambda: LoopConnection(self, inbound=True))

    def drain(self) -> None:
        """Takes no new connection and no new call; answers still go out."""
        self.entrance.drain()

    @property
    def in_flight(self) -> int:
        """Calls that still wait for their answer, over all connections."""
        return sum(connection.in_flight for connection in self._connections)

    @property
    def unsent(self) -> int:
        """Bytes that have not left this process, over all connections."""
        return sum(connection.unsent for connection in self._connections)

    async def close(self, reason: SnowmeltError | None = None) -> None:
        """Ends all; the others are told why."""
        self.drain()
        every = (route for lane in self.routes.all for route in lane.values())
        dials = [route.dial for route in every if route.dial is not None]
        for dial in dials:
            dial.cancel()
        ending = list(self._connections)
        for connection in ending:
            connection.close(reason)
        try:
            await asyncio.gather(*dials, return_exceptions=True)
            await _have_ended(ending)
        finally:  # also where this is cancelled: no loop that ends now leaves a socket open
            for connection in ending:
                cut(connection)
        await asyncio.sleep(0)

    def connections(self) -> list[LoopConnection]:
        return list(self._connections)

    # --- sending ----------------------------------------------------------------------------------

    def send(self, target: NodeId, message: Any) -> None:
        """Sends, or dials and sends, or drops and counts."""
        lane = self.routes.parted.get(type(message), self.routes.general)
        route = lane.get(target)
        connection = route.connection if route is not None else None
        if connection is not None:
            self.sent += 1
            connection.send(message)
            return
        if self._address(target) is None:
            self.dropped.add("no route")
            return
        if route is None:
            route = lane[target] = TargetRoute()
        if len(route.waiting) >= WAITING_MAX:
            self.dropped.add("too many wait for a dial")
            return
        route.waiting.append(message)
        if route.dial is None:
            route.dial = asyncio.get_running_loop().create_task(self._dial(target, lane))

    def has_room(self, target: NodeId) -> bool:
        """Whether what is sent there now would not wait for what is unsent."""
        route = self.routes.general.get(target)
        connection = route.connection if route is not None else None
        return connection is None or not connection.blocked

    def moving(self) -> Iterator[tuple[NodeId, bool]]:
        """To whom part of a message has left since this was asked, or (true) from whom it came."""
        for connection in self._connections:
            came, left = connection.moved()
            if came or left:
                for name in [connection.peer, *self._aliases(connection)]:
                    yield name, came

    def _address(self, target: NodeId) -> Address | None:
        try:
            return self.addresses.get(target) or address_of(target)
        except BadOption:  # another node said this address
            return None

    async def _dial(self, target: NodeId, lane: Lane) -> None:
        loop, route = asyncio.get_running_loop(), lane[target]
        try:
            await asyncio.sleep(max(0.0, route.not_before - loop.time()))
            address = self._address(target)
            if address is None:
                raise Unavailable(f"{target} has no address any more")
            if target not in self.contacts:
                self._credentials.check_dial(address)
            async with asyncio.timeout(self.limits.dial_seconds):
                connection = await self._connect(target, address)
            if has_closed(connection):  # in the moment in which it was opened
                raise connection.error or Unavailable(f"{target} ended the connection at once")
            if route.failures and route.failures == self.routes.failures(target):
                tell("reached", node=self.me, target=target, after=route.failures)
            route.failures = 0
            self._routed(target, lane, connection)
        except (OSError, SnowmeltError, ValueError, OverflowError) as error:  # or no host at all
            self._failed(target, lane, error)
        finally:
            route.dial = None

    async def _connect(self, target: NodeId, address: Address) -> LoopConnection:
        loop = asyncio.get_running_loop()
        opened: asyncio.Future[LoopConnection] = loop.create_future()

        name = target if address_of(target) is None else None
        connection = LoopConnection(self, inbound=False, target=name)
        self._dialled[connection] = opened
        context = self._credentials.client_context()
        beside = near.reach(address) if context is None else None
        try:
            if beside is not None:
                await loop.create_unix_connection(lambda: connection, sock=beside)
            else:
                await loop.create_connection(
                    lambda: connection,
                    address.host,
                    address.port,
                    ssl=context,
                    server_hostname="" if context else None,
                )
            return await opened
        except asyncio.CancelledError:
            connection.close()
            raise
        finally:
            self._dialled.pop(connection, None)

    def _routed(self, target: NodeId, lane: Lane, connection: LoopConnection) -> None:
        for name in dict.fromkeys((target, connection.peer)):
            route = lane.setdefault(name, TargetRoute())
            if route.connection is None:
                route.connection = connection
        connection.slows = self._role is Role.NODE and lane is self.routes.general
        route = lane[target]
        while route.waiting:
            self.sent += 1
            connection.send(route.waiting.popleft())

    def _failed(self, target: NodeId, lane: Lane, error: Exception) -> None:
        route, self.last_failure = lane[target], error
        again = self.routes.failures(target)
        if self._role is Role.NODE and not again:  # said once, not at every try
            tell("can't reach", node=self.me, target=target, reason=str(error), again="later")
        if isinstance(error, AccessDenied | NodeRefused):
            self.refused(target, error)
        self.dropped.add(f"dial failed: {type(error).__name__}")
        for _ in route.waiting:
            self.dropped.add("its dial failed")
        route.waiting.clear()
        route.failures += 1
        pause = min(FIRST_PAUSE * 2**route.failures, LONGEST_PAUSE) * self._chance.uniform(0.5, 1)
        route.not_before = asyncio.get_running_loop().time() + pause
        if self._role is Role.CLIENT:
            del lane[target]  # its machine has its own waits
            self.missed(target)

    # --- what connections tell --------------------------------------------------------------------

    def side(self, connection: LoopConnection) -> Side:

        def certify(name: NodeId) -> None:
            check_certificate(tls_of(connection), name)

        def channel() -> bytes:
            return channel_of(tls := tls_of(connection), self.entrance.shown(tls))

        if not connection.inbound:
            return Dialling(self.speaker, connection.target, certify, channel)
        assert self._gate is not None
        most = self.limits.frame_bytes
        return Listening(self._gate, self.me, self._role, most, certify, channel)

    def connected(self, connection: LoopConnection) -> None:
        self._connections[connection] = None
        self.connections_total += 1
        if connection.inbound:
            self.entrance.came(connection)

    def opened(self, connection: LoopConnection, opened: ConnectionOpened) -> None:
        """The other side has shown who it is."""
        if self._role is opened.role is Role.NODE:
            end_unheard(stream_of(connection))
        if not connection.inbound:
            dialled = self._dialled.pop(connection)
            if not dialled.done():
                dialled.set_result(connection)
            return
        if not self.entrance.greeted(connection):
            return
        if opened.role is Role.CLIENT:  # a node is answered where it speaks
            name = opened.name
            self._clients[name] = self._clients.get(name, 0) + 1
            if self._clients[name] == 1 and connection.payer is not None:
                self.came(name, connection.payer)
            self.routes.general.setdefault(name, TargetRoute()).connection = connection

    def denied(self, connection: LoopConnection, error: SnowmeltError) -> float:
        """The other side may not come in; so long it waits until it is told."""
        return self.entrance.denied(self.me, connection.host, error)

    def spoke(self, connection: LoopConnection, message: Any) -> None:
        """Whoever spoke last under a name is answered: two processes may claim the same."""
        if connection.inbound:
            lane = self.routes.parted.get(type(message), self.routes.general)
            route = lane.get(connection.peer)
            if route is None:
                route = lane[connection.peer] = TargetRoute()
            if route.connection is not connection:
                route.connection = connection
                connection.slows = lane is self.routes.general

    def inquired(self, connection: LoopConnection, kind: Kind) -> bytes:
        """Who asks how this process is learns who its clients are."""
        if not connection.user.may(Right.ADMIN):
            raise AccessDenied(f"user {connection.user.name!r} needs the right admin for this")
        if kind is not Kind.INQUIRE:
            return self.inform[kind]()
        now = monotonic()
        if now - self._informed[0] > INFORM_EVERY:
            self._informed = now, self.inform[kind]()
        return self._informed[1]

    def unsendable(self, connection: LoopConnection, what: str) -> None:
        """Too large for a frame: it is lost, counted and told."""
        self.dropped.add("too large for a frame")
        tell("can't send", node=self.me, target=connection.peer, reason=what)

    def closed(self, connection: LoopConnection, reason: str) -> None:
        """A connection is gone, and so are the routes through it."""
        self._connections.pop(connection, None)
        self.closed_by.add(reason)
        self.entrance.left(connection)
        opened = self._dialled.pop(connection, None)
        if opened is not None and not opened.done():
            error = connection.error or HandshakeError(f"no welcome, the connection {reason}")
            opened.set_exception(error)
        late = connection.error if connection.role and not connection.inbound else None
        for name in [connection.peer, *self._aliases(connection)]:
            if isinstance(late, AccessDenied | NodeRefused):  # it has not let us in after all
                self.refused(name, late)
            for lane in self.routes.all:
                route = lane.get(name)
                if route is not None and route.connection is connection:
                    route.connection = None
                    if route.dial is None and not route.waiting:
                        del lane[name]
                    self.lost(name)
        if connection.role is Role.CLIENT and connection.payer is not None:
            self._client_closed(connection.peer)
        self.resumed(connection.peer)

    def _client_closed(self, client: NodeId) -> None:
        self._clients[client] -= 1
        if not self._clients[client]:
            del self._clients[client]
            self.gone(client)

    def _aliases(self, connection: LoopConnection) -> list[NodeId]:
        if connection.inbound:
            return []
        return self.routes.names(connection)


def ledger_of(limits: Limits) -> CostLedger:
    """What others may cost a process with these limits."""
    totals = {
        Cost.CONNECTIONS: limits.connections,
        Cost.STRANGERS: limits.strangers,
        Cost.ARRIVING: limits.arriving_bytes,
        Cost.CALLS: limits.call_bytes,
        Cost.ANSWERS: limits.answer_bytes,
    }
    return CostLedger(totals)


async def _have_ended(ending: list[LoopConnection]) -> None:
    """Waits a while until all that was sent has left: some side may never read it."""
    end = monotonic() + LAST_SECONDS
    await asyncio.sleep(0)
    while not all(has_ended(one) for one in ending) and monotonic() < end:
        await asyncio.sleep(LAST_SECONDS / 50)
