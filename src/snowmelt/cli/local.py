"""A cluster on this machine: real processes, one for each node, on free ports of the loopback."""

import contextlib
import itertools
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from random import SystemRandom
from typing import ClassVar, NamedTuple, Self

from snowmelt.cli.node import read_coordinator
from snowmelt.client.cluster import Cluster
from snowmelt.core.errors import SnowmeltError, StateError, Unavailable
from snowmelt.core.names import node_id
from snowmelt.protocols.membership import Status, View
from snowmelt.protocols.membership.view import identity_of
from snowmelt.runtime.folders import check_nobodys, found_in_etcd, found_on_disk, looked_at
from snowmelt.store.folder import make_folder, private

START_SECONDS = 30.0
MISSES = 4
"""Half of what a node is given otherwise: most of these clusters are there for nodes to die in."""
PORTS = range(10_000, 32_768)
"""Below those that the system gives to connections by itself: a node that is started, or started
again, finds its port as free as it was chosen."""


def free_ports(count: int) -> list[int]:
    """Ports nobody listens on now, no two the same, nor any that connections take by chance."""
    found: list[int] = []
    tried = min(100 + count, len(PORTS))
    for port in SystemRandom().sample(PORTS, tried):
        if len(found) == count:
            break
        with socket.socket() as one, contextlib.suppress(OSError):
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as nodes listen
            one.bind(("127.0.0.1", port))
            found.append(port)
    if len(found) < count:
        raise Unavailable(
            f"of {tried} ports tried from {PORTS[0]} to {PORTS[-1]}, {len(found)} are free"
        )
    return found


def free_port() -> int:
    """A port as `free_ports` finds them."""
    return free_ports(1)[0]


def listens(port: int, host: str = "127.0.0.1") -> bool:
    """Whether somebody takes connections on a port of this machine."""
    with socket.socket() as one:
        one.settimeout(1.0)
        return one.connect_ex((host, port)) == 0


