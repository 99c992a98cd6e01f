"""The least queue that there can be in Python: what one that keeps the same promise costs at least.

A put is decoded, placed, recorded, flushed and answered; a get takes the most urgent, records its
lease and the acknowledgement that came with it, flushes, and answers. That is all: it knows no
second try of a call, no end of a lease, no bounds, no reader of what it wrote, and one queue of one
node. Its client encodes, sends, waits and decodes, and tries nothing again. So between it and
Snowmelt lies what may be saved, and between it and the others what Python costs.
"""

import asyncio
import os
import socket
from heapq import heappop, heappush
from pathlib import Path
from typing import Final, cast
from zlib import crc32

import msgspec
import uvloop
from benchmarks.peers import cores
from benchmarks.peers.comparison import WAIT_SECONDS, Peer
from benchmarks.peers.fifo.clients import QueuePeer
from benchmarks.peers.priority.urgency import urgencies
from benchmarks.peers.servers.python import Python

LENGTH_BYTES: Final = 4
PAGE: Final = 4096
LOG_BYTES: Final = 16 << 20
"""Written round and round, over what is there, which flushes quicker than at a file's end."""


class Put(msgspec.Struct, tag=1, array_like=True, gc=False):
    """Store this, so urgent."""

    number: int
    priority: int
    body: bytes


class Get(msgspec.Struct, tag=2, array_like=True, gc=False):
    """Lease the most urgent, if one is wanted, and have done with that one."""

    number: int
    done: int
    wanted: bool = True


class Stored(msgspec.Struct, tag=3, array_like=True, gc=False):
    """It is safe."""

    number: int


class Leased(msgspec.Struct, tag=4, array_like=True, gc=False):
    """This one is yours; the acknowledgement is safe, too."""

    number: int
    position: int
    body: bytes


_ENCODE: Final = msgspec.msgpack.Encoder().encode
_ASKED: Final = msgspec.msgpack.Decoder(Put | Get)
_TOLD: Final = msgspec.msgpack.Decoder(Stored | Leased)


def least(name: str) -> Peer:
    return QueuePeer(
        name=name,
        promise="flushes before it answers; the least queue in Python, and no more",
        service=Python(__name__, cores.SERVER),
        client=LeastClient,
        ways=frozenset({"one"}),
    )


def serve(port: int, path: str) -> None:
    """Until it is ended."""

    async def run() -> None:
        with Path(path).open("wb", buffering=0) as log:
            log.write(bytes(LOG_BYTES))
            os.fsync(log.fileno())
            queue = Queue(log.fileno())
            loop = asyncio.get_running_loop()
            server = await loop.create_server(lambda: Serving(queue), "127.0.0.1", port)
            await server.serve_forever()

    uvloop.run(run())


class Queue:
    """Its state, and its log."""

    def __init__(self, log: int) -> None:
        self.log = log
        self.records = 0
        self.puts = 0
        self.waiting: list[tuple[int, int]] = []
        self.bodies: dict[int, bytes] = {}
        self.leased: dict[int, int] = {}

    def asked(self, call: Put | Get) -> Stored | Leased:
        """What a call is answered, when the disk has it; position 0 where there is nothing."""
        if type(call) is Put:
            position = self.puts = self.puts + 1
            heappush(self.waiting, (call.priority, position))
            self.bodies[position] = call.body
            self.record((position, call.priority, call.body))
            return Stored(call.number)
        assert type(call) is Get
        if call.done:
            del self.leased[call.done]
            del self.bodies[call.done]
        priority = position = 0
        if call.wanted and self.waiting:
            priority, position = heappop(self.waiting)
            self.leased[position] = priority
        self.record((position, call.done))
        return Leased(call.number, position, self.bodies.get(position, b""))

    def record(self, what: tuple[int, int] | tuple[int, int, bytes]) -> None:
        """One page, with its checksum, on the disk."""
        data = _ENCODE(what)
        page = b"".join((crc32(data).to_bytes(4, "little"), data)).ljust(PAGE, b"\0")
        os.pwrite(self.log, page, self.records * PAGE % LOG_BYTES)
        os.fdatasync(self.log)
        self.records += 1


class Serving(asyncio.Protocol):
    """One connection."""

    def __init__(self, queue: Queue) -> None:
        self.queue = queue
        self.rest = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        came = self.rest + data
        while len(came) >= LENGTH_BYTES:
            end = LENGTH_BYTES + int.from_bytes(came[:LENGTH_BYTES], "little")
            if len(came) < end:
                break
            told = _ENCODE(self.queue.asked(_ASKED.decode(came[LENGTH_BYTES:end])))
            self.transport.write(len(told).to_bytes(LENGTH_BYTES, "little") + told)
            came = came[end:]
        self.rest = came


class LeastClient:
    """Blocking."""

    def __init__(self, port: int, queue: str, batch: int) -> None:
        del queue, batch
        self.link = socket.create_connection(("127.0.0.1", port), WAIT_SECONDS)
        self.link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.next = urgencies()
        self.calls = 0
        self.taken = 0

    def put(self, bodies: list[bytes]) -> None:
        for body in bodies:
            self.calls += 1
            self._ask(Put(self.calls, next(self.next), body))

    def take(self, count: int) -> int:
        del count
        self.calls += 1
        told = self._ask(Get(self.calls, self.taken))
        assert type(told) is Leased
        self.taken = told.position
        return int(bool(self.taken))

    def settle(self) -> None:
        if self.taken:
            self.calls += 1
            self._ask(Get(self.calls, self.taken, wanted=False))
            self.taken = 0

    def close(self) -> None:
        self.link.close()

    def _ask(self, call: Put | Get) -> Stored | Leased:
        data = _ENCODE(call)
        self.link.sendall(len(data).to_bytes(LENGTH_BYTES, "little") + data)
        came = self.link.recv(PAGE)
        while len(came) < LENGTH_BYTES + int.from_bytes(came[:LENGTH_BYTES], "little"):
            more = self.link.recv(PAGE)
            if not more:
                raise ConnectionError("the server is gone")
            came += more
        told = _TOLD.decode(came[LENGTH_BYTES:])
        assert told.number == call.number
        return told
