"""Redis: a stream with one consumer group.

A batch is one pipeline. What is acknowledged is deleted in the same pipeline, or the stream would
keep all that ever passed through it.
"""

import time
from functools import partial
from pathlib import Path
from typing import Any

import redis
import redis.asyncio
from benchmarks.fifo.peer import EVERY, WAIT_SECONDS, Connect, ConnectTasks, Missing
from benchmarks.fifo.server import Server, program, said_by

from snowmelt.cli.local import free_ports

PROMISES = {"everysec": "flushes every second", "always": "flushes before it answers"}
GROUP = "workers"


class RedisPeer:
    """One server with an append-only file, and no snapshots beside it; and replicas, if any."""

    def __init__(self, name: str, flush: str, replicas: int = 0) -> None:
        self.name = name
        self.replicas = replicas
        self.promise = PROMISES[flush] + (f", and {replicas} replicas too" if replicas else "")
        self.flushes_first = flush == "always"
        self.ways = EVERY
        self.version = ""
        self.flush = flush
        self.port, *self.others = free_ports(1 + replicas)
        self.servers: list[Server] = []

    def start(self, folder: Path) -> None:
        redis_server = program("redis-server", "redis-server")
        self.version = "Redis " + said_by(redis_server, "--version").split()[2].removeprefix("v=")
        for port in (self.port, *self.others):
            own = folder / str(port)
            own.mkdir()
            command = [redis_server, "--port", str(port), "--bind", "127.0.0.1", "--save", ""]
            command += ["--dir", str(own), "--appendonly", "yes", "--appendfsync", self.flush]
            if port != self.port:
                command += ["--replicaof", "127.0.0.1", str(self.port)]
            self.servers.append(Server(command, own, port))
            self.servers[-1].start()
        self._until_all_follow()

    def _until_all_follow(self) -> None:
        base: Any = redis.Redis("127.0.0.1", self.port, socket_timeout=WAIT_SECONDS)
        end = time.monotonic() + WAIT_SECONDS
        while self.replicas:
            said = base.info("replication")
            if [said.get(f"slave{at}", {}).get("state") for at in range(self.replicas)] == (
                ["online"] * self.replicas
            ):
                break
            if time.monotonic() > end:
                raise Missing("the replicas of Redis do not follow")
            time.sleep(0.05)
        base.close()

    def client(self, queue: str, batch: int) -> Connect:
        del batch
        return partial(RedisClient, self.port, queue)

    def tasks(self, queue: str, tasks: int) -> ConnectTasks:
        return partial(connect_tasks, self.port, queue, tasks)

    def stop(self) -> None:
        for server in reversed(self.servers):
            server.stop()


class RedisClient:
    """Pipelines without transactions, as the guide to pipelining has them."""

    def __init__(self, port: int, stream: str) -> None:
        self.base = redis.Redis("127.0.0.1", port, socket_timeout=WAIT_SECONDS)
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


async def connect_tasks(port: int, stream: str, tasks: int) -> "RedisTasks":
    found = RedisTasks(port, stream, tasks)
    await found.base.xgroup_create(stream, GROUP, id="0", mkstream=True)
    return found


class RedisTasks:
    """The client with `await`, which has a connection for each call that waits."""

    def __init__(self, port: int, stream: str, tasks: int) -> None:
        self.base: Any = redis.asyncio.Redis(host="127.0.0.1", port=port, max_connections=2 * tasks)
        self.stream = stream

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
