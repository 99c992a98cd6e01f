"""Three places where the same nodes can live, behind one interface.

- `WorldStage`: the simulated world.
- `ProcessStage`: one process: real drivers, clocks and disks, no socket.
- `LoopbackStage`: real servers that talk TCP over loopback, and the async client.

A scenario can start and stop nodes (by a kill, with no goodbye), call them, and wait until
something is so. It can't tell where it runs.
"""

import asyncio
from abc import ABC, abstractmethod
from pathlib import Path
from random import Random
from typing import Any

from hub import Hub

from snowmelt.client.connection.asynchronous import AsyncClient
from snowmelt.client.connection.url import read
from snowmelt.core.errors import SnowmeltError
from snowmelt.core.instant import Instant, later, milliseconds, seconds
from snowmelt.core.names import Address, NodeId, OperationId, contact
from snowmelt.core.node import Requested
from snowmelt.core.outcome import Failed, Succeeded, Unknown
from snowmelt.protocols import echo, membership
from snowmelt.protocols.calling import Ask, Caller
from snowmelt.protocols.host import Family, Host
from snowmelt.protocols.membership import (
    Depart,
    Departed,
    GetStatus,
    Identity,
    MembershipSettings,
    Status,
)
from snowmelt.runtime.driver import Driver
from snowmelt.runtime.folders import found_on_disk
from snowmelt.runtime.server import NodeConfig, Server
from snowmelt.store import Store
from snowmelt_world.families.membership import Founder
from snowmelt_world.world import Observer, World

SETTINGS = MembershipSettings(
    interval=milliseconds(100), misses=3, grace=milliseconds(50)
)  # so that a death is noticed within half a second
PATIENCE = 5.0
CLIENT = NodeId("c-1")


def host(node: NodeId, address: Address, contacts: list[Address], chance: Random) -> Host:
    identity = Identity(id=node, address=address, contacts=tuple(map(contact, contacts)))
    return Host(
        node,
        [
            Family(
                "membership",
                (membership.MembershipNode if contacts else Founder)(identity, SETTINGS, chance),
                membership.MESSAGES,
            ),
            Family("echo", echo.EchoNode(), echo.MESSAGES),
        ],
    )


class Stage(ABC):
    """Where a scenario plays. The first node founds; the others know its address."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @abstractmethod
    async def start(self, node: str) -> None:
        """A node's process begins, on the disk it left."""

    @abstractmethod
    async def kill(self, node: str) -> None:
        """A node's process is gone."""

    @abstractmethod
    async def leave(self, node: str) -> None:
        """A node leaves in order, and its process ends."""

    @abstractmethod
    async def call(self, node: str, body: Any, patience: float = PATIENCE) -> Any:
        """A client calls a node; the answer's body, `Failed` or `Unknown`."""

    @abstractmethod
    async def pause(self) -> None:
        """A little time passes."""

    @abstractmethod
    async def close(self) -> None:
        """The end."""

    async def until(self, said: Any, *nodes: str) -> list[Status]:
        """Waits until what all these nodes say of the cluster is as wished."""
        for _ in range(400):
            statuses = [await self.call(node, GetStatus(), 1.0) for node in nodes]
            if all(isinstance(one, Status) and said(one) for one in statuses):
                return statuses
            await self.pause()
        raise AssertionError(f"never so: {statuses}")

    async def in_view_of(self, *names: str) -> list[Status]:
        """Waits until these nodes are current in one view of just them."""

        def agreed(status: Status) -> bool:
            return status.standing == "current" and [
                one.id for one in status.view.members
            ] == sorted(names)

        while True:
            statuses = await self.until(agreed, *names)
            if len({str(one.view) for one in statuses}) == 1:
                return statuses


class WorldStage(Stage, Observer):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.world = World(seed=7, observer=self)
        self.replies: dict[OperationId, Any] = {}
        self.clients: dict[str, int] = {}

    async def start(self, node):
        name, address = NodeId(node), Address(node, 1)
        if name not in self.world.slots:
            contacts = [] if node == "n1" else [Address("n1", 1)]
            slot = self.world.add(
                name, lambda chance: host(name, address, contacts, chance), address
            )
            slot.wanted = False
        self.world.start(name)

    async def kill(self, node):
        self.world.stop(NodeId(node))

    async def leave(self, node):
        operation = OperationId(NodeId(node), 1)
        self.world.request(NodeId(node), operation, Depart())
        while operation not in self.replies:
            await self.pause()
        assert self.replies.pop(operation) == Departed()
        await self.kill(node)

    async def call(self, node, body, patience=PATIENCE):
        client = NodeId(f"c-{node}")
        if client not in self.world.slots:
            target = [contact(Address(node, 1))]
            self.world.add(client, lambda chance: Caller(target, chance))
            self.world.start(client)
        self.clients[client] = self.clients.get(client, 0) + 1
        operation = OperationId(client, self.clients[client])
        self.world.request(client, operation, Ask(body, seconds(patience)))
        while operation not in self.replies:
            self.world.run(later(self.world.now, milliseconds(1)))
        return plain(self.replies.pop(operation))

    def replied(self, at, node, effect):
        del at, node
        self.replies[effect.operation] = effect.message

    async def pause(self):
        self.world.run(later(self.world.now, milliseconds(20)))

    async def close(self):
        assert self.world.now > Instant(0)


