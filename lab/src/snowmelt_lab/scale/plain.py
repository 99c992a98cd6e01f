"""The rival: a queue in one process, in memory, behind a socket.

Words on the wire, one answer for each: `p` puts the body that follows, `g` gets the head, `a`
acknowledges the oldest that this connection holds. A word is a length of four bytes, its letter,
its body. What a connection that breaks had got and not acknowledged goes back to the head, so that
this is a queue with leases as ours is; but nothing is copied and nothing is on a disk.
"""

import socket
import socketserver
import struct
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection
from signal import SIG_IGN, SIGINT, signal
from typing import Final, Self

SCHEME: Final = "plain://"
START_SECONDS: Final = 30.0
WORD_BYTES_MAX: Final = 2 << 20
_LENGTH = struct.Struct("!I")


@contextmanager
def plain_queue() -> Iterator[str]:
    """Starts the rival in a process of its own; gives its URL, ends it after.

    >>> with plain_queue() as url, PlainQueue(url) as queue:
    ...     queue.put(b"hello")
    ...     item = queue.get(timeout=5)
    ...     item.ack()
    ...     item.body
    b'hello'
    """
    context = get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs,), daemon=True)
    process.start()
    theirs.close()
    try:
        if not ours.poll(START_SECONDS):
            raise TimeoutError("the plain queue did not start")
        yield f"{SCHEME}127.0.0.1:{ours.recv()}"
    finally:
        process.terminate()
        process.join()
        ours.close()


def _serve(parent: Connection) -> None:
    signal(SIGINT, SIG_IGN)  # Ctrl-C is for the parent, which ends us
    with _Server(("127.0.0.1", 0), _Serving) as server:
        parent.send(server.server_address[1])
        server.serve_forever()


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    request_queue_size = 128  # all clients knock at once

    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)  # type: ignore[arg-type]  # as its base takes them
        self.items: deque[bytes] = deque()
        self.more = threading.Condition()


class _Serving(socketserver.BaseRequestHandler):
    server: _Server

    def handle(self) -> None:
        self.request.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        held: deque[bytes] = deque()
        with suppress(EOFError, OSError, IndexError):  # the last: nothing to acknowledge
            while True:
                word = _heard(self.request)
                _say(self.request, self._answer(word[:1], word[1:], held))
        with self.server.more:
            self.server.items.extendleft(reversed(held))
            self.server.more.notify_all()

    def _answer(self, kind: bytes, body: bytes, held: deque[bytes]) -> bytes:
        """Does one word; `held` is what this connection has got and not acknowledged."""
        server = self.server
        if kind == b"a":
            held.popleft()
            return b""
        with server.more:
            if kind == b"p":
                server.items.append(body)
                server.more.notify()
                return b""
            server.more.wait_for(lambda: bool(server.items))
            held.append(server.items.popleft())
            return held[-1]


class PlainItem:
    def __init__(self, queue: "PlainQueue", body: bytes) -> None:
        self._queue = queue
        self.body = body

    def ack(self) -> None:
        self._queue.ask(b"a")


class PlainQueue:
    """A client of the plain queue; see `plain_queue`."""

    def __init__(self, url: str, timeout: float = 30.0) -> None:
        host, _, port = url.removeprefix(SCHEME).rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def put(self, body: bytes) -> None:
        self.ask(b"p" + body)

    def get(self, *, timeout: float) -> PlainItem:
        """Dequeues the head; waits for one at most so long."""
        self._socket.settimeout(timeout)
        return PlainItem(self, self.ask(b"g"))

    def ask(self, word: bytes) -> bytes:
        """One word there, one back."""
        _say(self._socket, word)
        return _heard(self._socket)


def _say(line: socket.socket, word: bytes) -> None:
    line.sendall(_LENGTH.pack(len(word)) + word)


def _heard(line: socket.socket) -> bytes:
    (length,) = _LENGTH.unpack(_read(line, _LENGTH.size))
    if length > WORD_BYTES_MAX:
        raise EOFError(f"a word of {length} bytes")
    return _read(line, length)


def _read(line: socket.socket, size: int) -> bytes:
    got = b""
    while len(got) < size:
        part = line.recv(size - len(got))
        if not part:
            raise EOFError("the line was closed")
        got += part
    return got
