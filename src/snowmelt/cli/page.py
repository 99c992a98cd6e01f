"""`snowmelt page`: a link that lets a browser in, once.

With the page's token it lets a browser look; with a user's secret it is let in as that user.
"""

import time
from pathlib import Path
from typing import Annotated, Final
from urllib.parse import urlsplit

import typer

from snowmelt.cli.local import free_port, listens
from snowmelt.cli.node import read_secret, read_token
from snowmelt.cli.options import TOKEN, USER
from snowmelt.client.connection.url import named_user, secret_of_environment
from snowmelt.core.errors import BadOption
from snowmelt.core.loopback import is_loopback
from snowmelt.core.names import Address
from snowmelt.page.sessions import code_for

PAGE_PORT: Final = 9410
"""Where `snowmelt up` shows the page, if it is free."""


def page(
    at: Annotated[
        str, typer.Argument(help="Where the node shows it: HOST:PORT, or http(s)://HOST:PORT.")
    ] = f"127.0.0.1:{PAGE_PORT}",
    http_token_file: Annotated[
        Path | None,
        typer.Option(help="The node's --http-token-file: who comes by this link only looks."),
    ] = None,
    token_file: Annotated[Path | None, TOKEN] = None,
    user: Annotated[str, USER] = "",
) -> None:
    """Print a link to a node's page. It is good once, for five minutes.

    With the token, or a user's secret, whoever comes by it may press the page's buttons as that
    user.
    """
    if http_token_file is not None:
        if token_file is not None:
            raise BadOption("--token-file", str(token_file), "left out, or --http-token-file is")
        print(link(at, read_secret("--http-token-file", "a token", http_token_file)))
        return
    secret = read_token(token_file) or secret_of_environment().strip()
    print(link(at, secret, named_user(user or None)) if secret else link(at, ""))


def page_port() -> int:
    """Where it is shown: at its usual port, if that is free."""
    return free_port() if listens(PAGE_PORT) else PAGE_PORT


def link(at: str, token: str, user: str | None = None) -> str:
    """Where a browser goes.

    >>> link("127.0.0.1:9410", "")
    'http://127.0.0.1:9410/'
    >>> link("n1.example:9410", "secret").startswith("https://n1.example:9410/enter?code=")
    True
    """
    scheme, host = _read(at)
    if token:
        return f"{scheme}://{host}/enter?code={code_for(host, token, time.time(), user)}"
    return f"{scheme}://{host}/"


def _read(at: str) -> tuple[str, str]:
    """The scheme, and the host as a browser will say it."""
    scheme, _, host = at.rpartition("://")
    address = Address.parse(urlsplit(f"//{host}").netloc or host, "page")
    scheme = scheme or ("http" if is_loopback(address.host) else "https")
    if scheme not in ("http", "https"):
        raise BadOption("page", at, "HOST:PORT, http://HOST:PORT or https://HOST:PORT")
    return scheme, str(address)
