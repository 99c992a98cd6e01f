"""Where a cluster is and how to be let in, in one line.

    snowmelt://HOST:PORT[,HOST:PORT…][/CLUSTER][?cluster=ID]
    snowmelt://HOST:PORT[,HOST:PORT…][/CLUSTER]?authority=FILE&certificate=FILE&key=FILE[&cluster=ID]
    snowmelt://HOST:PORT[,HOST:PORT…][/CLUSTER]?tls=no[&cluster=ID]

`?cluster=ID` is the cluster's identity, as `snowmelt status` shows it: another is refused. With
`?tls=no` all but the token is in clear: in a network that the cluster has for itself.

The token comes from the argument `token=`, or from the environment: `SNOWMELT_TOKEN`, or the file
that `SNOWMELT_TOKEN_FILE` names. It is not part of the URL: URLs end up in logs. Where the cluster
has a file of users, the token is the secret of one of them, and its name comes from the argument
`user=`, from `?user=NAME`, or from `SNOWMELT_USER`.
"""

import os
from contextlib import suppress
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl, urlsplit

import msgspec

from snowmelt.client.connection.session import checked_kind
from snowmelt.core.errors import BadOption
from snowmelt.core.loopback import is_loopback
from snowmelt.core.names import Address, NodeId, plain_name
from snowmelt.protocols.membership.view import identity_of
from snowmelt.runtime.credentials import Credentials
from snowmelt.wire.greeting import KnownCluster, Role, Speaker

SCHEME: Final = "snowmelt"
ALLOWED: Final = (
    "snowmelt://HOST:PORT[,HOST:PORT...][/CLUSTER]"
    "[?user=NAME&cluster=ID&authority=FILE&certificate=FILE&key=FILE&tls=no]"
)
FILES: Final = ("authority", "certificate", "key")
OPTIONS: Final = ("cluster", *FILES, "tls", "user")


class ClusterURL(msgspec.Struct, frozen=True):
    """The addresses, the cluster and the credentials that a URL names."""

    addresses: tuple[Address, ...]
    cluster: str
    credentials: Credentials
    known: KnownCluster
    """Of which cluster the nodes are that its clients have met."""

    def speaker(self, name: NodeId, key: bytes) -> Speaker:
        """Who a client of this name is where it dials."""
        return self.credentials.speaker(self.cluster, name, Role.CLIENT, self.known, key)


def read(url: str, token: str | None = None, user: str | None = None) -> ClusterURL:
    """Reads and checks a URL.

    >>> place = read("snowmelt://127.0.0.1:4410,127.0.0.1:4411/orders")
    >>> [str(one) for one in place.addresses], place.cluster
    (['127.0.0.1:4410', '127.0.0.1:4411'], 'orders')
    """
    checked_kind("url", url, str, ALLOWED)
    try:
        url.encode()
        parts = urlsplit(url)
    except ValueError:  # as an error of encoding is
        raise BadOption("url", url, ALLOWED) from None
    if parts.scheme != SCHEME or not parts.netloc or "@" in parts.netloc:
        raise BadOption("url", url, ALLOWED)
    addresses = tuple(Address.parse(one, "url") for one in parts.netloc.split(","))
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    for name in options:
        if name not in OPTIONS:
            raise BadOption("url option", name, ", ".join(OPTIONS))
    secret = _secret(secret_of_environment() if token is None else token)
    plain = _plain(options)
    files = {name: Path(options[name]) for name in FILES if name in options}
    named = named_user(user if user is not None else options.get("user"))
    credentials = Credentials(token=secret, plain=plain, user=named, **files)
    if options.keys() & FILES and not credentials.encrypted:
        raise BadOption("url", url, "authority=FILE as well; without it there is no TLS")
    credentials.client_context()  # files that don't read are named here, not by the first call
    if secret and not credentials.encrypted and not plain:
        for address in addresses:
            if not is_loopback(address.host):
                allowed = (
                    "an address on loopback, or ?authority=FILE: nothing in clear; "
                    "or ?tls=no, in a network that is the cluster's own"
                )
                raise BadOption("url", url, allowed)
    known = _known(options.get("cluster"))
    return ClusterURL(addresses, parts.path.strip("/") or "snowmelt", credentials, known)


