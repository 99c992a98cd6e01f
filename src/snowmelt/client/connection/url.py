"""Where a cluster is and how to be let in, in one line.

    snowmelt://HOST:PORT[,HOST:PORT…][/CLUSTER][?authority=FILE&certificate=FILE&key=FILE]

The token comes from the argument `token=` or the environment variable `SNOWMELT_TOKEN`, not from
the URL: URLs end up in logs.
"""

import os
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl, urlsplit

import msgspec

from snowmelt.core.errors import BadOption
from snowmelt.core.names import Address
from snowmelt.runtime.credentials import Credentials, is_loopback

SCHEME: Final = "snowmelt"
ALLOWED: Final = (
    "snowmelt://HOST:PORT[,HOST:PORT...][/CLUSTER][?authority=FILE&certificate=FILE&key=FILE]"
)
OPTIONS: Final = ("authority", "certificate", "key")


class Place(msgspec.Struct, frozen=True):
    """A URL, read."""

    addresses: tuple[Address, ...]
    cluster: str
    credentials: Credentials


def read(url: str, token: str | None = None) -> Place:
    """Reads and checks a URL.

    >>> place = read("snowmelt://127.0.0.1:4410,127.0.0.1:4411/orders")
    >>> [str(one) for one in place.addresses], place.cluster
    (['127.0.0.1:4410', '127.0.0.1:4411'], 'orders')
    """
    try:
        parts = urlsplit(url)
    except ValueError:
        raise BadOption("url", url, ALLOWED) from None
    if parts.scheme != SCHEME or not parts.netloc or "@" in parts.netloc:
        raise BadOption("url", url, ALLOWED)
    addresses = tuple(Address.parse(one, "url") for one in parts.netloc.split(","))
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    for name in options:
        if name not in OPTIONS:
            raise BadOption("url option", name, ", ".join(OPTIONS))
    secret = token if token is not None else os.environ.get("SNOWMELT_TOKEN", "")
    credentials = Credentials(
        token=secret, **{name: Path(value) for name, value in options.items()}
    )
    if options and not credentials.encrypted:
        raise BadOption("url", url, "authority=FILE as well; without it there is no TLS")
    credentials.client_context()  # files that don't read are named here, not by the first call
    if secret and not credentials.encrypted:
        for address in addresses:
            if not is_loopback(address.host):
                allowed = "an address on loopback, or ?authority=FILE: no token in clear"
                raise BadOption("url", url, allowed)
    return Place(addresses, parts.path.strip("/") or "snowmelt", credentials)
