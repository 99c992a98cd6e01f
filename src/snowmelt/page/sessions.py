"""Who may look where a token guards the page, and who presses its buttons: a link, then a cookie.

1. With a secret a link can be made without asking the node: a time, a chance number, a user's name,
   and a seal of these and of where the link leads. A node takes a link once, for a few minutes, and
   none that is older than its own process: so it knows all that were used.
2. Sealed by the page's token a link lets a browser look. Sealed by a user's secret, or by the
   cluster's token, it lets it in as that user, with that user's rights.
3. For that the browser has a cookie that no script reads and no other site sends. It is good for
   some hours, at the name by which the browser came, and as long as its user has that secret.
4. Its page has a key of the session besides, which goes with each press of a button: a request that
   another site makes, or that a cookie alone makes, has none.
"""

import hmac
from collections.abc import Callable
from functools import partial
from hashlib import sha256
from secrets import token_urlsafe
from time import time
from typing import Final

import msgspec

from snowmelt.core.users import Accounts

LINK_SECONDS: Final = 300
SESSION_SECONDS: Final = 8 * 3600
SESSIONS_MAX: Final = 100
"""Of one user; one more ends the oldest."""
CODES_MAX: Final = 1_000
"""So many links of one user may be used within the time of one."""
CODE_LETTERS_MAX: Final = 300


OPEN: Final = partial(Accounts.of_token, "")
"""Where there is no token, and no user."""


class PageSession(msgspec.Struct, frozen=True):
    """A browser that came by a link."""

    host: str
    """The name by which it came."""
    since: float
    key: str
    """What goes with each press (rule 4)."""
    account: tuple[str, str] | None
    """The user whose link it was, and the secret that sealed it; None for the page's token."""


def code_for(host: str, token: str, now: float, user: str | None = None) -> str:
    """What makes a link to a node's page good; by a user's secret, if one is named (rule 2)."""
    begin = f"{int(now)}.{token_urlsafe(16)}" + ("" if user is None else f".{user}")
    return f"{begin}.{_seal(begin, host, token)}"


def _seal(begin: str, host: str, token: str) -> str:
    return hmac.new(
        token.encode(), f"page|{begin}|{_named(host)}".encode("utf-8", "replace"), sha256
    ).hexdigest()


class Sessions:
    """Of one node.

    >>> sessions = Sessions("secret", clock=lambda: 1000.0)
    >>> code = code_for("n1:9410", "secret", 1000.0)
    >>> cookie = sessions.enter(code, "n1:9410")
    >>> sessions.find(cookie, "n1:9410").account, sessions.find(cookie, "n2:9410")
    (None, None)
    >>> sessions.enter(code, "n1:9410")
    ''
    """

    def __init__(
        self,
        token: str,
        clock: Callable[[], float] = time,
        accounts: Callable[[], Accounts] = OPEN,
    ) -> None:
        self._token = token
        self._accounts = accounts
        self._clock = clock
        self._began = int(clock())
        self._used: dict[str, tuple[float, str | None]] = {}
        """Links that were used, when, and whose they were."""
        self._open: dict[str, PageSession] = {}
        """By cookies; the oldest first."""

    def enter(self, code: str, host: str) -> str:
        """A new cookie for a link; "" for one that is not good (rule 1)."""
        begin, _, seal = code[:CODE_LETTERS_MAX].rpartition(".")
        now, (made_at, _, named) = self._clock(), (*begin.split(".", 2), "", "")[:3]
        user = named if begin.count(".") > 1 else None
        given = seal.encode("utf-8", "replace")
        secret = next(
            (
                one
                for one in self._secrets(user)
                if hmac.compare_digest(given, _seal(begin, host, one).encode())
            ),
            "",
        )
        if not secret:
            return ""
        made = int(made_at) if made_at.isdecimal() and made_at.isascii() else 0
        self._used = {
            one: (at, who) for one, (at, who) in self._used.items() if now - at < 2 * LINK_SECONDS
        }
        fresh = max(self._began, now - LINK_SECONDS) <= made <= now + LINK_SECONDS
        few = sum([who == user for _, who in self._used.values()]) < CODES_MAX
        if not fresh or begin in self._used or not few:
            return ""
        self._used[begin] = now, user
        own = [one for one, it in self._open.items() if (it.account or (None,))[0] == user]
        if len(own) >= SESSIONS_MAX:
            del self._open[own[0]]
        cookie = token_urlsafe(32)
        account = None if user is None else (user, secret)
        self._open[cookie] = PageSession(_named(host), now, token_urlsafe(32), account)
        return cookie

    def _secrets(self, user: str | None) -> tuple[str, ...]:
        """Those that may have sealed a link (rule 2); none of them is empty."""
        if user is None:
            return (self._token,) if self._token else ()
        account = self._accounts().find(user)
        return () if account is None else tuple(filter(None, account.secrets))

    def find(self, cookie: str, host: str) -> PageSession | None:
        """That of a browser which came by this name and has this cookie (rule 3)."""
        session = self._open.get(cookie)
        if session is None or session.host != _named(host):
            return None
        if not 0 <= self._clock() - session.since < SESSION_SECONDS:
            return None
        if session.account is None:
            return session
        user, secret = session.account
        return session if secret in self._secrets(user) else None


def cookie_in(line: str, host: str) -> str:
    """Ours, of all that a browser sends. Nodes of one machine have one each, by their ports.

    >>> cookie_in("a=b; snowmelt_9410=xyz", "n1:9410"), cookie_in("a=b", "n1:9410")
    ('xyz', '')
    """
    wanted = _cookie_of(host)
    for one in line.split(";"):
        name, _, value = one.strip().partition("=")
        if name == wanted:
            return value
    return ""


def set_cookie(cookie: str, host: str, *, secure: bool) -> str:
    """The line of an answer's head that gives it to a browser."""
    ends = f"Path=/; Max-Age={SESSION_SECONDS}; HttpOnly; SameSite=Strict"
    return f"Set-Cookie: {_cookie_of(host)}={cookie}; {ends}" + "; Secure" * secure


def _cookie_of(host: str) -> str:
    port = host.rpartition(":")[2]
    return f"snowmelt_{port if port.isdecimal() and port.isascii() else ''}"


def _named(host: str) -> str:
    """As browsers say it, who leave out a port that is usual.

    >>> _named("N1:443"), _named("n1:9410")
    ('n1', 'n1:9410')
    """
    return host.lower().removesuffix(":443").removesuffix(":80")
