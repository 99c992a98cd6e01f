"""Snowmelt under etcd: the leader of a queue is killed, or that of the cluster."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.peers.comparison import Peer
from benchmarks.peers.failover.putters import BACK_SECONDS, Put
from benchmarks.peers.servers.snowmelt import Nodes

import snowmelt


def queue(name: str, kind: str, cluster: bool = False) -> Peer:
    victim = "cluster's" if cluster else "queue's"
    return Peer(
        name=name,
        promise=f"the {victim} leader; {kind}, flushes before it answers",
        service=Three(kind, cluster=cluster),
    )


class Three(Nodes):
    """Three nodes at their defaults, an etcd of one member beside them, `replicas=3`."""

    def __init__(self, kind: str, *, cluster: bool) -> None:
        super().__init__(3, etcd=True)
        self._kind = kind
        self._of_cluster = cluster

    def start(self, folder: Path) -> None:
        super().start(folder)
        with snowmelt.connect(self.address) as cluster:
            self._queue(cluster, replicas=3).put(b"the first use makes it", timeout=30)

    def _queue(self, cluster: Any, **options: int) -> Any:
        return getattr(cluster, self._kind)("q", **options)

    @contextlib.contextmanager
    def putter(self, at: int) -> Iterator[Put]:
        nodes = self.cluster.nodes
        order = ",".join(one.address for one in [*nodes[at:], *nodes[:at]])
        with snowmelt.connect(f"snowmelt://{order}") as cluster:
            queue = self._queue(cluster)
            yield lambda body: queue.put(body, timeout=60)

    def leader(self) -> int:
        with snowmelt.connect(self.address) as cluster:
            name = self._queue(cluster).stats().leader.partition("/")[0]
        if self._of_cluster:
            status = self.cluster.nodes[0].status()
            assert status is not None
            assert status.view is not None
            name = str(status.view.coordinator)
        return [one.name for one in self.cluster.nodes].index(name)

    def kill(self, node: int) -> None:
        self.cluster.nodes[node].kill()

    def back(self, node: int) -> None:
        self.cluster.nodes[node].start()
        self.cluster.wait_for([one.name for one in self.cluster.nodes], BACK_SECONDS)
