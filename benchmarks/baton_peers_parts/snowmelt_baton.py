"""Snowmelt's baton: one node, or three with the clients spread over them.

The threads of a process share what `snowmelt.connect` gave. A grant carries a fence, and nothing is
written to disk on the way from one holder to the next; a baton whose node died is made again.
"""

from functools import partial
from pathlib import Path

from benchmarks.baton_peers_parts.peer import Connect, Hold, Messages
from benchmarks.fifo.peer import WAIT_SECONDS

import snowmelt
from snowmelt.cli.local import LocalCluster
from snowmelt.client.cluster import Cluster
from snowmelt.wire.greeting import Role


class BatonPeer:
    """A cluster of so many nodes."""

    def __init__(self, name: str, nodes: int) -> None:
        self.name = name
        where = "one node" if nodes == 1 else f"{nodes} nodes"
        self.promise = f"who asked first; ends with its lease, fenced; no disk; {where}"
        self.version = f"Snowmelt {snowmelt.__version__}"
        self.nodes = nodes
        self.cluster: LocalCluster | None = None
        self.watching: list[Cluster] = []

    def start(self, folder: Path) -> None:
        self.cluster = LocalCluster(self.nodes, folder)
        self.cluster.start()
        self.watching = [snowmelt.connect(node.url) for node in self.cluster.nodes]

    def connect(self) -> Connect:
        assert self.cluster is not None
        return partial(BatonClient, urls=[node.url for node in self.cluster.nodes])

    def messages(self) -> Messages:
        """What passes between two nodes is counted where it comes in."""
        links = [link for one in self.watching for link in one.statistics().connections]
        nodes = [link for link in links if link.role == Role.NODE.value]
        clients = [link for link in links if link.role == Role.CLIENT.value]
        return Messages(
            clients=sum(link.frames_in + link.frames_out for link in clients),
            servers=sum(link.frames_in for link in nodes),
        )

    def stop(self) -> None:
        for one in self.watching:
            one.close()
        if self.cluster:
            self.cluster.stop()


class BatonClient:
    """The blocking client; each process is with one of the nodes."""

    def __init__(self, number: int, urls: list[str]) -> None:
        self.cluster = snowmelt.connect(urls[number % len(urls)])

    def waiter(self, lock: str) -> Hold:
        return partial(self.cluster.baton, lock, timeout=WAIT_SECONDS)

    def close(self) -> None:
        self.cluster.close()
