"""`ray.util.queue.Queue`: an asyncio queue in one actor of a Ray on this machine.

Every process of a turn is a driver of that Ray. Its batched calls do not wait: a put that finds no
room, or a get that finds fewer than a batch, is made again after a millisecond.
"""

import logging
import os
import signal
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
# What Ray warns about here is that no accelerator is given to it, and there is none.
os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")

import ray
from benchmarks.peers.comparison import WAIT_SECONDS, Missing
from benchmarks.peers.pool.cell import Cell
from benchmarks.peers.pool.clients import Body, Connect, PoolPeer
from ray.util.queue import Empty, Full, Queue

STORE_BYTES: Final = 512 << 20
LOOK_SECONDS: Final = 0.001
SPACE: Final = "pool"


class Ray:
    """One of its own: two processes of one machine share objects by its memory store."""

    def __init__(self) -> None:
        self.version = f"Ray {ray.__version__}"
        self.address = ""
        self.queues: dict[str, Queue] = {}
        self.pids: list[int] = []

    def start(self, folder: Path) -> None:
        del folder  # its sockets' paths would be too long there, so it has its own folder
        ending = signal.getsignal(signal.SIGTERM)
        try:
            context: Any = ray.init(
                include_dashboard=False,
                object_store_memory=STORE_BYTES,
                namespace=SPACE,
                logging_level=logging.ERROR,
                log_to_driver=False,
            )
        except Exception as error:  # whatever it raises, it is not here
            raise Missing(f"Ray did not start: {type(error).__name__}: {error}") from error
        # Ray has put its own in place, which would end this program and stop no server.
        signal.signal(signal.SIGTERM, ending)
        self.address = context.address_info["address"]

    def stop(self) -> None:
        ray.shutdown()


def peer(name: str) -> PoolPeer:
    return PoolPeer(
        name=name,
        promise="at most once; an actor's memory, large objects in shared memory",
        service=Ray(),
        above=False,
        open=opened,
        remove=lambda service, queue: service.queues.pop(queue).shutdown(force=True),
    )


def opened(service: Ray, queue: str, cell: Cell) -> Connect:
    options = {"name": queue, "num_cpus": 0}
    service.queues[queue] = Queue(cell.bound, actor_options=options)
    service.queues[queue].qsize()  # until the actor runs
    return partial(RayClient, service.address, queue, cell.bound)


class RayClient:
    """A driver that was told the actor's name."""

    def __init__(self, address: str, queue: str, bound: int) -> None:
        ray.init(address, namespace=SPACE, logging_level=logging.ERROR, log_to_driver=False)
        self.queue = Queue.__new__(Queue)  # made as usual it would start an actor
        self.queue.maxsize = bound
        self.queue.actor = ray.get_actor(queue)

    def put(self, bodies: list[bytes]) -> None:
        if len(bodies) == 1:
            self.queue.put(bodies[0], timeout=WAIT_SECONDS)
        else:
            again(partial(self.queue.put_nowait_batch, bodies), Full, WAIT_SECONDS)

    def get(self, count: int, seconds: float) -> Sequence[Body]:
        try:
            if count == 1:
                return [self.queue.get(timeout=seconds)]
            found: list[bytes] = again(partial(self.queue.get_nowait_batch, count), Empty, seconds)
        except Empty:
            return []
        return found

    def ack(self) -> None:
        """There is nothing to settle."""

    def close(self) -> None:
        ray.shutdown()


def again(call: Callable[[], Any], unless: type[Exception], seconds: float) -> Any:
    """What it returns, once it does not raise; raises when that takes too long."""
    end = time.monotonic() + seconds
    while True:
        try:
            return call()
        except unless:
            if time.monotonic() > end:
                raise
        time.sleep(LOOK_SECONDS)
