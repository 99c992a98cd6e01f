"""`multiprocessing.Queue`: a pipe between the processes that one program started.

It has no batches: a batch is as many puts, and as many gets of what is there.
"""

import multiprocessing
import queue
from collections.abc import Sequence
from functools import partial
from multiprocessing.queues import Queue
from pathlib import Path
from platform import python_version
from typing import Any

from benchmarks.pool_peers_parts.cell import Cell
from benchmarks.pool_peers_parts.peer import Body, Connect

FULL_SECONDS = 30.0


class QueuePeer:
    """It has no server; a turn's processes inherit the queue."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.batches_only = False
        self.promise = "at most once; a pipe, between processes of one machine"
        self.version = f"Python {python_version()}"

    def start(self, folder: Path) -> None:
        """There is nothing to start."""

    def open(self, queue: str, cell: Cell) -> Connect:
        del queue
        # A semaphore counts what waits, and the system's own bound of it is 32,767 at least.
        made: Queue[Any] = multiprocessing.get_context("spawn").Queue(min(cell.bound, 32_767))
        return partial(QueueClient, made)

    def remove(self, queue: str) -> None:
        """It is gone with its processes."""

    def stop(self) -> None:
        """There is nothing to stop."""


class QueueClient:
    """The queue as the standard library has it."""

    def __init__(self, queue: "Queue[Any]") -> None:
        self.queue = queue

    def put(self, bodies: list[bytes]) -> None:
        for body in bodies:
            self.queue.put(body, timeout=FULL_SECONDS)

    def get(self, count: int, seconds: float) -> Sequence[Body]:
        found: list[bytes] = []
        try:
            found.append(self.queue.get(timeout=seconds))
            while len(found) < count:
                found.append(self.queue.get_nowait())
        except queue.Empty:
            pass
        return found

    def ack(self) -> None:
        """There is nothing to settle."""

    def close(self) -> None:
        self.queue.close()
        self.queue.join_thread()
