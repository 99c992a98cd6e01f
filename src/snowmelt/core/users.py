"""Users of a cluster, and what each of them may do.

A user is a name, a secret that proves it, and rights. Who runs a cluster writes one line for each:

    # user    secret                       rights
    shop      nT8s-WzqLr5Vb2Kd0xYp         put:orders,invoices.*
    billing   Qm4hJ7c9-RfUeA1sXw3t         get:orders peek:orders
    ops       bE6yG2vNkS8dPo5_ZiLa         admin
    nodes     xC3uH9jTq-W1mFr7KsDa         node

1. A right without names is for all names; with names, for those alone. `*` at a name's end stands
   for any rest.
2. Who has `admin` may do all that a client can. To be a node of the cluster is a right of its own;
   who has it may do all of this as well, since a node has all items in its hands.
3. Several lines with one name are several secrets of one user: that is how a secret is changed
   without a stop. The user may do what any of these lines says.
4. Where one token is all there is, it is the secret of `ANYBODY`, who may do everything. Several
   lines in its file are several tokens, as in rule 3.
5. Names of producers and groups belong to the user who says them (`OwnName`).
"""

import re
from collections.abc import Collection
from enum import Enum
from itertools import chain
from typing import Annotated, Final

import msgspec

from snowmelt.core.errors import BadOption
from snowmelt.core.names import is_plain_name, plain_form
from snowmelt.core.shown import HIDDEN, repr_without

USERS_MAX: Final = 1_000
SECRETS_MAX: Final = 4
"""Of one user: an old one, a new one, and what was left by mistake."""
SECRET_LENGTH_MIN: Final = 16
SECRET_LENGTH_MAX: Final = 256
PERMISSIONS_MAX: Final = 64
"""Of one user."""
PATTERNS_MAX: Final = 64
"""In one right."""

_PATTERN: Final = re.compile(r"\*|[A-Za-z0-9][A-Za-z0-9._-]{0,99}\*?")
_ALLOWED: Final = "a name, a name's beginning and *, or * alone"


Patterns = Annotated[
    tuple[Annotated[str, msgspec.Meta(max_length=101)], ...],
    msgspec.Meta(max_length=PATTERNS_MAX),
]
"""Names, and beginnings of names with a `*` behind them. A client may say so many; the door says
all that its user has."""


OwnName = Annotated[str, msgspec.Meta(max_length=300, extra={"own": True})]
"""A name that belongs to whoever says it: of a producer, or of a group.

Another user's of the same name is another. It is stored behind the name of its user and a `/`,
which no name of a user has. Who may do everything says it whole.
"""


class Right(Enum):
    """What may be asked of a name, or of a cluster."""

    PUT = "put"
    """Put items, publish to a topic, offer objects of a pool."""
    GET = "get"
    """Take items and acknowledge them, read as a group, subscribe, hold a baton."""
    PEEK = "peek"
    """Look at items, and at how a queue is."""
    MANAGE = "manage"
    """Create, alter, pause, purge, redrive, delete; make and remove schedules."""
    ADMIN = "admin"
    """All of these for all names, and the cluster's own calls: members, clients, backups."""
    NODE = "node"
    """Be a node, which may ask everything."""


_ALL: Final = (Right.ADMIN, Right.NODE)
"""With these a client may ask all."""


class Permission(msgspec.Struct, frozen=True):
    """One right, for the names that fit one of the patterns.

    >>> Permission.parse("put:orders,invoices.*").covers("invoices.2026")
    True
    >>> Permission.parse("get:orders").covers("orders.old")
    False
    """

    right: Right
    patterns: tuple[str, ...] = ("*",)

    @classmethod
    def parse(cls, text: str) -> "Permission":
        """Reads a right as it stands in a line.

        >>> Permission.parse("fly")
        Traceback (most recent call last):
        snowmelt.core.errors.BadOption: right is 'fly'; allowed: put, get, peek, manage, admin, node
        """
        word, colon, names = text.partition(":")
        try:
            right = Right(word)
        except ValueError:
            allowed = ", ".join(one.value for one in Right)
            raise BadOption("right", word, allowed) from None
        if not colon:
            return cls(right)
        if right in (Right.ADMIN, Right.NODE):
            raise BadOption("right", text, f"{word} alone: it is for the whole cluster")
        patterns = tuple(names.split(","))
        if len(patterns) > PATTERNS_MAX:
            raise BadOption(f"names of {word}", len(patterns), f"1 to {PATTERNS_MAX}")
        for one in patterns:
            if not _PATTERN.fullmatch(one):
                raise BadOption(f"name of {word}", one, _ALLOWED)
        return cls(right, patterns)

    def covers(self, name: str) -> bool:
        """Whether it is for this name."""
        return fits(name, self.patterns)


