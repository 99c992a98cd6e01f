"""Workers of Celery as programs of their own, and what their tasks noted."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).parent


def start(url: str, folder: Path, *options: str, **environment: str) -> "subprocess.Popen[bytes]":
    """A worker with two processes, in a group of its own."""
    command = ["worker", "--concurrency", "2", "--loglevel", "INFO", *options]
    own = {name: value for name, value in os.environ.items() if "SNOWMELT" not in name}
    own |= {"SNOWMELT_URL": url, "STORM_NOTES": str(folder / "notes"), **environment}
    with (folder / "worker.log").open("ab") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "celery", "-A", "storm_tasks", *command],
            cwd=HERE,
            env=own,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def kill(process: "subprocess.Popen[bytes]", number: int = signal.SIGKILL) -> None:
    """A signal for the worker and the processes of its pool."""
    if process.poll() is None:
        os.killpg(process.pid, number)
        process.wait(30)


@contextmanager
def worker(
    url: str, folder: Path, *options: str, **environment: str
) -> Iterator["subprocess.Popen[bytes]"]:
    """One that ends with the block."""
    started = start(url, folder, *options, **environment)
    try:
        yield started
    finally:
        kill(started)


def children(parent: int) -> list[int]:
    """The processes of a worker's pool."""
    found = Path(f"/proc/{parent}/task/{parent}/children").read_text()
    return [int(one) for one in found.split()]


def ran(folder: Path) -> dict[int, list[tuple[float, int]]]:
    """When each task began, and in which process, each time that it did."""
    found = {}
    for one in (folder / "notes").iterdir():
        lines = [line.split() for line in one.read_text().splitlines()]
        found[int(one.name)] = [(float(began), int(pid)) for began, pid in lines]
    return found


def until(true: Callable[[], object], seconds: float = 60.0) -> bool:
    """Whether it came true in time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if true():
            return True
        time.sleep(0.1)
    return False
