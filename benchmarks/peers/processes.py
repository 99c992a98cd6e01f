"""A server's process: started on a core, waited for, and ended by its own id."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Final

from benchmarks.peers import cores
from benchmarks.peers.comparison import WAIT_SECONDS, Missing

from snowmelt.cli.local import listens

# Debian keeps servers out of users' paths.
PLACES: Final = [str(Path(sys.executable).parent), os.environ.get("PATH", ""), "/usr/sbin"]
TICK: Final = 1.0 / os.sysconf("SC_CLK_TCK")


def program(name: str, package: str) -> str:
    """Where a program is; beside this Python comes first, for servers that pip installed."""
    found = shutil.which(name, path=os.pathsep.join(PLACES))
    if found is None:
        raise Missing(f"there is no {name} here: apt-get install {package}")
    return found


def said_by(*command: str) -> str:
    """What a program prints, such as its version."""
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=WAIT_SECONDS, check=False
    )
    return (done.stdout or done.stderr).strip()


class Server:
    """A process that listens on a port of the loopback; its output goes to a log in its folder."""

    def __init__(
        self, command: list[str], folder: Path, port: int, core: int | None = None
    ) -> None:
        self.command = command
        self.folder = folder
        self.log = folder / "output.log"
        self.port = port
        self.core = core
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def pids(self) -> list[int]:
        return [] if self.process is None else [self.process.pid]

    def start(self, environment: Mapping[str, str] | None = None) -> None:
        """Starts it, and returns when it listens."""
        where = nullcontext() if self.core is None else cores.on(self.core)
        with self.log.open("ab") as log, where:
            self.process = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                env=os.environ | dict(environment or {}),
                start_new_session=True,  # Ctrl-C is for the driver, which stops them all
            )
        end = time.monotonic() + 2 * WAIT_SECONDS
        while not listens(self.port):
            if self.process.poll() is not None or time.monotonic() > end:
                raise Missing(f"{self.command[0]} does not listen: {last_words(self.log)}")
            time.sleep(0.05)

    def kill(self) -> None:
        """By SIGKILL."""
        assert self.process is not None
        self.process.kill()
        self.process.wait(WAIT_SECONDS)

    def stop(self) -> None:
        """Ends it: in order when it obeys, by force when it does not."""
        if self.process is None:
            return
        self.process.terminate()
        try:
            self.process.wait(WAIT_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(WAIT_SECONDS)


def last_words(log: Path) -> str:
    lines = log.read_text(errors="replace").strip().splitlines()
    return lines[-1] if lines else "it said nothing"


def worked(pids: Iterable[int]) -> float:
    """Seconds of the processor that these processes used, and all that they started."""
    parents: dict[int, list[int]] = {}
    used: dict[int, float] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            words = (entry / "stat").read_text().rpartition(")")[2].split()
            threads = [one.read_text().split()[0] for one in (entry / "task").glob("*/schedstat")]
        except OSError:  # it ended meanwhile
            continue
        parents.setdefault(int(words[1]), []).append(int(entry.name))
        ended = sum(map(int, words[13:15])) * TICK  # of its children
        used[int(entry.name)] = ended + sum(map(int, threads)) / 1e9
    found, left = set[int](), list(pids)
    while left:
        one = left.pop()
        if one not in found:
            found.add(one)
            left += parents.get(one, [])
    return sum(used.get(one, 0.0) for one in found)
