"""Snowmelt under etcd: the leader of the cluster is killed, or the master of a fifo."""

import contextlib
from collections.abc import Iterator
from contextlib import ExitStack
from importlib.metadata import version
from pathlib import Path

from benchmarks.failover_parts.system import BACK_SECONDS, Put

import snowmelt
from snowmelt.cli.local import LocalCluster
from snowmelt.cli.local_etcd import LocalEtcd
from snowmelt.cli.node import HEARTBEAT, MISSES


class Ours:
    """Three nodes at their defaults, an etcd of one member beside them, `replicas=3`."""

    def __init__(self, kind: str) -> None:
        self.name = f"snowmelt {kind}"
        self.version = f"snowmelt {version('snowmelt')}"
        self._kind = kind
        self._open = ExitStack()
        self._cluster: LocalCluster

    def start(self, folder: Path) -> None:
        etcd = self._open.enter_context(LocalEtcd(folder / "etcd"))
        options = ["--coordinator", etcd.url, "--misses", str(MISSES)]
        self._cluster = LocalCluster(3, folder / "nodes", HEARTBEAT, options=options)
        self._open.enter_context(self._cluster)
        self._cluster.start()
        with snowmelt.connect(self._cluster.url) as cluster:
            queue = cluster.fifo if self._kind == "fifo" else cluster.priority
            queue("q", replicas=3).put(b"the first use makes it", timeout=30)

    @contextlib.contextmanager
    def putter(self, at: int) -> Iterator[Put]:
        nodes = self._cluster.nodes
        order = ",".join(one.address for one in [*nodes[at:], *nodes[:at]])
        with snowmelt.connect(f"snowmelt://{order}") as cluster:
            if self._kind == "fifo":
                fifo = cluster.fifo("q")
                yield lambda body: fifo.put(body, timeout=60)
            else:
                priority = cluster.priority("q")
                yield lambda body: priority.put(body, timeout=60)

    def leader(self) -> int:
        """Of the cluster: what it costs with the priority queue, which all nodes order."""
        with snowmelt.connect(self._cluster.url) as cluster:
            if self._kind == "fifo":
                name = cluster.fifo("q").stats().leader.partition("/")[0]
            else:
                status = self._cluster.nodes[0].status()
                assert status is not None
                assert status.view is not None
                name = str(status.view.coordinator)
        return [one.name for one in self._cluster.nodes].index(name)

    def kill(self, node: int) -> None:
        self._cluster.nodes[node].kill()

    def back(self, node: int) -> None:
        self._cluster.nodes[node].start()
        self._cluster.wait_for([one.name for one in self._cluster.nodes], BACK_SECONDS)

    def stop(self) -> None:
        self._open.close()
