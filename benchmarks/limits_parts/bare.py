"""The bare servers of one run, on the servers' core."""

import sys
from pathlib import Path

from benchmarks.fifo.server import Server

from snowmelt.cli.local import free_ports

ROOT = Path(__file__).resolve().parents[2]
KINDS = {
    "echo": ("never", "bytes"),
    "flushed": ("turn", "bytes"),
    "coded": ("turn", "put"),
    "second": ("turn", "bytes"),
    "third": ("turn", "bytes"),
    "copied": ("turn", "bytes", "second", "third"),
}
"""Each with how it flushes and decodes; and with its followers, which are started before it."""


class BareServers:
    """All of them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ports = dict(zip(KINDS, free_ports(len(KINDS)), strict=True))
        self._servers: dict[str, Server] = {}

    def port(self, kind: str) -> int:
        """Where one listens."""
        return self._ports[kind]

    def pids(self, kind: str) -> tuple[int, ...]:
        """Its process, and those of its followers."""
        several = [self._servers[one].process for one in (kind, *KINDS[kind][2:])]
        return tuple(one.pid for one in several if one is not None)

    def start(self) -> None:
        """Each in a process of its own."""
        for kind, (flush, codec, *followers) in KINDS.items():
            own = self._folder / kind
            own.mkdir()
            words = [str(self._ports[kind]), str(own / "file"), flush, codec]
            words += [str(self._ports[other]) for other in followers]
            command = [sys.executable, "-m", "benchmarks.limits_parts.bare_server", *words]
            server = Server(command, own, self._ports[kind])
            self._servers[kind] = server
            server.start({"PYTHONPATH": f"{ROOT}:{ROOT / 'src'}"})

    def stop(self) -> None:
        """Ends them."""
        for server in reversed(list(self._servers.values())):
            server.stop()
