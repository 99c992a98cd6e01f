"""A small HTTP/1.1 server: POST in, bytes out, with a bound on each part.

1. A connection has one request at a time. The next one is not read before the answer is written,
   and no more bytes than there may be in a head while others are there already.
2. A head has `HEAD_BYTES_MAX` bytes and a body `BODY_BYTES_MAX`; a body has a `Content-Length`.
   What came of all bodies together has `BODIES_BYTES_MAX`. What is only announced counts nothing.
3. A request comes within `READ_SECONDS` from its first byte on, and TLS is begun in that time. A
   connection without a request may stay for `IDLE_SECONDS`.
4. When the other side closes, the task that makes the answer is cancelled.
5. Of `CONNECTIONS_MAX` connections the one that has asked nothing for longest makes room for a new
   one. Those that wait for an answer stay. `STRANGERS_MAX` more may be about to begin TLS.
6. Of who does not read its answers no more requests are read, and it goes after `WRITE_SECONDS`.
"""

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from ssl import SSLContext
from typing import Final

import msgspec

from snowmelt.runtime.handshakes import TlsListener, apart

HEAD_BYTES_MAX: Final = 32 << 10
HEADS_MAX: Final = 100
BODY_BYTES_MAX: Final = 8 << 20
"""A mebibyte of messages, of which each letter may be written as six."""
BODIES_BYTES_MAX: Final = 256 << 20
CONNECTIONS_MAX: Final = 4_000
READ_SECONDS: Final = 30.0
IDLE_SECONDS: Final = 300.0
WRITE_SECONDS: Final = 60.0
STRANGERS_MAX: Final = 500
BACKLOG: Final = 512
_END: Final = b"\r\n\r\n"
_STRANGE: Final = re.compile("[\x00-\x08\x0a-\x1f\x7f]")
"""What another program that reads a head may take for the end of a line."""
_LOG: Final = logging.getLogger("snowmelt.doors.sqs")


class SqsRequest(msgspec.Struct, frozen=True, gc=False):
    method: str
    target: str
    heads: Mapping[str, str]
    """By names in small letters."""
    body: bytes


class HttpAnswer(msgspec.Struct, frozen=True, gc=False):
    body: bytes
    status: int = 200
    heads: tuple[str, ...] = ()
    """Whole lines."""


Make = Callable[[SqsRequest], Awaitable[HttpAnswer]]


