"""`snowmelt page`: a link that lets a browser in, once."""

import time
from pathlib import Path
from typing import Annotated, Final
from urllib.parse import urlsplit

import typer

from snowmelt.cli.node import read_secret
from snowmelt.core.errors import BadOption
from snowmelt.core.names import Address
from snowmelt.page.sessions import code_for
from snowmelt.runtime.credentials import is_loopback

PAGE_PORT: Final = 9410
"""Where `snowmelt up` shows the page, if it is free."""


def page(
    at: Annotated[
        str, typer.Argument(help="Where the node shows it: HOST:PORT, or http(s)://HOST:PORT.")
    ] = f"127.0.0.1:{PAGE_PORT}",
    http_token_file: Annotated[
        Path | None, typer.Option(help="The file that the node has as --http-token-file.")
    ] = None,
) -> None:
    """Print a link to a node's page. It is good once, for five minutes."""
    print(link(at, read_secret("--http-token-file", "a token", http_token_file)))


def link(at: str, token: str) -> str:
    """Where a browser goes.

    >>> link("127.0.0.1:9410", "")
    'http://127.0.0.1:9410/'
    >>> link("n1.example:9410", "secret").startswith("https://n1.example:9410/enter?code=")
    True
    """
    scheme, host = _read(at)
    if token:
        return f"{scheme}://{host}/enter?code={code_for(host, token, time.time())}"
    return f"{scheme}://{host}/"


def _read(at: str) -> tuple[str, str]:
    """The scheme, and the host as a browser will say it."""
    scheme, _, host = at.rpartition("://")
    address = Address.parse(urlsplit(f"//{host}").netloc or host, "page")
    scheme = scheme or ("http" if is_loopback(address.host) else "https")
    if scheme not in ("http", "https"):
        raise BadOption("page", at, "HOST:PORT, http://HOST:PORT or https://HOST:PORT")
    return scheme, str(address)
