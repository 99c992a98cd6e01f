"""No queue at all: a server in Python that writes what comes, flushes, and says so.

What any queue in Python that flushes before it answers can reach at most: nothing is decoded,
ordered, leased or kept to be read again. Its client sends bytes and waits for bytes.
"""

import asyncio
import os
import socket
from collections import deque
from pathlib import Path
from typing import Final, Self, cast

import uvloop
from benchmarks.peers import cores
from benchmarks.peers.comparison import WAIT_SECONDS, Peer
from benchmarks.peers.fifo.clients import QueuePeer
from benchmarks.peers.servers.python import Python

FRAME: Final = 128
ANSWER: Final = b"done"


def plain(name: str) -> Peer:
    return QueuePeer(
        name=name,
        promise="flushes before it answers; no queue, the limit of Python",
        service=Python(__name__, cores.SERVER),
        client=PlainClient,
        tasks=PlainTasks.open,
    )


def serve(port: int, path: str) -> None:
    """Until it is ended."""

    async def run() -> None:
        with Path(path).open("wb", buffering=0) as log:
            loop = asyncio.get_running_loop()
            server = await loop.create_server(lambda: Flushing(log.fileno()), "127.0.0.1", port)
            await server.serve_forever()

    uvloop.run(run())


class Flushing(asyncio.Protocol):
    """One connection: what came together is flushed once, and each frame is answered."""

    def __init__(self, log: int) -> None:
        self.log = log
        self.rest = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        came = self.rest + data
        count = len(came) // FRAME
        self.rest = came[count * FRAME :]
        if count:
            os.write(self.log, came[: count * FRAME])
            os.fdatasync(self.log)
            self.transport.write(ANSWER * count)


class PlainClient:
    """Blocking."""

    def __init__(self, port: int, queue: str, batch: int) -> None:
        del queue, batch
        self.link = socket.create_connection(("127.0.0.1", port), WAIT_SECONDS)
        self.link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def put(self, bodies: list[bytes]) -> None:
        self._ask(b"".join([body[:FRAME].ljust(FRAME) for body in bodies]))

    def take(self, count: int) -> int:
        self._ask(bytes(FRAME * count))
        return count

    def settle(self) -> None:
        """Nothing is open."""

    def close(self) -> None:
        self.link.close()

    def _ask(self, frames: bytes) -> None:
        self.link.sendall(frames)
        left = len(frames) // FRAME * len(ANSWER)
        while left:
            came = len(self.link.recv(left))
            if not came:
                raise ConnectionError("the server is gone")
            left -= came


class PlainTasks(asyncio.Protocol):
    """One connection for all tasks, which are answered in the order in which they asked."""

    def __init__(self) -> None:
        self.waiting: deque[asyncio.Future[None]] = deque()
        self.came = 0

    @classmethod
    async def open(cls, port: int, queue: str, tasks: int) -> Self:
        del queue, tasks
        found = cls()
        await asyncio.get_running_loop().create_connection(lambda: found, "127.0.0.1", port)
        return found

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self.came += len(data)
        while self.came >= len(ANSWER):
            self.came -= len(ANSWER)
            self.waiting.popleft().set_result(None)

    async def put(self, body: bytes) -> None:
        await self._ask(body[:FRAME].ljust(FRAME))

    async def take(self, task: int) -> None:
        del task
        await self._ask(bytes(FRAME))

    async def settle(self, task: int) -> None:
        """Nothing is open."""

    async def close(self) -> None:
        self.transport.close()

    async def _ask(self, frame: bytes) -> None:
        answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.waiting.append(answer)
        self.transport.write(frame)
        await answer
