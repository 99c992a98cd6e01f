"""Redis: a stream with one consumer group.

A batch is one pipeline. What is acknowledged is deleted in the same pipeline, or the stream would
keep all that ever passed through it.
"""

from functools import partial
from pathlib import Path
from typing import Any

import redis
from benchmarks.fifo.peer import WAIT_SECONDS, Connect
from benchmarks.fifo.server import Server, program, said_by

from snowmelt.cli.local import free_port

PROMISES = {"everysec": "flushes every second", "always": "flushes before it answers"}
GROUP = "workers"


class RedisPeer:
    """One server with an append-only file, and no snapshots beside it."""

    def __init__(self, name: str, flush: str) -> None:
        self.name = name
        self.promise = PROMISES[flush]
        self.flushes_first = flush == "always"
        self.only_singles = False
        self.version = ""
        self.flush = flush
        self.port = free_port()
        self.server: Server | None = None

    def start(self, folder: Path) -> None:
        redis_server = program("redis-server", "redis-server")
        self.version = "Redis " + said_by(redis_server, "--version").split()[2].removeprefix("v=")
        command = [redis_server, "--port", str(self.port), "--bind", "127.0.0.1", "--save", ""]
        command += ["--dir", str(folder), "--appendonly", "yes", "--appendfsync", self.flush]
        self.server = Server(command, folder, self.port)
        self.server.start()

    def client(self, queue: str, batch: int) -> Connect:
        del batch
        return partial(RedisClient, self.port, queue)

    def stop(self) -> None:
        if self.server:
            self.server.stop()


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
