"""Snowmelt's baton: one node, or three with the clients spread over them.

The threads of a process share what `snowmelt.connect` gave. A grant carries a fence, and nothing is
written to disk on the way from one holder to the next; a baton whose node died is made again.
"""

from functools import partial
from pathlib import Path

from benchmarks.peers.baton.clients import Connect, Hold, LockPeer, Messages
from benchmarks.peers.comparison import WAIT_SECONDS, Peer
from benchmarks.peers.servers.snowmelt import Nodes

import snowmelt
from snowmelt.client.cluster import Cluster
from snowmelt.wire.greeting import Role


def baton(name: str, nodes: int) -> Peer:
    where = "one node" if nodes == 1 else f"{nodes} nodes"
    return LockPeer(
        name=name,
        promise=f"who asked first; ends with its lease, fenced; no disk; {where}",
        service=Watched(nodes),
        connect=connect,
        messages=Watched.messages,
    )


def connect(service: Nodes) -> Connect:
    return partial(BatonClient, urls=[node.url for node in service.cluster.nodes])


class Watched(Nodes):
    """A cluster of so many nodes, whose messages are counted."""

    def start(self, folder: Path) -> None:
        super().start(folder)
        self._watching: list[Cluster] = [snowmelt.connect(one.url) for one in self.cluster.nodes]

    def messages(self) -> Messages:
        """What passes between two nodes is counted where it comes in."""
        links = [link for one in self._watching for link in one.statistics().connections]
        nodes = [link for link in links if link.role == Role.NODE.value]
        clients = [link for link in links if link.role == Role.CLIENT.value]
        return Messages(
            clients=sum(link.frames_in + link.frames_out for link in clients),
            servers=sum(link.frames_in for link in nodes),
        )

    def stop(self) -> None:
        for one in getattr(self, "_watching", ()):
            one.close()
        super().stop()


class BatonClient:
    """The blocking client; each process is with one of the nodes."""

    def __init__(self, number: int, urls: list[str]) -> None:
        self.cluster = snowmelt.connect(urls[number % len(urls)])

    def waiter(self, lock: str) -> Hold:
        return partial(self.cluster.baton, lock, timeout=WAIT_SECONDS)

    def close(self) -> None:
        self.cluster.close()
