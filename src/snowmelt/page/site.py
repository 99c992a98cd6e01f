"""The page's files and what they ask for: `/`, `/events`, `/queue?name=`; and the way in, `/enter`.

1. Nothing is loaded from elsewhere, and no script stands in the page: `POLICY` has the browser see
   to that. Names and all else from outside are put in as text (`files/page.js`).
2. On loopback the page is for who calls this machine by its own name: a page of another site whose
   name was pointed here is refused. So is what another site asks for, wherever the node listens.
3. Where there is a token, the page is for who came by a link (`sessions.py`), or shows the token as
   metrics want it. Off loopback there is always one, and TLS.
"""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from http import HTTPStatus
from importlib.resources import files
from typing import Final
from urllib.parse import parse_qs

import msgspec

from snowmelt.core.errors import SnowmeltError
from snowmelt.core.names import queue_name
from snowmelt.page.sessions import Sessions, cookie_in, set_cookie
from snowmelt.page.watching import LISTENERS_MAX, PageWatcher
from snowmelt.runtime.credentials import is_loopback
from snowmelt.runtime.http.pages import SiteContext
from snowmelt.runtime.http.serving import HttpRequest, Page, Route, Stream, bears

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS: Final = (
    f"Content-Security-Policy: {POLICY}",
    "Referrer-Policy: no-referrer",
    "Cross-Origin-Opener-Policy: same-origin",
    "Cross-Origin-Resource-Policy: same-origin",
)
FILES: Final = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/page.css": ("page.css", "text/css; charset=utf-8"),
    "/page.js": ("page.js", "text/javascript; charset=utf-8"),
    "/drawing.js": ("drawing.js", "text/javascript; charset=utf-8"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
}
JSON: Final = "application/json"

ENTERED: Final = (
    b'<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0;url=/">'
    b'<title>Snowmelt</title><link rel="icon" href="icon.svg"><a href="/">Go on</a>'
)
"""It leads on by itself: a redirect of another site's link would not carry the cookie."""
NO_LINK: Final = (
    "this page wants a link, which is good once: snowmelt page https://HOST:PORT "
    "--http-token-file FILE"
)
OPENED: Final = ("/", "/enter")
"""What a link on another site's page may lead to."""
BAD_LINK: Final = "this link was used, or is too old, or leads elsewhere: make another"

Make = Callable[[HttpRequest], Awaitable[Page | Stream]]


class PageSite:
    """Serves the page of one node."""

    def __init__(self, inside: SiteContext, watching: PageWatcher | None = None) -> None:
        self._inside = inside
        self._watching = watching or PageWatcher(inside)
        self._local = is_loopback(inside.http.host)
        self._plain = self._local or not inside.credentials().encrypted
        self._sessions = Sessions(inside.token)
        folder = files("snowmelt.page") / "files"
        self._files = {
            path: Page((folder / name).read_bytes(), kind=kind, headers=HEADERS)
            for path, (name, kind) in FILES.items()
        }

    @property
    def routes(self) -> Mapping[str, Route]:
        """Each path, and the function that answers it."""
        made = {path: partial(self._file, path) for path in FILES}
        more: dict[str, Make] = {"/events": self._events, "/queue": self._queue}
        routes = {path: Route(partial(self._let_in, make)) for path, make in (made | more).items()}
        return routes | {"/enter": Route(self._enter)}

    def begin(self) -> None:
        """Starts to look at the cluster."""
        self._watching.begin()

    async def close(self) -> None:
        """Ends the task that looks at the cluster."""
        await self._watching.close()

    async def _let_in(self, make: Make, asked: HttpRequest) -> Page | Stream:
        why = refusal(asked, plain=self._plain, local=self._local)
        if why:
            return Page(f"{why}\n".encode(), HTTPStatus.FORBIDDEN)
        if not self._may(asked):
            return Page(f"{NO_LINK}\n".encode(), HTTPStatus.UNAUTHORIZED)
        return await make(asked)

    def _may(self, asked: HttpRequest) -> bool:
        """Whether a cookie or the token is shown, where one is wanted (rule 3)."""
        token = self._inside.token
        if not token or bears(asked, token):
            return True
        host = asked.heads.get("host", "")
        return self._sessions.knows(cookie_in(asked.heads.get("cookie", ""), host), host)

    async def _enter(self, asked: HttpRequest) -> Page:
        """By a link; a HEAD, as of who shows what links lead to, does not use it up."""
        host, code = asked.heads.get("host", ""), queried(asked, "code")
        why = refusal(asked, plain=self._plain, local=self._local)
        cookie = "" if why or asked.method != "GET" else self._sessions.enter(code, host)
        if self._inside.token and not cookie:
            return Page(f"{why or BAD_LINK}\n".encode(), HTTPStatus.FORBIDDEN)
        given = (set_cookie(cookie, host, secure=not self._plain),) if cookie else ()
        return Page(ENTERED, kind=FILES["/"][1], headers=(*HEADERS, *given))

    async def _file(self, path: str, asked: HttpRequest) -> Page:
        del asked
        return self._files[path]

    async def _events(self, asked: HttpRequest) -> Page | Stream:
        del asked
        if self._watching.listeners >= LISTENERS_MAX:
            text = f"{LISTENERS_MAX} pages of this node are open already\n"
            return Page(text.encode(), HTTPStatus.SERVICE_UNAVAILABLE)
        return Stream(self._watching.events(), "text/event-stream", HEADERS)

    async def _queue(self, asked: HttpRequest) -> Page:
        try:
            told = await self._watching.queue(queue_name(queried(asked, "name")))
        except SnowmeltError as error:
            return Page(f"{error}\n".encode(), HTTPStatus.BAD_REQUEST)
        return Page(msgspec.json.encode(told), kind=JSON, headers=HEADERS)


def queried(asked: HttpRequest, name: str) -> str:
    """What a query says of a name, the first time; "" for nothing, and for what is no query.

    >>> queried(HttpRequest("GET", "/queue", "name=a%2Fb&name=c", {}), "name")
    'a/b'
    """
    try:
        return parse_qs(asked.query, max_num_fields=10).get(name, [""])[0]
    except ValueError:
        return ""


def refusal(asked: HttpRequest, *, plain: bool, local: bool) -> str:
    """Why this request is refused; "" if it is not (rule 2)."""
    host = asked.heads.get("host", "")
    if local and not is_loopback(host_of(host)):
        return "this page answers only to 127.0.0.1 and localhost"
    site = asked.heads.get("sec-fetch-site", "none")
    opens = asked.path in OPENED and asked.heads.get("sec-fetch-mode") == "navigate"
    if site not in ("none", "same-origin") and not opens:
        return "this is not for pages of other sites"
    origin = asked.heads.get("origin")
    if origin is not None and origin != f"{'http' if plain else 'https'}://{host}":
        return "this is not for pages of other sites"
    return ""


def host_of(host: str) -> str:
    """The name in a Host line, without its port.

    >>> host_of("127.0.0.1:9410"), host_of("[::1]:9410"), host_of("localhost"), host_of("::1")
    ('127.0.0.1', '::1', 'localhost', '')
    """
    if host.startswith("["):
        return host[1:].partition("]")[0]
    name, _, port = host.partition(":")
    return "" if ":" in port else name
