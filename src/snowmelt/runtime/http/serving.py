"""A server for a few pages, on a node's own loop: one request a connection, all of it bounded.

It is there for a Prometheus, a supervisor, a browser and a person with curl. It reads a request's
head, and a small body where a route takes one, and ends the connection after the answer. When there
are too many connections, the oldest goes that has not asked yet, or that was answered and does not
end: who only holds a connection does not keep a supervisor out. TLS is begun as nodes begin it
(`handshakes.py`). On loopback a name of this machine is wanted: else a page of another site could
have its own name lead here, and read what is told.

An answer may be a stream. Whoever takes nothing of it for some seconds is cut off, and the next
piece is made when the last one has gone: so of each stream one piece at most waits here.
"""

import asyncio
import hmac
import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from http import HTTPStatus
from ssl import SSLContext
from typing import Final

import msgspec

from snowmelt.core.errors import Unavailable
from snowmelt.core.loopback import asks_this_machine, is_loopback
from snowmelt.core.names import Address
from snowmelt.runtime.handshakes import TlsListener, apart

HEAD_BYTES_MAX: Final = 8_192
BODY_BYTES_MAX: Final = 4_096
CONNECTIONS_MAX: Final = 32
HEAD_SECONDS: Final = 5.0
PAGE_SECONDS: Final = 15.0
"""For a page to be made, and as long again for it to be taken."""
SLOW_SECONDS: Final = 10.0
"""Whoever reads hardly anything of a stream for so long is cut off."""
ALWAYS: Final = (
    "Cache-Control: no-store",
    "X-Content-Type-Options: nosniff",
    "Connection: close",
)
PLAIN: Final = "text/plain; charset=utf-8"
_LENGTH: Final = re.compile("[0-9]{1,9}")


class Page(msgspec.Struct, frozen=True):
    body: bytes
    status: HTTPStatus = HTTPStatus.OK
    kind: str = PLAIN
    headers: tuple[str, ...] = ()


class Stream(msgspec.Struct, frozen=True):
    """An answer that goes on until one of the two ends it."""

    pieces: AsyncIterator[bytes]
    kind: str
    headers: tuple[str, ...] = ()


class HttpRequest(msgspec.Struct, frozen=True):
    """A request: what is asked for, and what its head says by names in small letters."""

    method: str
    path: str
    query: str
    heads: Mapping[str, str]
    body: bytes = b""
    origin: str = ""
    """From where it came, as far as the system says."""


class Route(msgspec.Struct, frozen=True):
    """How a page is made, and whether whoever asks for it must show the token."""

    make: Callable[[HttpRequest], Awaitable[Page | Stream]]
    guarded: bool = False
    posted: bool = False
    """Whether it is for POST, and for nothing else."""


