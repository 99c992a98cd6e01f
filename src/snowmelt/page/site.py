"""The page: its files, what they ask for, what its buttons do, and the way in.

It has `/`, `/events`, `/queue?name=`, `/item?name=&position=`, `/workers` and `/me`; `/do` for
buttons; `/enter` for links.

1. Nothing is loaded from elsewhere, and no script stands in the page: `POLICY` has the browser see
   to that. Names and all else from outside are put in as text (`files/page.js`).
2. On loopback the page is for who calls this machine by its own name: a page of another site whose
   name was pointed here is refused. So is what another site asks for, wherever the node listens.
3. Where there is a token, the page is for who came by a link (`sessions.py`), or shows the token as
   metrics want it. Off loopback there is always one, and TLS.
4. Who came by a link of a user sees what that user may see, and presses what that user may do
   (`pressing.py`). The others see all, but no item, and press nothing; on a node without any token
   they may do what every program on the machine may do anyway.
5. A press is a POST of JSON by a page that came from here: it says its origin, and the key of its
   session in a head of its own, which no form can and no other site may send.
"""

import hmac
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from http import HTTPStatus
from importlib.resources import files
from secrets import token_urlsafe
from typing import Final
from urllib.parse import parse_qs

import msgspec

from snowmelt.core.errors import AccessDenied, BadOption, SnowmeltError
from snowmelt.core.loopback import is_loopback
from snowmelt.core.names import queue_name
from snowmelt.core.users import ANYBODY, Right, User, fits
from snowmelt.page.port import NodePort
from snowmelt.page.pressing import Press, Presses
from snowmelt.page.sessions import Sessions, cookie_in, set_cookie
from snowmelt.page.watching import LISTENERS_MAX, PageWatcher
from snowmelt.protocols.queue.api.partition_names import known_name, whole_of
from snowmelt.runtime.door import NOTHING
from snowmelt.runtime.http.pages import SiteContext
from snowmelt.runtime.http.serving import HttpRequest, Page, Route, Stream, bears
from snowmelt.wire.rights import ANY

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
    "this page wants a link, which is good once: snowmelt page https://HOST:PORT with "
    "--http-token-file FILE to look, or --token-file FILE --user NAME to do something"
)
OPENED: Final = ("/", "/enter")
"""What a link on another site's page may lead to."""
BAD_LINK: Final = "this link was used, or is too old, or leads elsewhere: make another"


class Visitor(msgspec.Struct, frozen=True):
    """Who asks for something of the page."""

    user: User | None
    """None: somebody who may look, and press nothing (rule 4)."""
    key: str
    """Of the session."""

    @property
    def name(self) -> str:
        """The user's; nothing where they have none."""
        return "" if self.user is None else self.user.name

    @property
    def sees(self) -> tuple[str, ...] | None:
        """The names that they may see; None for all."""
        if self.user is None or self.user.may(Right.ADMIN):
            return None
        return self.user.patterns(ANY) or NOTHING

    def may(self, queue: str) -> tuple[Right, ...]:
        """The rights that they have on a queue."""
        user = self.user
        return () if user is None else tuple([one for one in Right if user.may(one, queue)])


Make = Callable[[HttpRequest, Visitor], Awaitable[Page | Stream]]
_Rank = int | float | None
_PRESS: Final = msgspec.json.Decoder(Press).decode


