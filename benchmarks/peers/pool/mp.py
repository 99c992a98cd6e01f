"""`multiprocessing.Queue`: a pipe between the processes that one program started.

It has no batches: a batch is as many puts, and as many gets of what is there.
"""

import multiprocessing
import queue
from collections.abc import Sequence
from functools import partial
from multiprocessing.queues import Queue
from platform import python_version
from typing import Any

from benchmarks.peers.comparison import NoService
from benchmarks.peers.pool.cell import Cell
from benchmarks.peers.pool.clients import Body, Connect, PoolPeer

FULL_SECONDS = 30.0


def peer(name: str) -> PoolPeer:
    return PoolPeer(
        name=name,
        promise="at most once; a pipe, between processes of one machine",
        service=NoService(f"Python {python_version()}"),
        above=False,
        open=opened,
    )


def opened(service: NoService, queue: str, cell: Cell) -> Connect:
    """A turn's processes inherit it."""
    del service, queue
    # A semaphore counts what waits, and the system's own bound of it is 32,767 at least.
    made: Queue[Any] = multiprocessing.get_context("spawn").Queue(min(cell.bound, 32_767))
    return partial(QueueClient, made)


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
