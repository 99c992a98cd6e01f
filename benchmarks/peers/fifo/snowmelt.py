"""Snowmelt's fifo: one node, or three that each keep every item."""

from functools import cache, partial
from typing import Any, Literal

from benchmarks.peers import cores
from benchmarks.peers.comparison import WAIT_SECONDS, Peer
from benchmarks.peers.fifo.cell import Way
from benchmarks.peers.fifo.clients import EVERY, QueuePeer
from benchmarks.peers.fifo.riding import RidingClient
from benchmarks.peers.servers.snowmelt import Nodes

import snowmelt
import snowmelt.aio

Flush = Literal["always"] | float


def fifo(name: str, nodes: int, flush: Flush, client: Any = None, more: str = "") -> Peer:
    when = "before it answers" if flush == "always" else f"every {float(flush) * 1000:g} ms"
    where = "" if nodes == 1 else f" on {nodes} nodes"
    one: frozenset[Way] = frozenset({"one"})
    return QueuePeer(
        name=name,
        promise=f"flushes {when}{where}{more}",
        service=Nodes(nodes, cores.SERVER),  # its nodes share a core, as on one small machine
        above=flush == "always",
        client=partial(client or SnowmeltClient, replicas=nodes, flush=flush),
        tasks=partial(connect_tasks, replicas=nodes, flush=flush),
        ways=one if client else EVERY,
    )


def consuming(name: str, nodes: int, flush: Flush) -> Peer:
    """The same, taken from by `consume`."""
    return fifo(name, nodes, flush, ConsumingClient, "; taken by consume")


def shared(name: str, nodes: int, flush: Flush) -> Peer:
    """The same, whose threads share one cluster: what they ask at once goes together."""
    return fifo(name, nodes, flush, SharingClient, "; threads share a client")


class SnowmeltClient(RidingClient):
    """The blocking client."""

    def __init__(self, url: str, queue: str, batch: int, replicas: int, flush: Flush) -> None:
        del batch
        cluster = snowmelt.connect(url)
        super().__init__(cluster, cluster.fifo(queue, replicas=replicas, flush=flush))

    def put(self, bodies: list[bytes]) -> None:
        if len(bodies) == 1:
            self.queue.put(bodies[0])
        else:
            self.queue.put_many(bodies)


class SharingClient:
    """One thread of a program that has one cluster and one queue for all of them."""

    def __init__(self, url: str, queue: str, batch: int, replicas: int, flush: Flush) -> None:
        del batch
        self.cluster = shared_cluster(url)
        self.queue = shared_queue(url, queue, replicas, flush)

    def put(self, bodies: list[bytes]) -> None:
        self.queue.put(bodies[0])

    def take(self, count: int) -> int:
        del count
        self.queue.get(timeout=WAIT_SECONDS).ack()
        return 1

    def settle(self) -> None:
        """Each item is acknowledged by itself."""

    def close(self) -> None:
        self.cluster.close()


@cache
def shared_cluster(url: str) -> snowmelt.Cluster:
    return snowmelt.connect(url)


@cache
def shared_queue(url: str, queue: str, replicas: int, flush: Flush) -> snowmelt.Fifo:
    return shared_cluster(url).fifo(queue, replicas=replicas, flush=flush)


class ConsumingClient(SnowmeltClient):
    """Takes items one by one from `consume`, which fetches ahead and gathers acknowledgements."""

    def __init__(self, url: str, queue: str, batch: int, replicas: int, flush: Flush) -> None:
        super().__init__(url, queue, batch, replicas, flush)
        self.items: Any = None

    def take(self, count: int) -> int:
        del count
        if self.items is None:
            self.items = self.queue.consume(prefetch=1000, timeout=WAIT_SECONDS)
        next(self.items).ack()
        return 1

    def settle(self) -> None:
        if self.items is not None:
            self.items.close()
            self.items = None


async def connect_tasks(
    url: str, queue: str, tasks: int, replicas: int, flush: Flush
) -> "SnowmeltTasks":
    del tasks
    return SnowmeltTasks(url, queue, replicas, flush)


class SnowmeltTasks:
    """The client with `await`: one connection for all tasks, each with its own get and ack."""

    def __init__(self, url: str, queue: str, replicas: int, flush: Flush) -> None:
        self.cluster = snowmelt.aio.connect(url)
        self.queue = self.cluster.fifo(queue, replicas=replicas, flush=flush)

    async def put(self, body: bytes) -> None:
        await self.queue.put(body)

    async def take(self, task: int) -> None:
        del task
        item = await self.queue.get(timeout=WAIT_SECONDS)
        await item.ack()

    async def settle(self, task: int) -> None:
        """Each item is acknowledged by itself."""

    async def close(self) -> None:
        await self.cluster.close()
