"""PostgreSQL as Debian has it, with its own defaults: a commit is flushed before it is answered."""

import os
import pwd
import subprocess
from pathlib import Path
from typing import Final

from benchmarks.peers.comparison import WAIT_SECONDS, Missing
from benchmarks.peers.processes import Server, said_by

from snowmelt.cli.local import free_port

FOLDERS: Final = Path("/usr/lib/postgresql")
OWNER: Final = "postgres"
"""Whom it runs as when this program is root's, since it refuses to be root's itself."""


class Postgres:
    """A database cluster of its own."""

    def __init__(self, core: int | None = None) -> None:
        self.version = ""
        self.address = free_port()
        self._core = core
        self._server: Server | None = None

    @property
    def pids(self) -> list[int]:
        return [] if self._server is None else self._server.pids

    def start(self, folder: Path) -> None:
        programs = sorted(FOLDERS.glob("*/bin/postgres"))
        if not programs:
            raise Missing("there is no postgres here: apt-get install postgresql")
        binaries = programs[-1].parent
        self.version = said_by(str(programs[-1]), "--version").replace(" (PostgreSQL)", "")
        self.version = " ".join(self.version.split()[:2])
        data = folder / "data"
        data.mkdir()
        become: list[str] = []
        if os.geteuid() == 0:
            owner = pwd.getpwnam(OWNER)
            for own in (folder, data):
                os.chown(own, owner.pw_uid, owner.pw_gid)
            become = ["setpriv", f"--reuid={OWNER}", f"--regid={OWNER}", "--clear-groups"]
        made = subprocess.run(
            [*become, str(binaries / "initdb"), "-D", str(data), "-U", OWNER, "-A", "trust"],
            capture_output=True,
            text=True,
            timeout=2 * WAIT_SECONDS,
            check=False,
            cwd=folder,
        )
        if made.returncode:
            raise Missing(f"initdb failed: {made.stderr.strip()[-300:]}")
        command = [*become, str(programs[-1]), "-D", str(data), "-p", str(self.address)]
        command += ["-c", "listen_addresses=127.0.0.1", "-c", f"unix_socket_directories={folder}"]
        self._server = Server(command, folder, self.address, self._core)
        self._server.start()

    def stop(self) -> None:
        if self._server:
            self._server.stop()
