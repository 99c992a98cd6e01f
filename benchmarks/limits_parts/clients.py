"""The clients of the rungs: what one call is, for each kind of program."""

import asyncio
import socket
import threading
from itertools import count

import msgspec
import redis.asyncio
from benchmarks.limits_parts.bare_server import HEAD, Cutter, framed

from snowmelt import aio
from snowmelt.core.batch import Batch
from snowmelt.core.instant import Duration
from snowmelt.protocols.queue.calls import Put, PutDone

WAIT = 20.0


class BareClient:
    """A blocking socket: a frame goes, a frame comes."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), WAIT)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def put(self, bodies: list[bytes]) -> None:
        """As many bytes as a call of ours has, about."""
        self._call(b"".join(bodies))

    def _call(self, body: bytes) -> bytes:
        self._socket.sendall(framed(body))
        answer = self._socket.recv(1 << 16)
        while len(answer) < HEAD or len(answer) < HEAD + int.from_bytes(answer[:HEAD]):
            answer += self._socket.recv(1 << 16)
        return answer[HEAD:]

    def close(self) -> None:
        """The end of it."""
        self._socket.close()


class PutClient(BareClient):
    """The same, with the words of our clients: a batch, a put, its answer."""

    def __init__(self, port: int) -> None:
        super().__init__(port)
        self._numbers = count()
        self._encoder = msgspec.msgpack.Encoder()
        self._decoder = msgspec.msgpack.Decoder(PutDone)

    def put(self, bodies: list[bytes]) -> None:
        """One put, encoded and decoded."""
        batch = Batch.of(bodies)
        number = next(self._numbers)
        offsets, blob = bytes(batch.offsets), bytes(batch.blob)
        put = Put("limits", "p", number, offsets, blob, patience=Duration(10**10), turn=number)
        self._decoder.decode(self._call(self._encoder.encode(put)))


class Waiters:
    """No network, no disk: each of some threads waits until one other thread has seen what it has.

    That is what is left of a call when threads share a client, so no such client is quicker.
    """

    _lock = threading.Lock()
    _some = threading.Event()
    _waiting: "list[threading.Lock]" = []  # noqa: RUF012 - all threads share it
    _thread: threading.Thread | None = None

    def __init__(self) -> None:
        self._told = threading.Lock()
        self._told.acquire()
        if Waiters._thread is None:
            Waiters._thread = threading.Thread(target=self._run, daemon=True)
            Waiters._thread.start()

    @classmethod
    def _run(cls) -> None:
        while True:
            cls._some.wait()
            cls._some.clear()
            with cls._lock:
                waiting, cls._waiting = cls._waiting, []
            for one in waiting:
                one.release()

    def put(self, bodies: list[bytes]) -> None:
        """Waits to be seen."""
        del bodies
        with Waiters._lock:
            Waiters._waiting.append(self._told)
        Waiters._some.set()
        self._told.acquire()

    def close(self) -> None:
        """Nothing is open."""


class AsyncBare(asyncio.Protocol):
    """One connection for all tasks: what they ask in one turn goes in one piece."""

    def __init__(self, port: int) -> None:
        self._port, self._cutter = port, Cutter()
        self._out: list[bytes] = []
        self._waiting: list[asyncio.Future[None]] = []

    async def open(self) -> None:
        """Connects."""
        self._loop = asyncio.get_running_loop()
        self._transport, _ = await self._loop.create_connection(
            lambda: self, "127.0.0.1", self._port
        )

    def data_received(self, data: bytes) -> None:
        for _ in self._cutter.cut(data):
            self._waiting.pop(0).set_result(None)

    async def put(self, body: bytes) -> None:
        """One frame, and its answer."""
        if not self._out:
            self._loop.call_soon(self._send)
        self._out.append(framed(body))
        told = self._loop.create_future()
        self._waiting.append(told)
        await told

    def _send(self) -> None:
        out, self._out = self._out, []
        self._transport.write(b"".join(out))

    async def close(self) -> None:
        """The end of it."""
        self._transport.close()


class AsyncSnowmelt:
    """One cluster and one queue for all tasks."""

    def __init__(self, url: str) -> None:
        self._url = url

    async def open(self) -> None:
        """Connects."""
        self._cluster = aio.connect(self._url)
        self._queue = self._cluster.fifo("limits-tasks")

    async def put(self, body: bytes) -> None:
        """One put."""
        await self._queue.put(body)

    async def close(self) -> None:
        """The end of it."""
        await self._cluster.close()


class AsyncRedis:
    """As redis-py is used: one client, whose pool gives each call a connection."""

    def __init__(self, port: int) -> None:
        self._port = port

    async def open(self) -> None:
        """Connects."""
        self._base = redis.asyncio.Redis(host="127.0.0.1", port=self._port)

    async def put(self, body: bytes) -> None:
        """One entry of a stream."""
        await self._base.xadd("limits-tasks", {b"b": body})

    async def close(self) -> None:
        """The end of it."""
        await self._base.aclose()
