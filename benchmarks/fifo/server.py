"""A server's process: started on the servers' core, waited for, and ended by its own id."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.fifo import cores
from benchmarks.fifo.peer import WAIT_SECONDS, Missing

from snowmelt.cli.local import listens

# Debian keeps servers out of users' paths.
PLACES = [str(Path(sys.executable).parent), os.environ.get("PATH", ""), "/usr/sbin"]


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

    def __init__(self, command: list[str], folder: Path, port: int) -> None:
        self.command = command
        self.log = folder / "output.log"
        self.port = port
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, environment: dict[str, str] | None = None) -> None:
        """Starts it, and returns when it listens."""
        with self.log.open("ab") as log, cores.on(cores.SERVER):
            self.process = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=os.environ | (environment or {}),
                start_new_session=True,  # Ctrl-C is for the driver, which stops them all
            )
        end = time.monotonic() + 2 * WAIT_SECONDS
        while not listens(self.port):
            if self.process.poll() is not None or time.monotonic() > end:
                raise Missing(f"{self.command[0]} does not listen: {self.last_words()}")
            time.sleep(0.05)

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

    def last_words(self) -> str:
        lines = self.log.read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else "it said nothing"