class _Silent:
    """A watcher that hears nothing but answers and crashes."""

    def __init__(self) -> None:
        self.answers: dict[OperationId, asyncio.Future] = {}
        self.crash: Exception | None = None

    def announced(self, effect):
        pass

    def noted(self, effect):
        pass

    def halted(self, effect):
        raise AssertionError(effect.reason)

    def crashed(self, error):
        self.crash = error

    def replied(self, effect):
        self.answers.pop(effect.operation).set_result(effect.message)


class ProcessStage(Stage):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.hub = Hub()
        self.running: dict[str, tuple[Driver, Store]] = {}
        self.watcher = _Silent()
        self.callers: dict[str, Driver] = {}
        self.calls = 0

    async def start(self, node):
        name, address = NodeId(node), Address(node, 1)
        contacts = [] if node == "n1" else [Address("n1", 1)]
        store = Store.open(self.folder / node)
        machine = host(name, address, contacts, Random(f"{node} {len(self.running)}"))
        driver = Driver(machine, self.hub.sender(name), self.watcher, store)
        self.hub.attach(name, driver.received, address)
        self.running[node] = driver, store
        driver.start()

    async def kill(self, node):
        driver, store = self.running.pop(node)
        self.hub.detach(NodeId(node))
        driver.stop(10)
        store.close()

    async def leave(self, node):
        operation = OperationId(NodeId(node), 1)
        answer = self.watcher.answers[operation] = asyncio.get_running_loop().create_future()
        self.running[node][0].handle(Requested(operation, Depart()))
        async with asyncio.timeout(5):
            assert await answer == Departed()
        await self.kill(node)

    async def call(self, node, body, patience=PATIENCE):
        if node not in self.callers:
            name = NodeId(f"c-{node}")
            caller = Caller([contact(Address(node, 1))], Random(0))
            driver = self.callers[node] = Driver(caller, self.hub.sender(name), self.watcher)
            self.hub.attach(name, driver.received)
        self.calls += 1
        operation = OperationId(NodeId(f"c-{node}"), self.calls)
        answer = self.watcher.answers[operation] = asyncio.get_running_loop().create_future()
        self.callers[node].handle(Requested(operation, Ask(body, seconds(patience))))
        async with asyncio.timeout(patience + 5):
            return plain(await answer)

    async def pause(self):
        await asyncio.sleep(0.02)

    async def close(self):
        for node in list(self.running):
            await self.kill(node)
        for driver in self.callers.values():
            driver.stop(1)
        assert self.watcher.crash is None


class LoopbackStage(Stage):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.servers: dict[str, Server] = {}
        self.addresses: dict[str, Address] = {}
        self.clients: dict[str, AsyncClient] = {}

    async def start(self, node):
        if node == "n1" and not (self.folder / node).exists():
            found_on_disk(self.folder / node, NodeId(node))
        server = self.servers[node] = Server(
            NodeConfig(
                id=NodeId(node),
                listen=self.addresses.get(node, Address("127.0.0.1", 0)),
                data=self.folder / node,
                join=() if node == "n1" else (self.addresses["n1"],),
                settings=SETTINGS,
            )
        )
        self.addresses[node] = await server.start()

    async def kill(self, node):
        await self.servers.pop(node).stop(depart=False)

    async def leave(self, node):
        await self.servers.pop(node).stop()

    async def call(self, node, body, patience=PATIENCE):
        if node not in self.clients:
            self.clients[node] = AsyncClient(read(f"snowmelt://{self.addresses[node]}"))
        try:
            return await self.clients[node].call(body, patience)
        except TimeoutError as error:
            return Unknown(str(error))
        except SnowmeltError as error:
            return Failed(f"{type(error).__name__}: {error}")

    async def pause(self):
        await asyncio.sleep(0.02)

    async def close(self):
        for client in self.clients.values():
            await client.close()
        for node in reversed(list(self.servers)):
            await self.kill(node)


def plain(outcome: Any) -> Any:
    """An outcome's value when it succeeded."""
    return outcome.value if isinstance(outcome, Succeeded) else outcome


STAGES = [WorldStage, ProcessStage, LoopbackStage]