class User(msgspec.Struct, frozen=True, cache_hash=True):
    """Who speaks on a connection, and what they may ask.

    >>> shop = User("shop", (Permission.parse("put:orders"),))
    >>> shop.may(Right.PUT, "orders"), shop.may(Right.GET, "orders"), shop.may(Right.NODE)
    (True, False, False)
    >>> ANYBODY.may(Right.NODE)
    True
    """

    name: str
    permissions: tuple[Permission, ...]

    def may(self, right: Right, name: str = "") -> bool:
        """Whether they may ask this of what has the name (rules 1 and 2)."""
        asks_as_client = right is not Right.NODE
        return any(
            (one.right is right and one.covers(name)) or (asks_as_client and one.right in _ALL)
            for one in self.permissions
        )

    @property
    def prefix(self) -> str:
        """What stands before a name that belongs to this user, where it is stored.

        >>> User("shop", ()).prefix, ANYBODY.prefix
        ('shop/', '')
        """
        return "" if self.may(Right.ADMIN) else f"{self.name}/"

    def patterns(self, rights: Collection[Right]) -> tuple[str, ...]:
        """Which names they may ask one of these rights of.

        >>> User("shop", (Permission.parse("put:orders,in.*"),)).patterns((Right.PUT, Right.GET))
        ('orders', 'in.*')
        """
        some = [one.patterns for one in self.permissions if one.right in rights]
        return tuple(dict.fromkeys(chain.from_iterable(some)))


ANYBODY: Final = User("", (Permission(Right.ADMIN), Permission(Right.NODE)))
"""The only user of a cluster that has one token, or none (rule 4)."""


class Account(msgspec.Struct, frozen=True):
    """A user with the secrets that prove it."""

    user: User
    secrets: tuple[str, ...]

    def __repr__(self) -> str:
        return repr_without(self, "secrets")


class Accounts(msgspec.Struct, frozen=True):
    r"""All users of a cluster.

    >>> accounts = Accounts.parse("shop nT8s-WzqLr5Vb2Kd0xYp put:orders\n# ops is on holiday\n")
    >>> accounts.find("shop").user.may(Right.PUT, "orders")
    True
    >>> accounts.find("ops") is None
    True
    """

    by_name: dict[str, Account]

    def __repr__(self) -> str:
        return f"Accounts({', '.join(self.by_name)})"

    @classmethod
    def of_token(cls, text: str) -> "Accounts":
        r"""One token for all, or a line for each (rule 4).

        >>> Accounts.of_token("new\nold\n").find("").secrets
        ('new', 'old')
        """
        tokens = tuple(dict.fromkeys([line.strip() for line in text.strip().splitlines()])) or ("",)
        _check_most("tokens", len(tokens), SECRETS_MAX)
        return cls({ANYBODY.name: Account(ANYBODY, tokens)})

    @classmethod
    def parse(cls, text: str) -> "Accounts":
        """Reads the lines of a file; an error says which line, and never what its secret is.

        >>> Accounts.parse("shop sesame put")
        Traceback (most recent call last):
        snowmelt.core.errors.BadOption: letters of the secret in line 1 is 6; allowed: 16 to 256
        """
        found: dict[str, Account] = {}
        for number, line in enumerate(text.splitlines(), 1):
            words = line.split()
            if not words or words[0].startswith("#"):
                continue
            account = _account(words, number)
            found[account.user.name] = _joined(found.get(account.user.name), account, number)
        if not 0 < len(found) <= USERS_MAX:
            raise BadOption("users", len(found), f"1 to {USERS_MAX} users, a line each")
        return cls(found)

    def find(self, name: str) -> Account | None:
        """Whose name this is; None where nobody has it."""
        return self.by_name.get(name)


def _account(words: list[str], number: int) -> Account:
    if len(words) < 3:
        raise BadOption(f"words in line {number}", len(words), "a user, a secret, and rights")
    name, secret = words[:2]
    if not is_plain_name(name):  # it may be the secret, where somebody wrote that first
        raise BadOption(f"user in line {number}", HIDDEN, plain_form())
    if not SECRET_LENGTH_MIN <= len(secret) <= SECRET_LENGTH_MAX:
        allowed = f"{SECRET_LENGTH_MIN} to {SECRET_LENGTH_MAX}"
        raise BadOption(f"letters of the secret in line {number}", len(secret), allowed)
    try:
        permissions = tuple(Permission.parse(one) for one in words[2:])
    except BadOption as error:
        raise BadOption(f"{error.option} in line {number}", error.value, error.allowed) from None
    return Account(User(name, permissions), (secret,))


def _joined(before: Account | None, account: Account, number: int) -> Account:
    """One user from several lines (rule 3)."""
    if before is None:
        return account
    user = before.user
    permissions = tuple(dict.fromkeys((*user.permissions, *account.user.permissions)))
    secrets = tuple(dict.fromkeys((*before.secrets, *account.secrets)))
    _check_most(f"secrets of {user.name} with line {number}", len(secrets), SECRETS_MAX)
    _check_most(f"rights of {user.name} with line {number}", len(permissions), PERMISSIONS_MAX)
    return Account(User(user.name, permissions), secrets)


def _check_most(what: str, count: int, most: int) -> None:
    if count > most:
        raise BadOption(what, count, f"{most} at most")


def fits(name: str, patterns: Collection[str]) -> bool:
    """Whether a name is one of those that patterns stand for.

    >>> fits("orders.2026", ("invoices", "orders.*")), fits("orders", ("order",))
    (True, False)
    """
    return any(name.startswith(one[:-1]) if one.endswith("*") else name == one for one in patterns)
