"""A server that is a function of ours, in a process of its own: what Python allows at most."""

import os
import sys
from pathlib import Path
from typing import Final

from benchmarks.peers.processes import Server

from snowmelt.cli.local import free_port

ROOT: Final = Path(__file__).parents[3]


class Python:
    """Runs `serve(port, path of its log)` of a module."""

    def __init__(self, module: str, core: int | None = None) -> None:
        self.version = f"Python {sys.version.split()[0]}"
        self.address = free_port()
        self._module = module
        self._core = core
        self._server: Server | None = None

    @property
    def pids(self) -> list[int]:
        return [] if self._server is None else self._server.pids

    def start(self, folder: Path) -> None:
        code = f"from {self._module} import serve; serve({self.address}, {str(folder / 'log')!r})"
        command = [sys.executable, "-c", code]
        self._server = Server(command, folder, self.address, self._core)
        self._server.start({"PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)])})

    def stop(self) -> None:
        if self._server is not None:
            self._server.stop()
