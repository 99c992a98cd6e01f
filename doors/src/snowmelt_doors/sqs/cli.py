"""`snowmelt sqs`: a door for programs that speak SQS."""

import asyncio
import signal
import ssl
from pathlib import Path
from typing import Annotated, Final

import typer

from snowmelt import aio
from snowmelt.cli.node import read_token
from snowmelt.cli.options import DATA, DEFAULT_URL, TOKEN, URL, USER
from snowmelt.core.errors import BadOption
from snowmelt.core.loopback import is_loopback
from snowmelt.core.names import Address
from snowmelt.core.users import Accounts
from snowmelt.runtime.limits import raise_open_files
from snowmelt_doors.sqs.door import SqsDoor, serve_until
from snowmelt_doors.sqs.http import CONNECTIONS_MAX

LISTEN: Final = "127.0.0.1:9324"
_USERS_BYTES_MAX: Final = 1 << 20


def sqs(  # noqa: PLR0913, PLR0917 - options are arguments
    listen: Annotated[str, typer.Option(help="Where to listen.")] = LISTEN,
    url: Annotated[str, URL] = DEFAULT_URL,
    data: Annotated[Path | None, DATA] = None,
    users: Annotated[
        Path | None, typer.Option(help="File of users: names are access keys, secrets secret keys.")
    ] = None,
    tls_certificate: Annotated[Path | None, typer.Option(help="Its certificate, PEM.")] = None,
    tls_key: Annotated[Path | None, typer.Option(help="The key of the certificate.")] = None,
    token_file: Annotated[Path | None, TOKEN] = None,
    user: Annotated[str, USER] = "",
) -> None:
    """Serve programs that speak SQS, from queues of a cluster."""
    address = Address.parse(listen, "--listen")
    accounts = None if users is None else read_users(users)
    tls = read_tls(tls_certificate, tls_key)
    if accounts is None and not is_loopback(address.host):
        raise BadOption("--listen", listen, "an address of this machine alone, or with --users")
    token = read_token(token_file) or None
    raise_open_files(CONNECTIONS_MAX)
    opened = (
        aio.open(data) if data is not None else aio.connect(url, token=token, user=user or None)
    )
    asyncio.run(_serve(address, opened, accounts, tls))


async def _serve(
    address: Address,
    opened: aio.Cluster | aio.EmbeddedCluster,
    accounts: Accounts | None,
    tls: ssl.SSLContext | None,
) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for one in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(one, stop.set)
    async with opened as cluster:
        door = SqsDoor(cluster, accounts, encrypted=tls is not None)

        def ready(port: int) -> None:
            where = Address(address.host, port)
            typer.echo(f"SQS is spoken at {'http' if tls is None else 'https'}://{where}")

        await serve_until(door, address, tls, stop, ready)


def read_users(path: Path) -> Accounts:
    """The users of a file, as nodes read it."""
    try:
        with path.open("rb") as file:
            raw = file.read(_USERS_BYTES_MAX + 1)
        if len(raw) > _USERS_BYTES_MAX:
            raise BadOption("--users", path, f"a file of {_USERS_BYTES_MAX} bytes at most")
        return Accounts.parse(raw.decode())
    except (OSError, UnicodeDecodeError) as error:
        raise BadOption("--users", path, f"a file of users that can be read: {error}") from None


def read_tls(certificate: Path | None, key: Path | None) -> ssl.SSLContext | None:
    """What to listen with; None without a certificate."""
    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        raise BadOption("--tls-key", key, "a file, together with --tls-certificate")
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        made.load_cert_chain(certificate, key)
    except (OSError, ssl.SSLError) as error:
        raise BadOption("--tls-certificate", certificate, f"a certificate: {error}") from None
    return made
