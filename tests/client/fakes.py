"""Both clients behind one face, and things that only look like nodes."""

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Protocol, Self

import snowmelt
import snowmelt.aio
from snowmelt.core.names import NodeId
from snowmelt.wire.connection import Connection, Stage
from snowmelt.wire.greeting import Gate, Role
from snowmelt.wire.sides import Listening

Talk = Callable[[socket.socket], None]


class Client(Protocol):
    """What the two clients have in common, blocking."""

    def __enter__(self) -> Self: ...
    def __exit__(self, *_: object) -> None: ...
    def ping(self, body: bytes = b"", *, timeout: float = 10.0) -> bytes: ...
    def status(self, *, timeout: float = 10.0) -> Any: ...
    def forget(self, node: str, *, timeout: float = 10.0) -> None: ...
    def statistics(self, *, timeout: float = 10.0) -> Any: ...
    def close(self) -> None: ...


class Awaited:
    """The async client, each call run to its end on a loop of its own."""

    def __init__(self, url: str, token: str | None = None) -> None:
        self._runner = asyncio.Runner()
        try:
            self._cluster = self._runner.run(self._made(url, token))
        except BaseException:
            self._runner.close()
            raise

    @staticmethod
    async def _made(url: str, token: str | None) -> snowmelt.aio.Cluster:
        return snowmelt.aio.connect(url, token=token)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
        self._runner.close()

    def close(self) -> None:
        self._runner.run(self._cluster.close())

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._cluster, name)
        return lambda *given, **named: self._runner.run(method(*given, **named))


@contextmanager
def fake(talk: Talk) -> Iterator[str]:
    """Listens, and lets `talk` have every connection; gives the address, ends all in the end."""
    accepted: list[socket.socket] = []
    threads: list[threading.Thread] = []

    def converse(one: socket.socket) -> None:
        with one, suppress(OSError):
            talk(one)
            while one.recv(1 << 16):
                pass

    def accept() -> None:
        with suppress(OSError):
            while True:
                one, _ = listener.accept()
                accepted.append(one)
                threads.append(threading.Thread(target=converse, args=(one,)))
                threads[-1].start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        accepting = threading.Thread(target=accept)
        accepting.start()
        try:
            yield f"127.0.0.1:{listener.getsockname()[1]}"
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            accepting.join(10)
            for one in accepted:
                with suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)
            for thread in threads:
                thread.join(10)


def greeted(one: socket.socket) -> None:
    """Greets like a node."""
    node = Connection(Listening(Gate("snowmelt"), NodeId("n1"), Role.NODE, 72 << 20))
    while node.stage is Stage.GREETING:
        list(node.receive(one.recv(node.missing)))
        one.sendall(node.taken())
