"""NATS JetStream: a work-queue stream in files, and one consumer that pulls.

A batch is published with many in flight. Every item has an acknowledgement of its own, as a work
queue demands; the last of a call waits for the server's answer, and the others went before it on
the same connection.
"""

import asyncio
from contextlib import suppress
from typing import Self

import nats
import uvloop
from benchmarks.peers import cores
from benchmarks.peers.comparison import WAIT_SECONDS, Peer
from benchmarks.peers.fifo.clients import QueuePeer
from benchmarks.peers.servers.nats import Nats
from nats.aio.client import Client as Connection
from nats.errors import TimeoutError as NothingCame
from nats.js import JetStreamContext
from nats.js.api import ConsumerConfig, RetentionPolicy, StorageType, StreamConfig
from nats.js.errors import NotFoundError


def jetstream(name: str, always: bool) -> Peer:
    return QueuePeer(
        name=name,
        promise="flushes before it answers" if always else "flushes every 2 minutes",
        service=Nats(cores.SERVER, always=always),
        above=always,
        client=NatsClient,
        tasks=NatsTasks.open,
    )


WORKERS = ConsumerConfig(max_ack_pending=10_000)


def stream_of(name: str) -> StreamConfig:
    return StreamConfig(
        name=name,
        subjects=[name],
        retention=RetentionPolicy.WORK_QUEUE,
        storage=StorageType.FILE,
    )


class NatsClient:
    """An event loop that runs only during calls, since the load waits for each."""

    def __init__(self, port: int, stream: str, batch: int) -> None:
        del batch
        self.loop = uvloop.new_event_loop()
        self.stream = stream
        self.connection: Connection
        self.context: JetStreamContext
        self.loop.run_until_complete(self._open(port))

    def put(self, bodies: list[bytes]) -> None:
        self.loop.run_until_complete(self._put(bodies))

    def take(self, count: int) -> int:
        return self.loop.run_until_complete(self._take(count))

    def settle(self) -> None:
        """Every call has settled what it took."""

    def close(self) -> None:
        self.loop.run_until_complete(self._close())
        self.loop.close()

    async def _open(self, port: int) -> None:
        self.connection = await nats.connect(f"nats://127.0.0.1:{port}")
        self.context = self.connection.jetstream(timeout=WAIT_SECONDS)
        await self.context.add_stream(stream_of(self.stream))
        self.pull = await self.context.pull_subscribe(self.stream, "workers", config=WORKERS)

    async def _put(self, bodies: list[bytes]) -> None:
        if len(bodies) == 1:
            await self.context.publish(self.stream, bodies[0])
            return
        sent = [await self.context.publish_async(self.stream, body) for body in bodies]
        async with asyncio.timeout(WAIT_SECONDS):
            await asyncio.gather(*sent)

    async def _take(self, count: int) -> int:
        try:
            found = await self.pull.fetch(count, timeout=5)
        except NothingCame:
            return 0
        for message in found[:-1]:
            await message.ack()
        await found[-1].ack_sync(timeout=WAIT_SECONDS)
        return len(found)

    async def _close(self) -> None:
        with suppress(NotFoundError):  # another of the clients was first
            await self.context.delete_stream(self.stream)
        await self.connection.close()


class NatsTasks:
    """One connection for all tasks, each of which pulls for itself."""

    def __init__(
        self, connection: Connection, stream: str, pulls: list[JetStreamContext.PullSubscription]
    ) -> None:
        self.connection = connection
        self.context = connection.jetstream(timeout=WAIT_SECONDS)
        self.stream = stream
        self.pulls = pulls

    @classmethod
    async def open(cls, port: int, stream: str, tasks: int) -> Self:
        connection = await nats.connect(f"nats://127.0.0.1:{port}")
        context = connection.jetstream(timeout=WAIT_SECONDS)
        await context.add_stream(stream_of(stream))
        pulls = [
            await context.pull_subscribe(stream, "workers", config=WORKERS) for _ in range(tasks)
        ]
        return cls(connection, stream, pulls)

    async def put(self, body: bytes) -> None:
        await self.context.publish(self.stream, body)

    async def take(self, task: int) -> None:
        (message,) = await self.pulls[task].fetch(1, timeout=WAIT_SECONDS)
        await message.ack_sync(timeout=WAIT_SECONDS)

    async def settle(self, task: int) -> None:
        """Every call has settled what it took."""

    async def close(self) -> None:
        await self.context.delete_stream(self.stream)
        await self.connection.close()
