"""Snowmelt's fifo: one node, or three that each keep every item."""

from functools import partial
from pathlib import Path

from benchmarks.fifo import cores
from benchmarks.fifo.peer import WAIT_SECONDS, Connect, Missing

import snowmelt
from snowmelt.cli.local import LocalCluster
from snowmelt.client.cluster import Cluster

Flush = str | float


class SnowmeltPeer:
    """A cluster on the servers' core: its nodes share it, as on one small machine."""

    def __init__(self, name: str, nodes: int, flush: Flush) -> None:
        self.name = name
        when = "before it answers" if flush == "always" else f"every {float(flush) * 1000:g} ms"
        where = "" if nodes == 1 else f" on {nodes} nodes"
        self.promise = f"flushes {when}{where}"
        self.flushes_first = flush == "always"
        self.version = f"Snowmelt {snowmelt.__version__}"
        self.nodes = nodes
        self.flush = flush
        self.cluster: LocalCluster | None = None

    def start(self, folder: Path) -> None:
        if not hasattr(Cluster, "fifo"):
            raise Missing("this Snowmelt has no fifo")
        self.cluster = LocalCluster(self.nodes, folder)
        with cores.on(cores.SERVER):
            self.cluster.start()

    def client(self, queue: str, batch: int) -> Connect:
        del batch
        assert self.cluster is not None
        return partial(SnowmeltClient, self.cluster.url, queue, self.nodes, self.flush)

    def stop(self) -> None:
        if self.cluster:
            self.cluster.stop()


class SnowmeltClient:
    """The blocking client; an emptied queue stays, since nothing deletes one."""

    def __init__(self, url: str, queue: str, replicas: int, flush: Flush) -> None:
        self.cluster = snowmelt.connect(url)
        self.queue = self.cluster.fifo(queue, replicas=replicas, flush=flush)

    def put(self, bodies: list[bytes]) -> None:
        if len(bodies) == 1:
            self.queue.put(bodies[0])
        else:
            self.queue.put_many(bodies)

    def take(self, count: int) -> int:
        if count == 1:
            self.queue.get(timeout=WAIT_SECONDS).ack()
            return 1
        lease = self.queue.get_many(count, timeout=WAIT_SECONDS)
        lease.ack()
        return len(lease)

    def close(self) -> None:
        self.cluster.close()
