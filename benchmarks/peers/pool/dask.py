"""`distributed.Queue`: an asyncio queue in Dask's scheduler.

It has no batched put: a batch is as many puts. A batched get takes all that is there, and does not
wait, so it begins with a get of one.
"""

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import distributed
from benchmarks.peers.comparison import WAIT_SECONDS
from benchmarks.peers.pool.clients import Body, PoolPeer
from benchmarks.peers.processes import Server

from snowmelt.cli.local import free_port

dask: Any = distributed  # it says nothing of its types


class Scheduler:
    """Without workers: a queue needs none."""

    def __init__(self) -> None:
        self.version = f"Dask {dask.__version__}"
        self.port = free_port()
        self._server: Server | None = None

    @property
    def pids(self) -> list[int]:
        return [] if self._server is None else self._server.pids

    def start(self, folder: Path) -> None:
        command = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--no-dashboard"]
        command += ["--host", "127.0.0.1", "--port", str(self.port)]
        self._server = Server(command, folder, self.port)
        self._server.start()

    def stop(self) -> None:
        if self._server is not None:
            self._server.stop()


def peer(name: str) -> PoolPeer:
    return PoolPeer(
        name=name,
        promise="at most once; the scheduler's memory",
        service=Scheduler(),
        above=False,
        open=lambda service, queue, cell: partial(DaskClient, service.port, queue, cell.bound),
    )


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