def with_user(url: str, user: str) -> str:
    """The same URL, for this user; as it is where none is named.

    >>> with_user("snowmelt://127.0.0.1:4410", "shop")
    'snowmelt://127.0.0.1:4410?user=shop'
    """
    if not user:
        return url
    if "user" in dict(parse_qsl(urlsplit(url).query)):
        raise BadOption("user", user, "left out: the URL names a user")
    return f"{url}{'&' if '?' in url else '?'}user={named_user(user)}"


def pinned(url: str, identity: str) -> str:
    """The same URL, for the cluster of this identity alone; as it is where none is known.

    >>> pinned("snowmelt://127.0.0.1:4410?authority=a.pem", "2ab5c1e09f77d013")
    'snowmelt://127.0.0.1:4410?authority=a.pem&cluster=2ab5c1e09f77d013'
    """
    if not identity or "cluster" in dict(parse_qsl(urlsplit(url).query)):
        return url
    return f"{url}{'&' if '?' in url else '?'}cluster={identity}"


def moved(url: str, address: Address) -> str:
    """The same URL, for the node at this address alone.

    >>> moved("snowmelt://127.0.0.1:4410,127.0.0.1:4411/orders", Address("127.0.0.1", 4412))
    'snowmelt://127.0.0.1:4412/orders'
    """
    return urlsplit(url)._replace(netloc=str(address)).geturl()


def named_user(given: str | None) -> str:
    """Whose secret the token is; nobody's where one token is all there is.

    >>> named_user("shop"), named_user("")
    ('shop', '')
    """
    user = os.environ.get("SNOWMELT_USER", "") if given is None else given
    return plain_name("user", user) if user or not isinstance(user, str) else ""


def _plain(options: dict[str, str]) -> bool:
    """Whether the URL says that there is no TLS.

    >>> _plain({"tls": "no"}), _plain({})
    (True, False)
    """
    told = options.get("tls")
    if told is not None and (told != "no" or options.keys() & set(FILES)):
        raise BadOption(
            "?tls=", told, "no, without files of TLS; these alone say that there is TLS"
        )
    return told is not None


def secret_of_environment() -> str:
    """The token that the environment has, or names a file of."""
    token, file = os.environ.get("SNOWMELT_TOKEN", ""), os.environ.get("SNOWMELT_TOKEN_FILE", "")
    if token or not file:
        return token
    try:
        return Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadOption("SNOWMELT_TOKEN_FILE", file, f"a readable text file ({error})") from error


def _secret(token: object) -> str:
    r"""A token; what is none is named by its kind alone, since errors end up in logs.

    >>> _secret(7)
    Traceback (most recent call last):
    snowmelt.core.errors.BadOption: token is <class 'int'>; allowed: text that UTF-8 can write
    >>> _secret("a file's last line ends so\n")
    "a file's last line ends so"
    """
    if isinstance(token, str):
        with suppress(UnicodeEncodeError):
            token.encode()
            return token.strip()
    raise BadOption("token", type(token), "text that UTF-8 can write")


def _known(pinned: str | None) -> KnownCluster:
    """What the URL says of the cluster.

    >>> _known("2AB5C1E09F77D013").identity
    '2ab5c1e09f77d013'
    """
    if pinned is None:
        way_out = "bring the cluster of before back, or connect anew to go on with this one"
        return KnownCluster("this client", way_out, learns=True)
    try:
        number = int(pinned, 16)
    except ValueError:
        number = 0
    if not 0 < number < 1 << 63:
        allowed = "the identity of a cluster, 16 digits as `snowmelt status` shows them"
        raise BadOption("?cluster=", pinned, allowed)
    way_out = "bring that one back, or give the other's address, without ?cluster= in the URL"
    return KnownCluster("the URL", way_out, identity_of(number), learns=True)