class BadRequest(Exception):
    """What came is no request that this server takes; the connection ends with it."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


def read_head(head: bytes) -> tuple[str, str, dict[str, str]]:
    r"""The method, the target and the fields of a request's head.

    >>> read_head(b"POST / HTTP/1.1\r\nHost: here\r\nContent-Length: 2")
    ('POST', '/', {'host': 'here', 'content-length': '2'})
    """
    first, *lines = head.decode("latin-1").split("\r\n")
    words = first.split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        raise BadRequest(400, "this is no request of HTTP/1.1")
    if len(lines) > HEADS_MAX:
        raise BadRequest(431, f"more than {HEADS_MAX} header fields")
    heads: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not name or name != name.strip() or _STRANGE.search(line):
            raise BadRequest(400, "a header field is not well formed")
        key = name.lower()
        if key in heads and key in ("content-length", "host", "transfer-encoding"):
            raise BadRequest(400, f"{name} stands twice")
        heads[key] = value.strip()
    if words[2] == "HTTP/1.0":
        heads.setdefault("connection", "close")
    return words[0], words[1], heads


def body_length(heads: Mapping[str, str]) -> int:
    """How long the body is that follows.

    >>> body_length({"content-length": "12"}), body_length({})
    (12, 0)
    """
    if "transfer-encoding" in heads:
        raise BadRequest(411, "a body needs a Content-Length here")
    said = heads.get("content-length", "0")
    if not (said.isascii() and said.isdigit() and len(said) < 12):
        raise BadRequest(400, "Content-Length is no number")
    if int(said) > BODY_BYTES_MAX:
        raise BadRequest(413, f"a body has {BODY_BYTES_MAX} bytes at most")
    return int(said)


class SqsServer:
    """Listens, and counts what its connections hold."""

    def __init__(self, make: Make) -> None:
        self.make = make
        self.connections: dict[HttpConnection, None] = {}
        self.body_bytes = 0
        self._server: asyncio.Server | TlsListener | None = None

    async def listen(self, host: str, port: int, tls: SSLContext | None = None) -> int:
        """Begins to listen; at which port."""
        made: asyncio.Server | TlsListener
        if tls is None:
            loop = asyncio.get_running_loop()
            made = await loop.create_server(self._accepted, host, port, backlog=BACKLOG)
        else:
            made = apart(tls, STRANGERS_MAX, READ_SECONDS, self._accepted)
            await made.listen(host, port, BACKLOG)
        self._server = made
        told: int = made.sockets[0].getsockname()[1]
        return told

    def _accepted(self) -> "HttpConnection":
        return HttpConnection(self)

    async def close(self, grace: float = 2.0) -> None:
        """Ends: idle connections at once, the others when they have answered, or after a while."""
        if self._server is not None:
            self._server.close()
        for one in list(self.connections):
            one.end()
        tasks = [one.task for one in self.connections if one.task is not None]
        if tasks:
            await asyncio.wait(tasks, timeout=grace)
        for one in list(self.connections):
            one.abort()
        if tasks:
            await asyncio.gather(*tasks, return_exceptions=True)


class HttpConnection(asyncio.Protocol):
    def __init__(self, server: SqsServer) -> None:
        self._server = server
        self._transport: asyncio.Transport | None = None
        self._loop = asyncio.get_running_loop()
        self._data = bytearray()
        self._head: tuple[str, str, dict[str, str]] | None = None
        self._length = self._came = 0
        self._timer: asyncio.TimerHandle | None = None
        self._closing = False
        self._paused = False
        self._full = False
        """Whether it does not read what it was answered (rule 6)."""
        self.task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        if len(self._server.connections) >= CONNECTIONS_MAX:  # rule 5
            some = self._server.connections
            idle = next((one for one in some if one.task is None), self)
            some.pop(idle, None)
            idle.abort()
            if idle is self:
                return
        self._server.connections[self] = None
        self._wait(IDLE_SECONDS)

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._server.connections.pop(self, None)
        self._forget_body()
        self._stop_waiting()
        self._transport = None
        if self.task is not None:
            self.task.cancel()

    def data_received(self, data: bytes) -> None:
        self._data += data
        if self.task is None and not self._full:
            self._advance()
        elif len(self._data) > HEAD_BYTES_MAX and self._transport is not None:  # rule 1
            self._transport.pause_reading()
            self._paused = True

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self._full = True
        self._wait(WRITE_SECONDS)

    def resume_writing(self) -> None:
        self._full = False
        if self.task is None:
            self._go_on()

    # --- one request after another ----------------------------------------------------------------

    def _advance(self) -> None:
        try:
            request = self._request()
        except BadRequest as error:
            self._refuse(error)
            return
        if request is not None:
            self._stop_waiting()
            self.task = self._loop.create_task(self._serve(request))

    def _request(self) -> SqsRequest | None:
        if self._head is None:
            if not self._data:
                return None
            end = self._data.find(_END)
            if end < 0 or end > HEAD_BYTES_MAX:
                if len(self._data) > HEAD_BYTES_MAX:
                    raise BadRequest(431, f"a head has {HEAD_BYTES_MAX} bytes at most")
                self._wait(READ_SECONDS, again=False)
                return None
            self._head = read_head(bytes(self._data[:end]))
            del self._data[: end + len(_END)]
            length = body_length(self._head[2])
            self._length = length
            if self._head[2].get("expect", "").lower() == "100-continue":
                assert self._transport is not None
                self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        came = min(len(self._data), self._length)
        self._server.body_bytes += came - self._came
        self._came = came
        if self._server.body_bytes > BODIES_BYTES_MAX:
            raise BadRequest(503, "too many large requests at once; try again")
        if came < self._length:
            self._wait(READ_SECONDS, again=False)
            return None
        method, target, heads = self._head
        body = bytes(self._data[: self._length])
        del self._data[: self._length]
        return SqsRequest(method, target, heads, body)

    async def _serve(self, request: SqsRequest) -> None:
        try:
            try:
                answer = await self._server.make(request)
            except Exception:
                _LOG.exception("a request could not be answered")
                answer = HttpAnswer(b"", 500)
            last = request.heads.get("connection", "").lower() == "close" or self._closing
            self._write(answer, last=last, head=request.method == "HEAD")
        finally:
            self._forget_body()
            self._head, self.task = None, None
        if not self._full:
            self._go_on()

    def _go_on(self) -> None:
        """With the next request."""
        if self._transport is None or self._transport.is_closing():
            return
        self._wait(IDLE_SECONDS)
        self._server.connections[self] = self._server.connections.pop(self)  # the last of them
        self._advance()
        if self._paused and self.task is None:  # what has come is no whole request
            self._paused = False
            self._transport.resume_reading()

    def _write(self, answer: HttpAnswer, *, last: bool, head: bool = False) -> None:
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        phrase = HTTPStatus(answer.status).phrase
        lines = [
            f"HTTP/1.1 {answer.status} {phrase}",
            *answer.heads,
            f"Content-Length: {len(answer.body)}",
            f"Connection: {'close' if last else 'keep-alive'}",
            "\r\n",
        ]
        told = "\r\n".join(lines).encode("latin-1", "replace")
        transport.write(told if head else told + answer.body)
        if last:
            transport.close()
            self._wait(WRITE_SECONDS)

    def _refuse(self, error: BadRequest) -> None:
        self._write(HttpAnswer(f"{error}\n".encode(), error.status), last=True)

    # --- its end ----------------------------------------------------------------------------------

    def end(self) -> None:
        """At once, or when what is asked is answered."""
        self._closing = True
        if self.task is None and self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        if self.task is not None:
            self.task.cancel()
        if self._transport is not None:
            self._transport.abort()

    def _forget_body(self) -> None:
        self._server.body_bytes -= self._came
        self._length = self._came = 0

    def _wait(self, seconds: float, *, again: bool = True) -> None:
        """Ends the connection so many seconds from now; from the first byte on, not from each."""
        if not again and self._timer is not None and self._reading:
            return
        self._stop_waiting()
        self._reading = not again
        self._timer = self._loop.call_later(seconds, self._too_late)

    _reading = False

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _too_late(self) -> None:
        self._timer = None
        if self._reading:
            self._refuse(BadRequest(408, "the request did not come in time"))
        elif self._transport is not None:
            self._transport.abort()
