"""`distributed.Queue`: an asyncio queue in Dask's scheduler.

It has no batched put: a batch is as many puts. A batched get takes all that is there, and does not
wait, so it begins with a get of one.
"""

import subprocess
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import distributed
from benchmarks.fifo.peer import WAIT_SECONDS, Missing
from benchmarks.pool_peers_parts.cell import Cell
from benchmarks.pool_peers_parts.peer import Body, Connect

from snowmelt.cli.local import free_port, listens

dask: Any = distributed  # it says nothing of its types


class DaskPeer:
    """A scheduler without workers: a queue needs none."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.batches_only = False
        self.promise = "at most once; the scheduler's memory"
        self.version = f"Dask {dask.__version__}"
        self.port = free_port()
        self.scheduler: subprocess.Popen[bytes] | None = None

    def start(self, folder: Path) -> None:
        command = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--no-dashboard"]
        with (folder / "output.log").open("ab") as log:
            self.scheduler = subprocess.Popen(
                [*command, "--host", "127.0.0.1", "--port", str(self.port)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=folder,
                start_new_session=True,  # Ctrl-C is for the driver, which stops them all
            )
        end = time.monotonic() + WAIT_SECONDS
        while not listens(self.port):
            if self.scheduler.poll() is not None or time.monotonic() > end:
                raise Missing(f"Dask's scheduler does not listen: see {folder / 'output.log'}")
            time.sleep(0.1)

    def open(self, queue: str, cell: Cell) -> Connect:
        return partial(DaskClient, self.port, queue, cell.bound)

    def remove(self, queue: str) -> None:
        """It is gone with its last client."""

    def stop(self) -> None:
        if self.scheduler is None:
            return
        self.scheduler.terminate()
        try:
            self.scheduler.wait(WAIT_SECONDS)
        except subprocess.TimeoutExpired:
            self.scheduler.kill()
            self.scheduler.wait(WAIT_SECONDS)


class DaskClient:
    """A client of the scheduler."""

    def __init__(self, port: int, queue: str, bound: int) -> None:
        self.client = dask.Client(f"tcp://127.0.0.1:{port}", set_as_default=False)
        self.queue = dask.Queue(queue, client=self.client, maxsize=bound)

    def put(self, bodies: list[bytes]) -> None:
        for body in bodies:
            self.queue.put(body, timeout=WAIT_SECONDS)

    def get(self, count: int, seconds: float) -> Sequence[Body]:
        try:
            found: list[bytes] = [self.queue.get(timeout=seconds)]
        except TimeoutError:
            return []
        if count > 1:
            found += self.queue.get(batch=True)
        return found

    def ack(self) -> None:
        """There is nothing to settle."""

    def close(self) -> None:
        self.client.close(WAIT_SECONDS)
