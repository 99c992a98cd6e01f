"""A whole process: disk, machines, network and signals, put together and taken down in order."""

import asyncio
import logging
import signal
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import partial
from itertools import count
from pathlib import Path
from random import SystemRandom
from time import monotonic, time
from typing import Any, Final

import msgspec

from snowmelt.core.errors import MachineCrashed, SnowmeltError, Unavailable
from snowmelt.core.instant import seconds
from snowmelt.core.names import Address, NodeId, OperationId, contact
from snowmelt.core.node import Announce, Announced, Halt, Note, Reply, Requested
from snowmelt.core.shown import repr_without
from snowmelt.core.version import VERSION
from snowmelt.protocols import baton, echo, membership, multicast, queue
from snowmelt.protocols.baton import BatonSettings
from snowmelt.protocols.calling import Came, Declined, Gone
from snowmelt.protocols.etcd import ETCD
from snowmelt.protocols.host import Family, Host
from snowmelt.protocols.membership import (
    CutOff,
    Depart,
    Departed,
    Identity,
    MembershipSettings,
    Severed,
    View,
)
from snowmelt.protocols.membership.view import OTHER_CLUSTER, identity_of
from snowmelt.protocols.multicast import MulticastSettings
from snowmelt.protocols.pool import introductions
from snowmelt.protocols.pool.introducer import Introducer
from snowmelt.protocols.queue import QueueNode
from snowmelt.runtime.accounts import NodeAccounts
from snowmelt.runtime.connection import gathered
from snowmelt.runtime.credentials import Credentials
from snowmelt.runtime.door import Door
from snowmelt.runtime.driver import Driver
from snowmelt.runtime.etcd import EtcdClient, EtcdPlace
from snowmelt.runtime.folders import check_node
from snowmelt.runtime.http.pages import Pages, Site, SiteContext
from snowmelt.runtime.http.serving import HttpServer
from snowmelt.runtime.ledger import Payer
from snowmelt.runtime.limits import Limits, raise_open_files
from snowmelt.runtime.logs import tell
from snowmelt.runtime.loops import new_loop
from snowmelt.runtime.memory import GarbageLooks, MemoryAlarm, of_machine
from snowmelt.runtime.signals import BorrowedSignals
from snowmelt.runtime.slow_client_cutoff import SlowClientCutoff
from snowmelt.runtime.statistics import NodeStatistics, Reloaded
from snowmelt.runtime.transport import Transport
from snowmelt.store import Store
from snowmelt.store.folder import others_may_look
from snowmelt.wire.framing import Kind
from snowmelt.wire.greeting import KnownCluster, as_error
from snowmelt.wire.rights import as_seen

FIRST: Final = 1_000
"""Numbers below are of calls of other kinds (`server.Server.stop`)."""
SWITCH_SECONDS: Final = 0.0005
"""A tenth of what is usual."""
HANDS_OVER: Final = 0.4
"""Of the time to drain, how much may pass until what only this node has is elsewhere."""


class Inquiries:
    """Of one process, on its event loop."""

    def __init__(self, me: NodeId, handle: Callable[[Requested[Any]], None]) -> None:
        self._me = me
        self._handle = handle
        self._numbers = count(FIRST)
        self._open: dict[int, asyncio.Future[Any]] = {}

    async def ask(self, request: Any) -> Any:
        """What is answered. Nobody waits without end: it is asked within a time."""
        number = next(self._numbers)
        answer = self._open[number] = asyncio.get_running_loop().create_future()
        try:
            self._handle(Requested(OperationId(self._me, number), request))
            return await answer
        finally:
            del self._open[number]

    def replied(self, effect: Reply[Any]) -> bool:
        """An answer came; whether it is to one of these."""
        answer = self._open.get(effect.operation.number)
        if answer is None or effect.operation.client != self._me:
            return effect.operation.number >= FIRST  # nobody waits for it any more
        if not answer.done():
            answer.set_result(effect.message)
        return True


class NodeConfig(msgspec.Struct, frozen=True, kw_only=True):
    """All that a person chooses for one node."""

    id: NodeId
    listen: Address
    data: Path
    join: tuple[Address, ...] = ()
    advertise: Address | None = None
    cluster: str = "snowmelt"
    credentials: Credentials = Credentials()
    settings: MembershipSettings = MembershipSettings()
    baton: BatonSettings = BatonSettings()
    limits: Limits = Limits()
    flush: bool = True
    etcd: EtcdPlace | None = None
    """Where views are decided; None for the disk of whoever founded the cluster."""
    http: Address | None = None
    """Where metrics and probes are shown; None for nowhere."""
    http_token: str = ""
    """What whoever asks for metrics must show."""
    site: Callable[[SiteContext], Site] | None = None
    """Makes what else is shown there."""

    def __repr__(self) -> str:
        return repr_without(self, "http_token")


