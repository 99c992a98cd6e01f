"""Snowmelt's pool: one node introduces the processes, and objects go from one to another."""

import time
from collections.abc import Sequence
from functools import partial
from typing import Any, Final, Literal

from benchmarks.peers.comparison import WAIT_SECONDS
from benchmarks.peers.pool.cell import Cell
from benchmarks.peers.pool.clients import Body, Connect, PoolPeer
from benchmarks.peers.servers.snowmelt import Nodes

import snowmelt
from snowmelt.core.errors import Empty

Delivery = Literal["at_least_once", "at_most_once"]

PROMISES: Final[dict[Delivery, str]] = {
    "at_least_once": "at least once; the memory of the process that made them",
    "at_most_once": "at most once; the memory of the process that made them",
}
Way = Literal["get", "loop"]
WAYS: Final[dict[Way, str]] = {"get": "", "loop": "; a loop, as its page advises"}
LOOK_SECONDS: Final = 0.01
EMPTIED_SECONDS: Final = 10.0


def pool(name: str, delivery: Delivery, way: Way = "get") -> PoolPeer:
    client = LoopClient if way == "loop" else PoolClient
    return PoolPeer(
        name=name,
        promise=PROMISES[delivery] + WAYS[way],
        service=Nodes(1),
        above=delivery == "at_least_once",
        open=partial(opened, client, delivery),
    )


def opened(client: Any, delivery: Delivery, service: Nodes, queue: str, cell: Cell) -> Connect:
    return partial(client, service.address, queue, cell.bound_each, delivery)


class PoolClient:
    """The blocking client."""

    def __init__(self, url: str, queue: str, bound: int, delivery: Delivery) -> None:
        self.cluster = snowmelt.connect(url)
        self.pool = self.cluster.pool(queue, buffers=bound, delivery=delivery)
        self.taken: Any = None

    def put(self, bodies: list[bytes]) -> None:
        if len(bodies) == 1:
            self.pool.put(bodies[0], timeout=WAIT_SECONDS)
        else:
            self.pool.put_many(bodies, timeout=WAIT_SECONDS)

    def get(self, count: int, seconds: float) -> Sequence[Body]:
        try:
            if count == 1:
                self.taken = self.pool.get(timeout=seconds)
                return [self.taken.body]
            self.taken = self.pool.get_many(count, timeout=seconds)
        except Empty:
            return []
        return list(self.taken.batch)

    def ack(self) -> None:
        self.taken.ack()

    def close(self) -> None:
        """A producer stays until the consumers have what it put, as others' servers do."""
        end = time.monotonic() + EMPTIED_SECONDS
        while time.monotonic() < end:
            stats = self.pool.stats()
            if not (stats.stock or stats.on_loan):
                break
            time.sleep(LOOK_SECONDS)
        self.pool.close()
        self.cluster.close()


class LoopClient(PoolClient):
    """The same; what comes is acknowledged when the next is asked for, and nobody waits for that.

    So does the client of RabbitMQ.
    """

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.loop: Any = None

    def get(self, count: int, seconds: float) -> Sequence[Body]:
        if self.loop is None:
            self.loop = self.pool.consume(timeout=seconds)
        bodies: list[Body] = []
        while len(bodies) < count:
            one = next(self.loop, None)  # a `for` would begin it anew
            if one is None:
                self.loop = None
                break
            self.taken = one
            bodies.append(one.body)
        return bodies

    def ack(self) -> None:
        """With the next get."""

    def close(self) -> None:
        if self.loop is not None:
            self.taken.ack()  # the last
            self.loop.close()
        super().close()
