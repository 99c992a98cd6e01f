"""A server's process, on any core that is free, as its clients are."""

import subprocess
import time
from pathlib import Path

from benchmarks.fifo.peer import WAIT_SECONDS, Missing

from snowmelt.cli.local import listens


class Server:
    """Started until it listens on a port of the loopback, and ended by its own id."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, command: list[str], port: int, log: Path) -> None:
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,  # Ctrl-C is for the driver, which stops them all
            )
        end = time.monotonic() + WAIT_SECONDS
        while not listens(port):
            if self.process.poll() is not None or time.monotonic() > end:
                raise Missing(f"{command[0]} does not listen: {last_line(log)}")
            time.sleep(0.05)

    def stop(self) -> None:
        if self.process is None:
            return
        self.process.terminate()
        try:
            self.process.wait(WAIT_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(WAIT_SECONDS)


def last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").strip().splitlines()
    return lines[-1] if lines else "it said nothing"
