"""Snowmelt's nodes."""

from contextlib import ExitStack, nullcontext
from pathlib import Path

from benchmarks.peers import cores

import snowmelt
from snowmelt.cli.local import LocalCluster
from snowmelt.cli.local_etcd import LocalEtcd
from snowmelt.cli.node import HEARTBEAT, MISSES


class Nodes:
    """A cluster; where an etcd is to decide, one of one member beside it."""

    def __init__(self, nodes: int, core: int | None = None, *, etcd: bool = False) -> None:
        self.version = f"Snowmelt {snowmelt.__version__}"
        self.nodes = nodes
        self._core = core
        self._etcd = etcd
        self._open = ExitStack()
        self._cluster: LocalCluster | None = None

    @property
    def cluster(self) -> LocalCluster:
        """Once it is started."""
        assert self._cluster is not None
        return self._cluster

    @property
    def address(self) -> str:
        """What a client connects to."""
        return self.cluster.url

    @property
    def pids(self) -> list[int]:
        return [node.pid for node in self.cluster.nodes]

    def start(self, folder: Path) -> None:
        with nullcontext() if self._core is None else cores.on(self._core):
            options: list[str] = []
            if self._etcd:
                etcd = self._open.enter_context(LocalEtcd(folder / "etcd"))
                options = ["--coordinator", etcd.url]
            options += ["--heartbeat", str(HEARTBEAT), "--misses", str(MISSES)]  # its defaults
            self._cluster = LocalCluster(self.nodes, folder / "nodes", options=options)
            self._open.enter_context(self._cluster)
            self._cluster.start()

    def stop(self) -> None:
        self._open.close()
