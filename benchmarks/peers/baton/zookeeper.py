"""ZooKeeper: the recipe of its guide as kazoo has it, `kazoo.recipe.lock.Lock`.

One server, which flushes each change to the disk as it comes; `zookeeper-memory` has its disk in
memory. A waiter makes a numbered node, lists all, and watches the one before its own; so nobody is
woken in vain. The threads of a process share a session.
"""

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from benchmarks.peers.baton.clients import Hold, LockPeer, Messages
from benchmarks.peers.baton.folders import WRITES, Data, Place
from benchmarks.peers.comparison import WAIT_SECONDS, Missing, Peer
from benchmarks.peers.processes import Server, program
from kazoo.client import KazooClient

from snowmelt.cli.local import free_port

JAR: Final = Path("/usr/share/java/zookeeper.jar")
SERVER: Final = "org.apache.zookeeper.server.ZooKeeperServerMain"
CONFIG: Final = """
tickTime=2000
dataDir={data}
clientPort={port}
clientPortAddress=127.0.0.1
maxClientCnxns=0
admin.enableServer=false
4lw.commands.whitelist=mntr
"""
COUNTED: Final = ("zk_packets_received", "zk_packets_sent")


def lock(name: str, place: Place) -> Peer:
    return LockPeer(
        name=name,
        promise=f"who asked first; ends with its session; {WRITES[place]}",
        service=ZooKeeper(place),
        above=place == "disk",
        connect=lambda service: partial(ZooKeeperClient, port=service.port),
        messages=ZooKeeper.messages,
    )


class ZooKeeper:
    """A server without an ensemble."""

    def __init__(self, place: Place) -> None:
        self.version = ""
        self.port = free_port()
        self._data = Data(place)
        self._server: Server | None = None

    @property
    def pids(self) -> list[int]:
        return [] if self._server is None else self._server.pids

    def start(self, folder: Path) -> None:
        if not JAR.is_file():
            raise Missing(f"there is no {JAR} here: apt-get install zookeeper")
        config = folder / "zoo.cfg"
        config.write_text(CONFIG.format(data=self._data.make(folder), port=self.port))
        command = [program("java", "default-jre-headless"), "-cp", str(JAR), SERVER, str(config)]
        self._server = Server(command, folder, self.port)
        self._server.start()
        end = time.monotonic() + WAIT_SECONDS
        while "zk_version" not in (said := self.said()):  # it listens before it serves
            if time.monotonic() > end:
                raise Missing(f"ZooKeeper does not serve: see {folder / 'output.log'}")
            time.sleep(0.05)
        self.version = "ZooKeeper " + said["zk_version"].split("-")[0]

    def messages(self) -> Messages:
        said = self.said()
        return Messages(sum(int(said[name]) for name in COUNTED))

    def said(self) -> dict[str, str]:
        """What the server says of itself."""
        with socket.create_connection(("127.0.0.1", self.port), WAIT_SECONDS) as one:
            one.sendall(b"mntr")
            with one.makefile() as lines:
                pairs = (line.rstrip("\n").partition("\t") for line in lines)
                return {name: value for name, _, value in pairs}

    def stop(self) -> None:
        if self._server is not None:
            self._server.stop()
        self._data.remove()


class ZooKeeperClient:
    """One session for all threads of a process."""

    def __init__(self, number: int, port: int) -> None:
        del number
        self.base: Any = KazooClient(f"127.0.0.1:{port}", timeout=WAIT_SECONDS)
        self.base.start(WAIT_SECONDS)

    def waiter(self, lock: str) -> Hold:
        return partial(self.hold, self.base.Lock(f"/batons/{lock}", uuid4().hex))

    @contextmanager
    def hold(self, lock: Any) -> Iterator[None]:
        lock.acquire(timeout=WAIT_SECONDS)
        yield
        lock.release()

    def close(self) -> None:
        self.base.stop()
        self.base.close()