class PageSite:
    """Serves the page of one node."""

    def __init__(self, inside: SiteContext, watching: PageWatcher | None = None) -> None:
        self._inside = inside
        port = NodePort(inside)
        self._watching = watching or PageWatcher(inside, port)
        self._presses = Presses(port if watching is None else watching.port, inside.allow)
        self._key = token_urlsafe(32)
        """Of those who came without a link (rule 4)."""
        self._plain = is_loopback(inside.http.host) or not inside.credentials().encrypted
        self._sessions = Sessions(inside.token, accounts=inside.accounts)
        folder = files("snowmelt.page") / "files"
        self._files = {
            path: Page((folder / name).read_bytes(), kind=kind, headers=HEADERS)
            for path, (name, kind) in FILES.items()
        }

    @property
    def routes(self) -> Mapping[str, Route]:
        """Each path, and the function that answers it."""
        made: dict[str, Make] = {path: partial(self._file, path) for path in FILES}
        made |= {"/events": self._events, "/queue": self._queue, "/me": self._me, "/do": self._do}
        made |= {"/workers": self._workers, "/item": self._item}
        routes = {
            path: Route(partial(self._let_in, make), posted=path == "/do")
            for path, make in made.items()
        }
        return routes | {"/enter": Route(self._enter)}

    def begin(self) -> None:
        """Starts to look at the cluster."""
        self._watching.begin()

    async def close(self) -> None:
        """Ends the task that looks at the cluster."""
        await self._watching.close()

    async def _let_in(self, make: Make, asked: HttpRequest) -> Page | Stream:
        why = refusal(asked, plain=self._plain)
        if why:
            return Page(f"{why}\n".encode(), HTTPStatus.FORBIDDEN)
        visitor = self._visitor(asked)
        if visitor is None:
            return Page(f"{NO_LINK}\n".encode(), HTTPStatus.UNAUTHORIZED)
        return await make(asked, visitor)

    def _visitor(self, asked: HttpRequest) -> Visitor | None:
        """Who asks; None where a cookie or the token is wanted and not shown (rule 3)."""
        token, accounts = self._inside.token, self._inside.accounts()
        host = asked.heads.get("host", "")
        session = self._sessions.find(cookie_in(asked.heads.get("cookie", ""), host), host)
        nobody = accounts.find(ANYBODY.name)
        free = None if nobody is None or any(nobody.secrets) else ANYBODY
        if session is not None and session.account is not None:
            account = accounts.find(session.account[0])
            return None if account is None else Visitor(account.user, session.key)
        if session is not None or not token or bears(asked, token):
            return Visitor(free, self._key if session is None else session.key)
        return None

    async def _enter(self, asked: HttpRequest) -> Page:
        """By a link; a HEAD, as of who shows what links lead to, does not use it up."""
        host, code = asked.heads.get("host", ""), queried(asked, "code")
        why = refusal(asked, plain=self._plain)
        cookie = "" if why or asked.method != "GET" else self._sessions.enter(code, host)
        if (code or self._inside.token) and not cookie:
            return Page(f"{why or BAD_LINK}\n".encode(), HTTPStatus.FORBIDDEN)
        given = (set_cookie(cookie, host, secure=not self._plain),) if cookie else ()
        return Page(ENTERED, kind=FILES["/"][1], headers=(*HEADERS, *given))

    async def _file(self, path: str, asked: HttpRequest, visitor: Visitor) -> Page:
        del asked, visitor
        return self._files[path]

    async def _me(self, asked: HttpRequest, visitor: Visitor) -> Page:
        """Who one is here, and the key of one's session (rule 5)."""
        del asked
        user = visitor.user
        told = {"user": None if user is None else user.name, "key": visitor.key}
        return Page(msgspec.json.encode(told), kind=JSON, headers=HEADERS)

    async def _workers(self, asked: HttpRequest, visitor: Visitor) -> Page:
        """Which programs use queues; their names are an admin's."""
        del asked
        if visitor.user is None or not visitor.user.may(Right.ADMIN):
            return Page(
                b"who uses queues is told to who has the right admin\n", HTTPStatus.FORBIDDEN
            )
        told = await self._watching.workers()
        return Page(msgspec.json.encode(told), kind=JSON, headers=HEADERS)

    async def _do(self, asked: HttpRequest, visitor: Visitor) -> Page:
        """A button was pressed."""
        if not posted_here(asked, visitor.key):
            return Page(b"this is for the buttons of this page\n", HTTPStatus.FORBIDDEN)
        try:
            press = _PRESS(asked.body)
            known_name(press.queue)
            done = await self._presses.press(visitor.key, visitor.user, asked.origin, press)
        except (msgspec.MsgspecError, UnicodeDecodeError, BadOption) as error:
            return Page(f"{error}\n".encode(), HTTPStatus.BAD_REQUEST)
        except AccessDenied as error:
            return Page(f"{error}\n".encode(), HTTPStatus.FORBIDDEN)
        except SnowmeltError as error:
            return Page(f"{error}\n".encode(), HTTPStatus.CONFLICT)
        self._watching.soon()
        return Page(msgspec.json.encode({"done": done}), kind=JSON, headers=HEADERS)

    async def _events(self, asked: HttpRequest, visitor: Visitor) -> Page | Stream:
        del visitor
        if self._watching.listeners >= LISTENERS_MAX:
            text = f"{LISTENERS_MAX} pages of this node are open already\n"
            return Page(text.encode(), HTTPStatus.SERVICE_UNAVAILABLE)
        pieces = self._watching.events(partial(self._sees, asked))
        return Stream(pieces, "text/event-stream", HEADERS)

    def _sees(self, asked: HttpRequest) -> tuple[str, ...] | None:
        """What whoever asked may see by now: rights change, and sessions end."""
        visitor = self._visitor(asked)
        if visitor is None:
            raise AccessDenied(NO_LINK)
        return visitor.sees

    async def _queue(self, asked: HttpRequest, visitor: Visitor) -> Page:
        try:
            name = queue_name(queried(asked, "name"))
            if visitor.sees is not None and not fits(name, visitor.sees):
                raise AccessDenied(f"user {visitor.name!r} may not see queue {name!r}")
            told = await self._watching.queue(name, visitor.may(name))
        except SnowmeltError as error:
            return Page(f"{error}\n".encode(), HTTPStatus.BAD_REQUEST)
        return Page(msgspec.json.encode(told), kind=JSON, headers=HEADERS)

    async def _item(self, asked: HttpRequest, visitor: Visitor) -> Page:
        """One item, to who may peek; who had it, to an admin."""
        try:
            name = known_name(queried(asked, "name"))
            may = visitor.may(whole_of(name))
            if Right.PEEK not in may:
                raise AccessDenied(f"user {visitor.name!r} may not look at items of {name!r}")
            place = msgspec.convert(queried(asked, "position"), int, strict=False)
            rank = msgspec.convert(queried(asked, "priority") or None, _Rank, strict=False)
            told = await self._watching.item(name, place, rank, names=Right.ADMIN in may)
        except (SnowmeltError, msgspec.MsgspecError) as error:
            return Page(f"{error}\n".encode(), HTTPStatus.BAD_REQUEST)
        return Page(msgspec.json.encode(told), kind=JSON, headers=HEADERS)


