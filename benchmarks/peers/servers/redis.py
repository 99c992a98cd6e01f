"""Redis: one server, with replicas if any, that flushes as it is said."""

import time
from pathlib import Path
from typing import Any, Final, Literal

from benchmarks.peers.comparison import WAIT_SECONDS, Missing
from benchmarks.peers.processes import Server, program, said_by

from snowmelt.cli.local import free_ports

Flush = Literal["always", "everysec", "never"]
PROMISES: Final[dict[Flush, str]] = {
    "everysec": "flushes every second",
    "always": "flushes before it answers",
    "never": "no disk",
}


class Redis:
    """Without snapshots, and with an append-only file unless it never flushes."""

    def __init__(
        self, flush: Flush, core: int | None = None, replicas: int = 0, *, unix: bool = False
    ) -> None:
        self.version = ""
        self.flush = flush
        self.replicas = replicas
        self.port, *self._others = free_ports(1 + replicas)
        self.socket = ""
        self._unix = unix
        self._core = core
        self._servers: list[Server] = []

    @property
    def address(self) -> "Place":
        return Place(self.port, self.socket)

    @property
    def pids(self) -> list[int]:
        return [pid for server in self._servers for pid in server.pids]

    def start(self, folder: Path) -> None:
        redis_server = program("redis-server", "redis-server")
        self.version = "Redis " + said_by(redis_server, "--version").split()[2].removeprefix("v=")
        for port in (self.port, *self._others):
            own = folder / str(port)
            own.mkdir()
            command = [redis_server, "--port", str(port), "--bind", "127.0.0.1", "--save", ""]
            command += ["--dir", str(own)]
            if self.flush == "never":
                command += ["--appendonly", "no"]
            else:
                command += ["--appendonly", "yes", "--appendfsync", self.flush]
            if port != self.port:
                command += ["--replicaof", "127.0.0.1", str(self.port)]
            if self._unix:
                self.socket = str(own / "redis.sock")
                command += ["--unixsocket", self.socket]
            self._servers.append(Server(command, own, port, self._core))
            self._servers[-1].start()
        self._until_all_follow()

    def _until_all_follow(self) -> None:
        end = time.monotonic() + WAIT_SECONDS
        if not self.replicas:
            return
        with self.address.connect() as base:
            while True:
                said = base.info("replication")
                states = [said.get(f"slave{at}", {}).get("state") for at in range(self.replicas)]
                if states == ["online"] * self.replicas:
                    return
                if time.monotonic() > end:
                    raise Missing("the replicas of Redis do not follow")
                time.sleep(0.05)

    def stop(self) -> None:
        for server in reversed(self._servers):
            server.stop()


class Place:
    """Where a server is: a port on loopback, or a Unix socket."""

    def __init__(self, port: int, path: str = "") -> None:
        self.port = port
        self.path = path

    def connect(self, wait: float = WAIT_SECONDS) -> Any:
        """A client of it."""
        import redis  # noqa: PLC0415 - the libraries of jobs have their own

        if self.path:
            return redis.Redis(unix_socket_path=self.path, socket_timeout=wait)
        return redis.Redis("127.0.0.1", self.port, socket_timeout=wait)
