"""A PostgreSQL in a folder of its own, as Debian has it."""

import os
import pwd
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

PROGRAMS = sorted(Path("/usr/lib/postgresql").glob("*/bin"))


class Postgres:
    """A server on a Unix socket, which may be killed and started again."""

    def __init__(self, folder: Path) -> None:
        self.dsn = f"postgresql:///postgres?host={folder}&user=postgres"
        self._folder = folder
        self._user = "postgres" if os.geteuid() == 0 else None
        self._process: subprocess.Popen[bytes] | None = None
        if self._user:
            owner = pwd.getpwnam(self._user)
            os.chown(folder, owner.pw_uid, owner.pw_gid)
        made = self._begun("initdb", "-D", "data", "-U", "postgres", "-A", "trust", "--no-sync")
        assert made.wait(60) == 0

    def _begun(self, program: str, *options: str) -> subprocess.Popen[bytes]:
        command = [str(PROGRAMS[-1] / program), *options]
        with (self._folder / "log").open("ab") as log:
            return subprocess.Popen(
                command, cwd=self._folder, stdout=log, stderr=log,
                user=self._user, group=self._user, extra_groups=[] if self._user else None,
            )  # fmt: skip

    def start(self) -> None:
        """Starts it, and waits until it answers."""
        end = time.monotonic() + 30
        while time.monotonic() < end:
            if self._process is None or self._process.poll() is not None:  # not yet all have gone
                options = ["-D", "data", "-k", str(self._folder), "-c", "listen_addresses="]
                self._process = self._begun("postgres", *options)
            try:
                psycopg.connect(self.dsn).close()
            except psycopg.OperationalError:
                time.sleep(0.05)
            else:
                return
        raise TimeoutError((self._folder / "log").read_text())

    def kill(self) -> None:
        """Kills it; what it began for connections sees that, and ends."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def stop(self) -> None:
        """Ends it at once."""
        if self._process is not None:
            self._process.send_signal(3)
            self._process.wait(30)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    if not PROGRAMS:
        pytest.skip("there is no PostgreSQL here: apt-get install postgresql")
    folder = Path(tempfile.mkdtemp(prefix="pg", dir="/tmp"))  # a socket's path is a short one
    folder.chmod(0o755)
    server = Postgres(folder)
    server.start()
    yield server
    server.stop()
    shutil.rmtree(folder)