def posted_here(asked: HttpRequest, key: str) -> bool:
    """Whether the page itself sent this (rule 5); that its origin is this one is known by now."""
    heads = asked.heads
    shown = heads.get("x-snowmelt-key", "").encode("latin-1")
    return (
        "origin" in heads
        and heads.get("sec-fetch-site", "same-origin") == "same-origin"
        and heads.get("content-type", "").partition(";")[0].strip().lower() == JSON
        and hmac.compare_digest(shown, key.encode())
    )


def queried(asked: HttpRequest, name: str) -> str:
    """What a query says of a name, the first time; "" for nothing, and for what is no query.

    >>> queried(HttpRequest("GET", "/queue", "name=a%2Fb&name=c", {}), "name")
    'a/b'
    """
    try:
        return parse_qs(asked.query, max_num_fields=10).get(name, [""])[0]
    except ValueError:
        return ""


def refusal(asked: HttpRequest, *, plain: bool) -> str:
    """Why this request is refused; "" if it is not (rule 2)."""
    host = asked.heads.get("host", "")
    site = asked.heads.get("sec-fetch-site", "none")
    opens = asked.path in OPENED and asked.heads.get("sec-fetch-mode") == "navigate"
    if site not in ("none", "same-origin") and not opens:
        return "this is not for pages of other sites"
    origin = asked.heads.get("origin")
    if origin is not None and origin != f"{'http' if plain else 'https'}://{host}":
        return "this is not for pages of other sites"
    return ""