def end_on_sigterm() -> None:
    """Makes SIGTERM end this program as Ctrl-C does, so that it stops the nodes it started.

    So does a terminal that is closed: nodes with users read them again then, and go on.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) == signal.SIG_DFL:
        signal.signal(signal.SIGHUP, signal.default_int_handler)


class LocalHost(NamedTuple):
    """Where on this machine a process lives: its address, and what its command begins with."""

    host: str = "127.0.0.1"
    prefix: tuple[str, ...] = ()


HERE = LocalHost()


class LocalNode:
    """One node's process, which may be stopped, killed and started again."""

    popen: ClassVar[type[subprocess.Popen[bytes]]] = subprocess.Popen
    python: str = sys.executable
    """Which Python its process is: another one may have another version of Snowmelt."""

    def __init__(
        self,
        name: str,
        port: int,
        folder: Path,
        options: list[str],
        home: LocalHost = HERE,
        http: int = 0,
    ) -> None:
        self.name = name
        self.port = port
        self.http = http
        """Where it shows its page, if it does."""
        self.folder = folder
        self.log = folder.with_suffix(".log")
        self._options = options
        self._home = home
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """Where it listens, as others see it."""
        return f"{self._home.host}:{self.port}"

    @property
    def url(self) -> str:
        """The URL by which clients reach the cluster."""
        return f"snowmelt://{self.address}"

    @property
    def running(self) -> bool:
        """Whether the node's process has not ended."""
        return self._process is not None and self._process.poll() is None

    @property
    def code(self) -> int | None:
        """How its process ended; None while it runs."""
        return self._process.poll() if self._process is not None else None

    @property
    def pid(self) -> int:
        """The id of its process, which has been started."""
        assert self._process is not None
        return self._process.pid

    def found(self) -> str:
        """Founds a cluster on its new disk, for which it will decide; returns its identity."""
        return found_on_disk(self.folder, node_id(self.name))

    @property
    def empty(self) -> bool:
        """Whether there is nothing in its folder."""
        return not self.folder.exists() or not any(self.folder.iterdir())

    def start(self) -> None:
        """Starts it, on the disk that is there."""
        assert not self.running
        if listens(self.port, self._home.host):
            raise Unavailable(
                f"port {self.port} is taken; choose another, or end the program that has it"
            )
        command = [*self._home.prefix, self.python, "-m", "snowmelt", "node", "--id", self.name]
        command += ["--listen", self.address, "--data", str(self.folder)]
        command += ["--http", f"{self._home.host}:{self.http}"] if self.http else []
        with private(self.log) as log:
            self._process = self.popen(
                [*command, *self._options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for the one who started it, who stops them all
            )

    def stop(self, timeout: float = 20.0) -> int:
        """Asks it to stop in order, and waits; returns its exit code."""
        return self._end(signal.SIGTERM, timeout)

    def kill(self) -> int:
        """Kills it, without a word."""
        return self._end(signal.SIGKILL, 10.0)

    def status(self, timeout: float = 2.0) -> Status | None:
        """How it sees the cluster; None when it does not answer."""
        try:
            with Cluster(self.url) as cluster:
                return cluster.status(timeout=timeout)
        except SnowmeltError:
            return None

    def check_alive(self) -> None:
        """Raises, with its last words, when its process has ended by itself."""
        if self._process is not None and self._process.poll() is not None:
            code = self._process.returncode
            raise Unavailable(f"{self.name} ended with {code}: {self.last_words()}")

    def last_words(self) -> str:
        """The last line of its log."""
        try:
            lines = self.log.read_text(errors="replace").strip().splitlines()
        except OSError:
            lines = []
        return lines[-1] if lines else "it said nothing"

    def _end(self, how: signal.Signals, timeout: float) -> int:
        assert self._process is not None
        if self.running:
            os.kill(self._process.pid, how)
        try:
            return self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait(10.0)


def _unfounded(founder: LocalNode, others: list[LocalNode]) -> str:
    """Why no cluster is founded in the first node's folder, and the ways out."""
    lost = f"{founder.folder} is empty and was not made here, so no cluster is founded in it"
    if not others:
        return f"{lost}. Mount its volume, or say first: snowmelt found --data {founder.folder}"
    names = ", ".join(one.name for one in others)
    found = [looked_at(one.folder).cluster for one in others]
    whose = next((f" of cluster {identity_of(one)}" for one in found if one), "")
    return (
        f"{lost}: beside it are the folders of {names}{whose}. Bring {founder.name}'s folder back,"
        " or run snowmelt rescue"
    )


class LocalCluster:
    """Some nodes, and a wait for what they should come to."""

    def __init__(
        self,
        nodes: int,
        folder: Path,
        heartbeat: float = 1.0,
        port: int = 0,
        homes: Sequence[LocalHost] = (),
        options: Sequence[str] = (),
        http: int = 0,
    ) -> None:
        make_folder(folder)
        ports = list(range(port, port + nodes)) if port else free_ports(nodes)
        beats = ("--heartbeat", str(heartbeat), "--misses", str(MISSES))
        options = [*beats, *options]  # of an option given twice the last one counts
        given = dict(itertools.pairwise(options))
        self._name = given.get("--cluster", "snowmelt")
        self._etcd = read_coordinator(given.get("--coordinator", "disk"))
        homes = homes or [HERE] * nodes
        founder = f"{homes[0].host}:{ports[0]}"
        self.nodes = [
            LocalNode(
                f"n{one + 1}",
                ports[one],
                folder / f"n{one + 1}",
                options if one == 0 else [*options, "--join", founder],
                homes[one],
                http if one == 0 else 0,
            )
            for one in range(nodes)
        ]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def url(self) -> str:
        """All its nodes, for a client."""
        return "snowmelt://" + ",".join(node.address for node in self.nodes)

    def start(self) -> View:
        """Starts all that do not run, and waits until all are current in one view."""
        self.found()
        for node in self.nodes:
            if not node.running:
                node.start()
        return self.wait_for([node.name for node in self.nodes], START_SECONDS)

    def found(self) -> None:
        """Founds a cluster where no node's folder is there yet, and nowhere else."""
        founder, there = self.nodes[0], [one for one in self.nodes if one.folder.exists()]
        if not there:
            check_nobodys(founder.folder.parent)
        if self._etcd is not None:
            if not there:
                with contextlib.suppress(StateError):  # they join the one that is there
                    found_in_etcd(self._etcd, self._name)
        elif not there:
            founder.found()
        elif founder.empty:
            raise StateError(_unfounded(founder, [one for one in there if not one.empty]))

    def stop(self) -> None:
        """Stops all in order, the one that decides last, so that the others can leave."""
        for node in reversed(self.nodes):
            if node.running:
                node.stop()

    def wait_for(
        self, names: list[str], timeout: float, tick: Callable[[], None] = lambda: None
    ) -> View:
        """Waits until these nodes are current in one view of just them."""
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            for node in self.nodes:
                if node.name in names:
                    node.check_alive()
            view = self._agreed(names)
            if view is not None:
                return view
            tick()
            time.sleep(0.05)
        wanted = ", ".join(names)
        said = "; ".join(f"{node.name}: {node.last_words()}" for node in self.nodes)
        raise Unavailable(f"{wanted} did not come into one view in {timeout:g} s. {said}")

    def _agreed(self, names: list[str]) -> View | None:
        views: list[View] = []
        for node in self.nodes:
            if node.name in names:
                status = node.status()
                if status is None or status.standing != "current" or status.view is None:
                    return None
                views.append(status.view)
        listed = sorted(member.id for member in views[0].members)
        same = all(view == views[0] for view in views)
        return views[0] if same and listed == sorted(names) else None