class Server:
    """One node of a cluster, as a process."""

    def __init__(self, config: NodeConfig) -> None:
        self.config = config
        self.view: View | None = None
        self.current = False
        self.failure: SnowmeltError | None = None
        self._began = monotonic()
        self._notes = 0
        self._stopping = asyncio.Event()
        self._departed = asyncio.Event()
        self._store: Store | None = None
        self._queues: QueueNode | None = None
        self._driver: Driver | None = None
        self._transport: Transport | None = None
        self._etcd: EtcdClient | None = None
        self._severing: SlowClientCutoff | None = None
        self._known = KnownCluster("this disk", OTHER_CLUSTER)
        self._memory = MemoryAlarm(config.id, int(config.limits.memory_share * of_machine()))
        self._door: Door | None = None
        self._accounts: NodeAccounts | None = None
        self._inquiries: Inquiries | None = None
        self._http: HttpServer | None = None
        self._site: Site | None = None
        self.http_at: Address | None = None

    # --- life -------------------------------------------------------------------------------------

    async def start(self) -> Address:
        """Opens the disk, listens, and wakes the machines; returns where it listens."""
        config = self.config
        shown = config.credentials
        accounts = self._accounts = NodeAccounts(config.id, config.cluster, shown, self._known)
        transport = self._transport = Transport(
            accounts.speaker, shown, config.limits, _too_early, accounts.gate
        )
        transport.contacts = frozenset(map(contact, config.join))
        config.credentials.check_listen(config.listen)
        if config.http is not None:
            config.credentials.check_http(config.http, config.http_token)
        store, self._known.identity = await asyncio.to_thread(_opened, config)
        self._store = store
        if others_may_look(config.data):
            text = "others may look into this node's folder; its files are its own"
            tell(text, logging.WARNING, node=config.id, data=str(config.data))
        try:
            listening = await transport.listen(config.listen)
        except OSError as error:
            store.close()
            text = f"can't listen on {config.listen}: {error.strerror}"
            raise Unavailable(text) from error
        except SnowmeltError:
            store.close()
            raise
        transport.inform = {
            Kind.INQUIRE: lambda: msgspec.json.encode(self.statistics()),
            Kind.RELOAD: lambda: msgspec.json.encode(Reloaded(accounts.read_again(transport))),
        }
        transport.refused = self._refused
        severing = self._severing = SlowClientCutoff(
            lambda: transport.addresses,
            lambda: {one.peer for one in transport.connections()},
            self._severed,
        )
        families = self._families(config.advertise or listening)
        assert self._queues is not None
        homes = self._queues.home_of
        host, on_disk = Host(config.id, families), config.etcd is None
        driver = self._driver = Driver(host, self._way_out(transport), self, store)
        self._driver.gathered = partial(gathered, transport)
        self._driver.has_room, transport.resumed = transport.has_room, self._driver.resumed
        transport.routes.part(membership.BETWEEN_NODES)
        transport.routes.part(queue.MESSAGES)
        transport.hearing.behind = lambda: driver.behind
        door = self._door = Door(
            config.id,
            transport.dropped,
            self._driver.received,
            homes,
            on_disk=on_disk,
            memory=self._memory,
        )
        self._memory.begin()
        transport.deliver, transport.called = door.heard, door.called
        transport.shown = as_seen
        transport.came, transport.gone = self._came, self._gone
        transport.lost = severing.lost
        tell("listening", node=config.id, address=str(listening), data=str(config.data))
        self._inquiries = Inquiries(config.id, self._driver.handle)
        self._driver.start()
        if config.http is not None:
            await self._show(config.http, listening)
        return listening

    async def _show(self, address: Address, listening: Address) -> None:
        """Metrics, probes and the site, over HTTP."""
        config, accounts, door = self.config, self._accounts, self._door
        assert self._inquiries is not None
        assert door is not None
        assert accounts is not None
        pages = Pages(self, self._inquiries.ask, config.limits.metric_queues)
        routes, ask = dict(pages.routes), self._inquiries.ask
        if config.site is not None:
            inside = SiteContext(
                config.id,
                listening,
                address,
                config.cluster,
                lambda: accounts.shown,
                ask,
                config.http_token,
                lambda: accounts.gate.accounts,
                door.allowed,
            )
            self._site = config.site(inside)
            routes |= self._site.routes
        tls = config.credentials.web_context(address)
        self._http = HttpServer(routes, config.http_token, tls)
        try:
            self.http_at = await self._http.listen(address)
        except Unavailable as error:
            self._fail(error)
            return
        if self._site is not None:
            self._site.begin()
        tell("shows metrics", node=config.id, address=str(self.http_at))

    def _families(self, address: Address) -> list[Family]:
        config = self.config
        etcd = config.etcd is not None
        identity = Identity(
            id=config.id,
            address=address,
            contacts=tuple(contact(one) for one in config.join if one != address),
        )
        named = config.cluster if etcd else ""
        member = membership.MembershipNode(
            identity, config.settings, SystemRandom(), named, hands_over=True
        )
        drawn = SystemRandom()
        queues = self._queues = QueueNode(config.id, drawn, on_disk=not etcd, secrets=drawn)
        introducer = Introducer(config.id, SystemRandom())
        return [
            Family("membership", member, membership.HEARD),
            Family("fifo", queues, queue.MESSAGES, fenced=True),
            Family("pool", introducer, introductions.MESSAGES, fenced=True),
            *baton.families(config.id, config.baton, SystemRandom(), etcd=etcd),
            multicast.family(config.id, MulticastSettings(), SystemRandom()),
            Family("echo", echo.EchoNode(), echo.MESSAGES),
        ]

    def _way_out(self, transport: Transport) -> Callable[[NodeId, Any], None]:
        """Where messages go: to other nodes, and where etcd decides, to etcd."""
        if self.config.etcd is None:
            return transport.send
        client = self._etcd = EtcdClient(self.config.etcd, self._told_by_etcd)

        def send(target: NodeId, message: Any) -> None:
            if target == ETCD:
                client.ask(message)
            else:
                transport.send(target, message)

        return send

    def _told_by_etcd(self, source: NodeId, answer: Any) -> None:
        assert self._driver is not None
        self._driver.received(source, answer)

    async def stop(self, *, depart: bool = True) -> None:
        """Drains: leaves the cluster in order, answers what was asked, ends the connections."""
        driver, transport = self._driver, self._transport
        assert driver is not None
        assert transport is not None
        tell("draining", node=self.config.id, in_flight=transport.in_flight)
        transport.drain()
        if self._severing is not None:
            self._severing.stop()
        limit = self.config.limits.drain_seconds
        if depart and self.current:
            leaves = Depart(seconds(limit * HANDS_OVER))
            driver.handle(Requested(OperationId(self.config.id, 1), leaves))
            await _within(limit / 2, self._departed.is_set)
        if self.failure is None:  # else nobody is there who could answer what is in flight
            await _within(
                limit / 2,
                lambda: not (transport.in_flight or driver.persisting or transport.unsent),
            )
        if self._http is not None:
            await self._http.close()
        if self._site is not None:
            await self._site.close()
        self._memory.end()
        await transport.close(Unavailable("this node is stopping"))
        await asyncio.to_thread(driver.stop, limit)
        if self._etcd is not None:
            await self._etcd.close()
        assert self._store is not None
        self._store.close()
        tell("stopped", node=self.config.id, seconds=round(monotonic() - self._began, 3))

    def kill(self) -> None:
        """Asks a running `serve` to stop."""
        self._stopping.set()

    async def serve(self, ready: Callable[[Address], None] | None = None) -> None:
        """Runs until a signal, `kill` or a refusal; raises what made it stop."""
        loop = asyncio.get_running_loop()
        listening = await self.start()
        with (
            BorrowedSignals(lambda _: loop.call_soon_threadsafe(self._stopping.set)),
            self._reads_again(loop),
        ):
            if ready is not None:
                ready(listening)
            await self._stopping.wait()
            await self.stop(depart=self.failure is None)
        if self.failure is not None:
            raise self.failure

    def _reads_again(self, loop: asyncio.AbstractEventLoop) -> AbstractContextManager[object]:
        """On SIGHUP, where there are users or files of TLS; else a closed terminal ends a node."""
        shown = self.config.credentials
        if shown.users is None and not shown.encrypted:
            return nullcontext()
        return BorrowedSignals(lambda _: loop.call_soon_threadsafe(self._reload), signal.SIGHUP)

    def _reload(self) -> None:
        """Reads users and files of TLS again; what does not read is logged."""
        assert self._transport is not None
        assert self._accounts is not None
        with suppress(SnowmeltError):
            self._accounts.read_again(self._transport)

    # --- what the driver tells --------------------------------------------------------------------

    def announced(self, effect: Announce) -> None:
        match effect.fact:
            case View() as view:
                self.view, self.current = view, True
                self._known.identity = view.identity
                assert self._driver is not None
                self._driver.alone = len(view.members) == 1 and self._etcd is None
                assert self._transport is not None
                self._transport.addresses = {one.id: one.address for one in view.members}
                members = [one.id for one in view.members]
                assert self._door is not None
                self._door.viewed(view)
                tell("view", node=self.config.id, epoch=view.epoch, members=members)
            case CutOff(epoch):
                self.current = False
                tell("cut off", node=self.config.id, epoch=epoch)
            case _:
                pass

    def noted(self, effect: Note) -> None:
        self._notes += 1
        tell(effect.text, node=self.config.id)

    def replied(self, effect: Reply[Any]) -> None:
        """The answer to `Depart`, or to an inquiry."""
        if self._inquiries is not None and self._inquiries.replied(effect):
            return
        if isinstance(effect.message, Declined):
            tell("stops without leaving", node=self.config.id, reason=effect.message.text)
        if isinstance(effect.message, Departed | Declined):
            self._departed.set()

    def halted(self, effect: Halt) -> None:
        fields = {"node": self.config.id, "error": effect.error, "reason": effect.reason}
        tell("halted", logging.CRITICAL, **fields)
        self._fail(as_error(effect.error, effect.reason))

    def crashed(self, error: BaseException) -> None:
        """A bug: the disk is sound, the memory is not; end, and let a supervisor start again."""
        tell("a machine crashed", logging.CRITICAL, error, node=self.config.id)
        self._fail(MachineCrashed(f"a machine of {self.config.id} raised {error!r}; see the log"))

    def _refused(self, _: NodeId, error: SnowmeltError) -> None:
        """A node that was never let in and is refused at the door has nothing to wait for."""
        if self.view is None:
            self._fail(error)

    def _came(self, client: NodeId, payer: Payer) -> None:
        assert self._driver is not None
        self._driver.handle(Announced(Came(client, payer.owner)))

    def _gone(self, client: NodeId) -> None:
        """What waits for this client need not."""
        assert self._driver is not None
        self._driver.handle(Announced(Gone(client)))

    def _severed(self, node: NodeId) -> None:
        if self.view is not None and node != self.config.id and self._driver is not None:
            self._driver.handle(Announced(Severed(node)))

    def _fail(self, error: SnowmeltError) -> None:
        self.failure = error
        self._stopping.set()

    @property
    def stopping(self) -> bool:
        """Whether it is about to end."""
        return self._stopping.is_set()

    @property
    def lives(self) -> bool:
        return self._driver is not None and not self._driver.stopped

    def statistics(self) -> NodeStatistics:
        assert self._driver is not None
        assert self._transport is not None
        assert self._store is not None
        assert self._door is not None
        assert self._queues is not None
        transport = self._transport
        return NodeStatistics(
            node=self.config.id,
            seconds=round(monotonic() - self._began, 3),
            events=self._driver.events,
            notes=self._notes,
            flush_waits=self._driver.persisting,
            connections=tuple(one.statistics() for one in transport.connections()[:1000]),
            connections_total=transport.connections_total,
            closed=transport.closed_by.read(),
            dropped=transport.dropped.read(),
            refused=self._door.refused.read(),
            costs={**transport.ledger.summary(), "memory_bytes": self._memory.summary()},
            arriving_waits=transport.arriving.waiting,
            store=msgspec.structs.asdict(self._store.statistics()),
            etcd_asked=0 if self._etcd is None else self._etcd.asked,
            longest_turn=round(self._driver.turns.longest, 4),
            longest_turn_cpu=round(self._driver.turns.longest_cpu, 4),
            longest_turn_event=self._driver.turns.longest_event,
            version=VERSION,
            clock=time(),
            drained=self._queues.drained,
        )


def _opened(config: NodeConfig) -> tuple[Store, str]:
    store = Store.open(config.data, flush=config.flush)
    try:
        found = check_node(config.data, store)
    except BaseException:
        store.close()
        raise
    return store, identity_of(found.cluster) if found.cluster else ""


def _too_early(source: NodeId, message: Any) -> None:
    """Takes what comes before the machines are awake: lost, as the network may lose anything."""
    del source, message


async def _within(seconds: float, done: Callable[[], bool]) -> None:
    """Waits until something is so, but no longer than this."""
    end = monotonic() + seconds
    while not done() and monotonic() < end:
        await asyncio.sleep(0.01)


def run(config: NodeConfig, ready: Callable[[Address], None] | None = None) -> None:
    """Runs a node until it is told to stop, on the fastest loop there is."""
    GarbageLooks().begin()
    # While the loop's thread computes, the disk's waits for so long at each of its steps.
    sys.setswitchinterval(SWITCH_SECONDS)
    raise_open_files(config.limits.connections)
    with asyncio.Runner(loop_factory=new_loop()) as runner:
        runner.run(_serve(config, ready))


async def _serve(config: NodeConfig, ready: Callable[[Address], None] | None) -> None:
    await Server(config).serve(ready)
