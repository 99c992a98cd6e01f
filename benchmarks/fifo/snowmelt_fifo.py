"""Snowmelt's fifo: one node, or three that each keep every item."""

from collections.abc import Generator
from functools import cache, partial
from pathlib import Path

from benchmarks.fifo import cores
from benchmarks.fifo.peer import EVERY, WAIT_SECONDS, Connect, ConnectTasks

import snowmelt
import snowmelt.aio
from snowmelt.cli.local import LocalCluster
from snowmelt.client.leases.items import Item, Items

Flush = str | float


class SnowmeltPeer:
    """A cluster on the servers' core: its nodes share it, as on one small machine."""

    def __init__(self, name: str, nodes: int, flush: Flush) -> None:
        self.name = name
        when = "before it answers" if flush == "always" else f"every {float(flush) * 1000:g} ms"
        where = "" if nodes == 1 else f" on {nodes} nodes"
        self.promise = f"flushes {when}{where}"
        self.flushes_first = flush == "always"
        self.ways = EVERY
        self.version = f"Snowmelt {snowmelt.__version__}"
        self.nodes = nodes
        self.flush = flush
        self.cluster: LocalCluster | None = None

    def start(self, folder: Path) -> None:
        self.cluster = LocalCluster(self.nodes, folder)
        with cores.on(cores.SERVER):
            self.cluster.start()

    def client(self, queue: str, batch: int) -> Connect:
        del batch
        assert self.cluster is not None
        return partial(SnowmeltClient, self.cluster.url, queue, self.nodes, self.flush)

    def tasks(self, queue: str, tasks: int) -> ConnectTasks:
        del tasks
        assert self.cluster is not None
        return partial(connect_tasks, self.cluster.url, queue, self.nodes, self.flush)

    def stop(self) -> None:
        if self.cluster:
            self.cluster.stop()


class ConsumePeer(SnowmeltPeer):
    """The same, taken from by `consume`."""

    def __init__(self, name: str, nodes: int, flush: Flush) -> None:
        super().__init__(name, nodes, flush)
        self.promise += "; taken by consume"
        self.ways = frozenset({"one"})

    def client(self, queue: str, batch: int) -> Connect:
        del batch
        assert self.cluster is not None
        return partial(ConsumingClient, self.cluster.url, queue, self.nodes, self.flush)


class SharedPeer(SnowmeltPeer):
    """The same, whose threads share one cluster: what they ask at once goes together."""

    def __init__(self, name: str, nodes: int, flush: Flush) -> None:
        super().__init__(name, nodes, flush)
        self.promise += "; threads share a client"
        self.ways = frozenset({"one"})

    def client(self, queue: str, batch: int) -> Connect:
        del batch
        assert self.cluster is not None
        return partial(SharingClient, self.cluster.url, queue, self.nodes, self.flush)


class SnowmeltClient:
    """The blocking client. An acknowledgement rides on the next get, as its page advises.

    An emptied queue stays, since nothing deletes one.
    """

    def __init__(self, url: str, queue: str, replicas: int, flush: Flush) -> None:
        self.cluster = snowmelt.connect(url)
        self.queue = self.cluster.fifo(queue, replicas=replicas, flush=flush)
        self.taken: Items | None = None

    def put(self, bodies: list[bytes]) -> None:
        if len(bodies) == 1:
            self.queue.put(bodies[0])
        else:
            self.queue.put_many(bodies)

    def take(self, count: int) -> int:
        self.taken = self.queue.get_many(count, timeout=WAIT_SECONDS, ack=self.taken)
        return len(self.taken)

    def settle(self) -> None:
        if self.taken is not None:
            self.taken.ack()
            self.taken = None

    def close(self) -> None:
        self.cluster.close()


class SharingClient:
    """One thread of a program that has one cluster and one queue for all of them."""

    def __init__(self, url: str, queue: str, replicas: int, flush: Flush) -> None:
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

    def __init__(self, url: str, queue: str, replicas: int, flush: Flush) -> None:
        super().__init__(url, queue, replicas, flush)
        self.items: Generator[Item, None, None] | None = None

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


async def connect_tasks(url: str, queue: str, replicas: int, flush: Flush) -> "SnowmeltTasks":
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