class HttpServer:
    """Answers requests of HTTP by their path; it has no more of the protocol."""

    def __init__(
        self, routes: Mapping[str, Route], token: str = "", tls: SSLContext | None = None
    ) -> None:
        self._routes = routes
        self._token = token
        self._tls = tls
        self._server: asyncio.Server | TlsListener | None = None
        self._local = False
        self._open: set[asyncio.Task[None]] = set()
        self._idle: dict[asyncio.Task[None], None] = {}
        """Those that have not asked yet, or were answered; the oldest first."""

    async def listen(self, address: Address) -> Address:
        """Begins; returns where it listens."""
        self._local = is_loopback(address.host)
        server: asyncio.Server | TlsListener
        try:
            if self._tls is None:
                server = await asyncio.start_server(
                    self._connected, address.host, address.port, limit=HEAD_BYTES_MAX
                )
            else:
                server = apart(self._tls, CONNECTIONS_MAX, HEAD_SECONDS, self._accepted)
                await server.listen(address.host, address.port, CONNECTIONS_MAX)
        except OSError as error:
            raise Unavailable(f"can't listen on {address} for --http: {error.strerror}") from error
        self._server = server
        host, port, *_ = server.sockets[0].getsockname()
        return Address(host, port)

    async def close(self) -> None:
        """Ends; what is being answered is not."""
        if self._server is None:
            return
        self._server.close()
        for one in self._open:
            one.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    def _accepted(self) -> asyncio.Protocol:
        reader = asyncio.StreamReader(HEAD_BYTES_MAX)
        return asyncio.StreamReaderProtocol(reader, self._connected)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        if len(self._open) >= CONNECTIONS_MAX and not self._makes_room():
            writer.transport.abort()
            return
        self._open.add(task)
        self._idle[task] = None
        try:
            peer = writer.get_extra_info("peername")
            origin = f"{peer[0]}:{peer[1]}" if isinstance(peer, tuple) else "this machine"
            method, page = await self._answer(reader, task, origin)
            if isinstance(page, Stream):
                await _stream(page, reader, writer, method)
            else:
                writer.write(_head(page) + (b"" if method == "HEAD" else page.body))
                async with asyncio.timeout(PAGE_SECONDS):
                    await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass  # whoever asked has gone, or says nothing
        except asyncio.CancelledError:  # it makes room, or all ends
            writer.transport.abort()
        finally:
            self._idle[task] = None
            writer.close()
            try:
                async with asyncio.timeout(PAGE_SECONDS):
                    await writer.wait_closed()
            except (OSError, asyncio.CancelledError):  # it takes nothing, or does not end its TLS
                writer.transport.abort()
            finally:
                self._open.discard(task)
                self._idle.pop(task, None)

    def _makes_room(self) -> bool:
        """Ends the oldest that may go."""
        oldest = next(iter(self._idle), None)
        if oldest is not None:
            del self._idle[oldest]
            oldest.cancel()
        return oldest is not None

    async def _answer(
        self, reader: asyncio.StreamReader, task: asyncio.Task[None], origin: str
    ) -> tuple[str, Page | Stream]:
        """By what method it was asked, and what is told."""
        try:
            async with asyncio.timeout(HEAD_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            text = f"a request's head has {HEAD_BYTES_MAX} bytes at most\n"
            return "GET", Page(text.encode(), HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        asked = _read(head)
        if asked is None:
            return "GET", Page(b"this is no request of HTTP/1.1\n", HTTPStatus.BAD_REQUEST)
        if self._local and not asks_this_machine(asked.heads.get("host", "")):
            why = b"this page answers only to 127.0.0.1 and localhost\n"
            return asked.method, Page(why, HTTPStatus.FORBIDDEN)
        method, route = asked.method, self._routes.get(asked.path)
        allowed = ("POST",) if route is not None and route.posted else ("GET", "HEAD")
        if method not in allowed:
            page = Page(f"only {' and '.join(allowed)}\n".encode(), HTTPStatus.METHOD_NOT_ALLOWED)
            heads = (f"Allow: {', '.join(allowed)}",)
            return method, msgspec.structs.replace(page, headers=heads)
        if route is None:
            known = f"here are {', '.join(self._routes)}\n"
            return method, Page(known.encode(), HTTPStatus.NOT_FOUND)
        if route.posted:
            length = asked.heads.get("content-length", "")
            number = int(length) if _LENGTH.fullmatch(length) else BODY_BYTES_MAX + 1
            if number > BODY_BYTES_MAX:
                text = f"a body says its length, and has {BODY_BYTES_MAX} bytes at most\n"
                return method, Page(text.encode(), HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
            async with asyncio.timeout(HEAD_SECONDS):
                body = await reader.readexactly(number)
            asked = msgspec.structs.replace(asked, body=body)
        self._idle.pop(task, None)
        asked = msgspec.structs.replace(asked, origin=origin)
        if route.guarded and self._token and not bears(asked, self._token):
            page = Page(b"the token is missing or wrong\n", HTTPStatus.UNAUTHORIZED)
            return method, msgspec.structs.replace(page, headers=("WWW-Authenticate: Bearer",))
        try:
            async with asyncio.timeout(PAGE_SECONDS):
                return method, await route.make(asked)
        except TimeoutError:
            return method, Page(b"it took too long\n", HTTPStatus.SERVICE_UNAVAILABLE)


def bears(asked: HttpRequest, token: str) -> bool:
    """Whether the token is shown."""
    shown = asked.heads.get("authorization", "").encode("latin-1")
    return hmac.compare_digest(shown, f"Bearer {token}".encode())


def _read(head: bytes) -> HttpRequest | None:
    r"""A request, or None if it is none of HTTP/1. Of a head that comes twice the last one counts.

    >>> _read(b"GET /a?b=1 HTTP/1.1\r\nHost: n1 \r\n\r\n")
    HttpRequest(method='GET', path='/a', query='b=1', heads={'host': 'n1'}, body=b'', origin='')
    """
    first, *lines = head.decode("latin-1").split("\r\n")
    words = first.split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        return None
    path, _, query = words[1].partition("?")
    pairs = [line.partition(":") for line in lines if line]
    return HttpRequest(
        words[0], path, query, {name.strip().lower(): one.strip() for name, _, one in pairs}
    )


async def _stream(
    stream: Stream, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, method: str
) -> None:
    """All pieces, until there are no more or whoever asked has gone."""
    lines = ("HTTP/1.1 200 OK", f"Content-Type: {stream.kind}", *ALWAYS, *stream.headers)
    writer.write("\r\n".join((*lines, "", "")).encode("latin-1"))
    if method == "HEAD":
        return
    gone = asyncio.ensure_future(reader.read(1))  # it has nothing more to say
    pieces = stream.pieces
    piece: asyncio.Future[bytes] | None = None
    try:
        while not gone.done():
            piece = asyncio.ensure_future(anext(pieces))
            await asyncio.wait((piece, gone), return_when=asyncio.FIRST_COMPLETED)
            if not piece.done():
                return
            writer.write(piece.result())
            async with asyncio.timeout(SLOW_SECONDS):
                await writer.drain()
    except StopAsyncIteration:
        pass
    except TimeoutError:
        writer.transport.abort()
    finally:
        for one in (gone, piece):
            if one is not None:
                one.cancel()
        await asyncio.gather(*[one for one in (gone, piece) if one], return_exceptions=True)
        if isinstance(pieces, AsyncGenerator):
            await pieces.aclose()


def _head(page: Page) -> bytes:
    lines = (
        f"HTTP/1.1 {page.status.value} {page.status.phrase}",
        f"Content-Type: {page.kind}",
        f"Content-Length: {len(page.body)}",
        *ALWAYS,
        *page.headers,
    )
    return "\r\n".join((*lines, "", "")).encode("latin-1")
