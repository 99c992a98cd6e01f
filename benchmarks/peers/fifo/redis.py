"""Redis: a stream with one consumer group.

A batch is one pipeline. What is acknowledged is deleted in the same pipeline, or the stream would
keep all that ever passed through it.
"""

from typing import Any, Final, Self

import redis
import redis.asyncio
from benchmarks.peers import cores
from benchmarks.peers.comparison import Peer
from benchmarks.peers.fifo.clients import QueuePeer
from benchmarks.peers.servers.redis import PROMISES, Flush, Place, Redis

GROUP: Final = "workers"


def streams(name: str, flush: Flush) -> Peer:
    return QueuePeer(
        name=name,
        promise=PROMISES[flush],
        service=Redis(flush, cores.SERVER),
        above=flush == "always",
        client=RedisClient,
        tasks=RedisTasks.open,
    )


class RedisClient:
    """Pipelines without transactions, as the guide to pipelining has them."""

    def __init__(self, place: Place, stream: str, batch: int) -> None:
        del batch
        self.base = place.connect()
        self.stream = stream
        try:
            self.base.xgroup_create(stream, GROUP, id="0", mkstream=True)
        except redis.ResponseError as error:  # another of the clients was first
            if "BUSYGROUP" not in str(error):
                raise

    def put(self, bodies: list[bytes]) -> None:
        if len(bodies) == 1:
            self.base.xadd(self.stream, {b"b": bodies[0]})
            return
        pipeline = self.base.pipeline(transaction=False)
        for body in bodies:
            pipeline.xadd(self.stream, {b"b": body})
        pipeline.execute()

    def take(self, count: int) -> int:
        found: Any = self.base.xreadgroup(GROUP, "one", {self.stream: ">"}, count=count)
        if not found:
            return 0
        ids = [number for number, _ in found[0][1]]
        pipeline = self.base.pipeline(transaction=False)
        pipeline.xack(self.stream, GROUP, *ids)
        pipeline.xdel(self.stream, *ids)
        pipeline.execute()
        return len(ids)

    def settle(self) -> None:
        """Every call has settled what it took."""

    def close(self) -> None:
        self.base.delete(self.stream)
        self.base.close()


class RedisTasks:
    """The client with `await`, which has a connection for each call that waits."""

    def __init__(self, port: int, stream: str, tasks: int) -> None:
        self.base: Any = redis.asyncio.Redis(host="127.0.0.1", port=port, max_connections=2 * tasks)
        self.stream = stream

    @classmethod
    async def open(cls, place: Place, stream: str, tasks: int) -> Self:
        found = cls(place.port, stream, tasks)
        await found.base.xgroup_create(stream, GROUP, id="0", mkstream=True)
        return found

    async def put(self, body: bytes) -> None:
        await self.base.xadd(self.stream, {b"b": body})

    async def take(self, task: int) -> None:
        found = await self.base.xreadgroup(GROUP, f"{task}", {self.stream: ">"}, count=1)
        ((number, _),) = found[0][1]
        async with self.base.pipeline(transaction=False) as pipeline:
            pipeline.xack(self.stream, GROUP, number)
            pipeline.xdel(self.stream, number)
            await pipeline.execute()

    async def settle(self, task: int) -> None:
        """Every call has settled what it took."""

    async def close(self) -> None:
        await self.base.delete(self.stream)
        await self.base.aclose()
