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

from benchmarks.baton_peers_parts.folders import WRITES, Data, Place
from benchmarks.baton_peers_parts.peer import Connect, Hold, Messages
from benchmarks.baton_peers_parts.server import Server
from benchmarks.fifo.peer import WAIT_SECONDS, Missing
from benchmarks.fifo.server import program
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


class ZooKeeperPeer:
    """A server without an ensemble."""

    def __init__(self, name: str, place: Place) -> None:
        self.name = name
        self.promise = f"who asked first; ends with its session; {WRITES[place]}"
        self.version = ""
        self.port = free_port()
        self.data = Data(place)
        self.server = Server()

    def start(self, folder: Path) -> None:
        if not JAR.is_file():
            raise Missing(f"there is no {JAR} here: apt-get install zookeeper")
        config = folder / "zoo.cfg"
        config.write_text(CONFIG.format(data=self.data.make(folder), port=self.port))
        command = [program("java", "default-jre-headless"), "-cp", str(JAR), SERVER, str(config)]
        self.server.start(command, self.port, folder / "output.log")
        end = time.monotonic() + WAIT_SECONDS
        while "zk_version" not in (told := self.told()):  # it listens before it serves
            if time.monotonic() > end:
                raise Missing(f"ZooKeeper does not serve: see {folder / 'output.log'}")
            time.sleep(0.05)
        self.version = "ZooKeeper " + told["zk_version"].split("-")[0]

    def connect(self) -> Connect:
        return partial(ZooKeeperClient, port=self.port)

    def messages(self) -> Messages:
        told = self.told()
        return Messages(sum(int(told[name]) for name in COUNTED))

    def told(self) -> dict[str, str]:
        """What the server tells about itself."""
        with socket.create_connection(("127.0.0.1", self.port), WAIT_SECONDS) as one:
            one.sendall(b"mntr")
            with one.makefile() as lines:
                pairs = (line.rstrip("\n").partition("\t") for line in lines)
                return {name: value for name, _, value in pairs}

    def stop(self) -> None:
        self.server.stop()
        self.data.remove()


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
