"""Redis: a sorted set with `ZADD` and `ZPOPMIN`, and nothing else: it loses what it hands out.

Whoever dies after `ZPOPMIN` takes its items along: nothing is leased, and nothing comes back. A
thousand items are one command, or a pipeline of a command for each, as programs do that take what
comes one by one. A member is a number, so that no two are alike, and the body; its score is a
float: 53 bits of a priority count.
"""

from itertools import count, islice
from typing import Any, Final, Self

import redis.asyncio
from benchmarks.peers import cores
from benchmarks.peers.comparison import Peer
from benchmarks.peers.fifo.clients import EVERY, QueuePeer
from benchmarks.peers.priority.urgency import any_priorities
from benchmarks.peers.servers.redis import Place, Redis

NUMBER_BYTES: Final = 8


def plain_set(name: str) -> Peer:
    return QueuePeer(
        name=name,
        promise="flushes before it answers; loses what it hands out",
        service=Redis("always", cores.SERVER),
        client=PlainSetClient,
        tasks=PlainSetTasks.open,
        ways=EVERY,
    )


def pipeline(name: str) -> Peer:
    """The same server, asked in pipelines of a command for each item."""
    return QueuePeer(
        name=name,
        promise="flushes before it answers; loses what it hands out; pipelines",
        service=Redis("always", cores.SERVER),
        client=PipelineClient,
        ways=frozenset({"many"}),
    )


class PlainSetClient:
    """The blocking client. There is nothing to acknowledge."""

    def __init__(self, place: Place, queue: str, batch: int) -> None:
        del batch
        self.base = place.connect()
        self.queue = queue
        self.numbers = count()
        self.next = any_priorities()

    def put(self, bodies: list[bytes]) -> None:
        row = zip(self.numbers, bodies, islice(self.next, len(bodies)), strict=False)
        self.base.zadd(
            self.queue, {at.to_bytes(NUMBER_BYTES) + body: priority for at, body, priority in row}
        )

    def take(self, most: int) -> int:
        return len(self.base.zpopmin(self.queue, most))

    def settle(self) -> None:
        """It is gone since it was handed out."""

    def close(self) -> None:
        self.base.delete(self.queue)
        self.base.close()


class PipelineClient(PlainSetClient):
    """The blocking client, in pipelines."""

    def put(self, bodies: list[bytes]) -> None:
        with self.base.pipeline(transaction=False) as commands:
            for at, body, priority in zip(self.numbers, bodies, self.next, strict=False):
                commands.zadd(self.queue, {at.to_bytes(NUMBER_BYTES) + body: priority})
            commands.execute()

    def take(self, most: int) -> int:
        with self.base.pipeline(transaction=False) as commands:
            for _ in range(most):
                commands.zpopmin(self.queue)
            return sum(map(len, commands.execute()))


class PlainSetTasks:
    """The client with `await`, which has a connection for each call that waits."""

    def __init__(self, port: int, queue: str, tasks: int) -> None:
        self.base: Any = redis.asyncio.Redis(host="127.0.0.1", port=port, max_connections=2 * tasks)
        self.queue = queue
        self.numbers = count()
        self.next = any_priorities()

    @classmethod
    async def open(cls, place: Place, queue: str, tasks: int) -> Self:
        return cls(place.port, queue, tasks)

    async def put(self, body: bytes) -> None:
        name = next(self.numbers).to_bytes(NUMBER_BYTES) + body
        await self.base.zadd(self.queue, {name: next(self.next)})

    async def take(self, task: int) -> None:
        del task
        await self.base.zpopmin(self.queue, 1)

    async def settle(self, task: int) -> None:
        """It is gone since it was handed out."""

    async def close(self) -> None:
        await self.base.delete(self.queue)
        await self.base.aclose()
