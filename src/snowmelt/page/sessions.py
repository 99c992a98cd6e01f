"""Who may look where a token guards the page: a link that is good once, then a cookie.

1. With the token a link can be made without asking the node: a time, a chance number, and a seal
   of both and of where the link leads, by the token. A node takes a link once, for a few minutes,
   and none that is older than its own process: so it knows all that were used.
2. For that the browser has a cookie that no script reads and no other site sends. It is good for
   some hours, at the name by which the browser came.
"""

import hmac
from collections.abc import Callable
from hashlib import sha256
from secrets import token_urlsafe
from time import time
from typing import Final

LINK_SECONDS: Final = 300
SESSION_SECONDS: Final = 8 * 3600
SESSIONS_MAX: Final = 100
CODES_MAX: Final = 1_000
"""So many links may be used within the time of one."""
CODE_LETTERS_MAX: Final = 200


def code_for(host: str, token: str, now: float) -> str:
    """What makes a link to a node's page good."""
    begin = f"{int(now)}.{token_urlsafe(16)}"
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
    >>> sessions.knows(cookie, "n1:9410"), sessions.knows(cookie, "n2:9410")
    (True, False)
    >>> sessions.enter(code, "n1:9410")
    ''
    """

    def __init__(self, token: str, clock: Callable[[], float] = time) -> None:
        self._token = token
        self._clock = clock
        self._began = int(clock())
        self._used: dict[str, float] = {}
        """Links that were used, and when."""
        self._open: dict[str, tuple[str, float]] = {}
        """By cookies, the name by which each came, and when; the oldest first."""

    def enter(self, code: str, host: str) -> str:
        """A new cookie for a link; "" for one that is not good (rule 1)."""
        begin, _, seal = code[:CODE_LETTERS_MAX].rpartition(".")
        now = self._clock()
        good = hmac.compare_digest(
            seal.encode("utf-8", "replace"), _seal(begin, host, self._token).encode()
        )
        if not good:
            return ""
        made = int(begin.partition(".")[0])
        self._used = {one: at for one, at in self._used.items() if now - at < 2 * LINK_SECONDS}
        fresh = max(self._began, now - LINK_SECONDS) <= made <= now + LINK_SECONDS
        if not fresh or begin in self._used or len(self._used) >= CODES_MAX:
            return ""
        self._used[begin] = now
        if len(self._open) >= SESSIONS_MAX:
            del self._open[next(iter(self._open))]
        cookie = token_urlsafe(32)
        self._open[cookie] = _named(host), now
        return cookie

    def knows(self, cookie: str, host: str) -> bool:
        """Whether a browser that came by this name has this cookie of ours."""
        came, since = self._open.get(cookie, ("", 0.0))
        return came == _named(host) and 0 <= self._clock() - since < SESSION_SECONDS


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
