"""A server for a few pages, on a node's own loop: one request a connection, all of it bounded.

It is there for a Prometheus, a supervisor and a person with curl. It reads a request's head and no
body, and ends the connection after the answer. When there are too many connections, the oldest
goes that has not asked yet: who only holds a connection does not keep a supervisor out.
"""

import asyncio
import hmac
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from http import HTTPStatus
from ssl import SSLContext
from typing import Final

import msgspec

from snowmelt.core.errors import Unavailable
from snowmelt.core.names import Address

HEAD_BYTES_MAX: Final = 8_192
CONNECTIONS_MAX: Final = 32
HEAD_SECONDS: Final = 5.0
PAGE_SECONDS: Final = 15.0
"""For a page to be made, and as long again for it to be taken."""
PLAIN: Final = "text/plain; charset=utf-8"


class Page(msgspec.Struct, frozen=True):
    """An answer."""

    body: bytes
    status: HTTPStatus = HTTPStatus.OK
    kind: str = PLAIN
    headers: tuple[str, ...] = ()


class Route(msgspec.Struct, frozen=True):
    """How a page is made, and whether whoever asks for it must show the token."""

    make: Callable[[], Awaitable[Page]]
    guarded: bool = False


class HttpServer:
    """By paths."""

    def __init__(
        self, routes: Mapping[str, Route], token: str = "", tls: SSLContext | None = None
    ) -> None:
        self._routes = routes
        self._token = token
        self._tls = tls
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.Task[None]] = set()
        self._silent: dict[asyncio.Task[None], None] = {}
        """Those that have not asked yet, the oldest first."""

    async def listen(self, address: Address) -> Address:
        """Begins; returns where it listens."""
        try:
            server = await asyncio.start_server(
                self._connected, address.host, address.port, limit=HEAD_BYTES_MAX, ssl=self._tls
            )
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

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        if len(self._open) >= CONNECTIONS_MAX and not self._makes_room():
            writer.transport.abort()
            return
        self._open.add(task)
        self._silent[task] = None
        try:
            method, page = await self._answer(reader, task)
            writer.write(_head(page) + (b"" if method == "HEAD" else page.body))
            async with asyncio.timeout(PAGE_SECONDS):
                await writer.drain()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # whoever asked has gone, or says nothing, or made room
        finally:
            self._open.discard(task)
            self._silent.pop(task, None)
            writer.close()
            with suppress(OSError, TimeoutError):
                async with asyncio.timeout(1.0):
                    await writer.wait_closed()

    def _makes_room(self) -> bool:
        """Ends the oldest that has not asked yet."""
        oldest = next(iter(self._silent), None)
        if oldest is not None:
            del self._silent[oldest]
            oldest.cancel()
        return oldest is not None

    async def _answer(
        self, reader: asyncio.StreamReader, task: asyncio.Task[None]
    ) -> tuple[str, Page]:
        """By what method it was asked, and what is told."""
        try:
            async with asyncio.timeout(HEAD_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
                self._silent.pop(task, None)
        except asyncio.LimitOverrunError:
            text = f"a request's head has {HEAD_BYTES_MAX} bytes at most\n"
            return "GET", Page(text.encode(), HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE)
        words = head.split(b"\r\n", 1)[0].decode("latin-1").split(" ")
        if len(words) != 3 or not words[2].startswith("HTTP/1."):
            return "GET", Page(b"this is no request of HTTP/1.1\n", HTTPStatus.BAD_REQUEST)
        method, path = words[0], words[1].partition("?")[0]
        if method not in ("GET", "HEAD"):
            page = Page(b"only GET and HEAD\n", HTTPStatus.METHOD_NOT_ALLOWED)
            return method, msgspec.structs.replace(page, headers=("Allow: GET, HEAD",))
        route = self._routes.get(path)
        if route is None:
            known = f"here are {', '.join(self._routes)}\n"
            return method, Page(known.encode(), HTTPStatus.NOT_FOUND)
        if route.guarded and not self._may(head):
            page = Page(b"the token is missing or wrong\n", HTTPStatus.UNAUTHORIZED)
            return method, msgspec.structs.replace(page, headers=("WWW-Authenticate: Bearer",))
        try:
            async with asyncio.timeout(PAGE_SECONDS):
                return method, await route.make()
        except TimeoutError:
            return method, Page(b"it took too long\n", HTTPStatus.SERVICE_UNAVAILABLE)

    def _may(self, head: bytes) -> bool:
        """Whether the token is shown, where one is wanted."""
        if not self._token:
            return True
        for line in head.split(b"\r\n")[1:]:
            name, _, value = line.partition(b":")
            if name.strip().lower() == b"authorization":
                wanted = f"Bearer {self._token}".encode()
                return hmac.compare_digest(value.strip(), wanted)
        return False


def _head(page: Page) -> bytes:
    lines = (
        f"HTTP/1.1 {page.status.value} {page.status.phrase}",
        f"Content-Type: {page.kind}",
        f"Content-Length: {len(page.body)}",
        "Cache-Control: no-store",
        "X-Content-Type-Options: nosniff",
        "Connection: close",
        *page.headers,
    )
    return "\r\n".join((*lines, "", "")).encode("latin-1")
