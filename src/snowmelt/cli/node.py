"""`snowmelt node`: one node of a cluster, in the foreground."""

import stat
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Annotated, Final

import msgspec
import typer

from snowmelt.core.errors import BadOption
from snowmelt.core.instant import SECOND, seconds
from snowmelt.core.names import Address, node_id
from snowmelt.protocols.membership import MembershipSettings
from snowmelt.runtime import logs, server
from snowmelt.runtime.credentials import Credentials
from snowmelt.runtime.etcd import EtcdPlace
from snowmelt.runtime.folders import looked_at
from snowmelt.runtime.http.pages import Site, SiteContext
from snowmelt.runtime.limits import Limits

DEFAULTS = msgspec.structs.asdict(Limits())
LIMITS_HELP = ", ".join(f"{name}={value}" for name, value in DEFAULTS.items())
LISTEN: Final = "127.0.0.1:4410"
LEVELS = ("debug", "info", "warning", "error")
NO_TLS = typer.Option("--no-tls", help="Listen without TLS in a network that is the cluster's own.")
USERS = typer.Option(
    help="File of users, their secrets and rights, in place of a token.", envvar="SNOWMELT_USERS"
)
TOKENS = typer.Option(help="File with the cluster's token; a new and an old one, a line each.")
COORDINATOR = typer.Option(
    help="What decides on members: disk, or etcd://HOST:PORT[,HOST:PORT...]/PREFIX"
    "[?authority=FILE&certificate=FILE&key=FILE]; the same on all nodes."
)


def read_token(file: Path | None) -> str:
    """The token in a file; the first, where the file has an old one and a new one."""
    return read_secret("--token-file", "a token", file).partition("\n")[0].rstrip()


def read_secret(option: str, what: str, file: Path | None) -> str:
    """What is in a file, without the white space round it; nothing without a file."""
    if file is None:
        return ""
    try:
        secret = file.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise BadOption(option, str(file), f"a readable text file ({error})") from error
    if not secret:
        raise BadOption(option, str(file), f"a file with {what} in it; this one is empty")
    if file.stat().st_mode & (stat.S_IRGRP | stat.S_IROTH):
        _warn_of_readers(file)
    return secret


@cache
def _warn_of_readers(file: Path) -> None:
    """Once a file: a command may connect several times."""
    print(f"snowmelt: others can read {file}: chmod 600 {file}", file=sys.stderr)


def read_coordinator(given: str, user: str = "", file: Path | None = None) -> EtcdPlace | None:
    """Where views are decided; None for a disk.

    >>> read_coordinator("disk") is None
    True
    """
    if given == "disk":
        if user or file:
            raise BadOption("--etcd-user", user, "nothing, without --coordinator etcd://…")
        return None
    return EtcdPlace.read(given, user, read_secret("--etcd-password-file", "a password", file))


HEARTBEAT: Final = MembershipSettings().interval / SECOND
MISSES: Final = MembershipSettings().misses


def checked_heartbeat(given: float) -> float:
    """Seconds between heartbeats that make sense."""
    if not 0.01 <= given <= 3600:
        raise BadOption("--heartbeat", given, "0.01 to 3600 seconds")
    return given


def read_limits(words: list[str]) -> Limits:
    """The limits with some of them changed.

    >>> read_limits(["connections=100", "drain_seconds=2"]).connections
    100
    """
    changes: dict[str, int | float] = {}
    for word in words:
        name, _, value = word.partition("=")
        default = DEFAULTS.get(name)
        if default is None:
            raise BadOption("--limit", word, "NAME=VALUE, where NAME is " + ", ".join(DEFAULTS))
        try:
            changes[name] = type(default)(value)
        except ValueError:
            kind = "a whole number" if isinstance(default, int) else "a number of seconds"
            raise BadOption(f"--limit {name}", value, kind) from None
    return msgspec.structs.replace(Limits(), **changes)


def _named(data: Path) -> str:
    known = looked_at(data).id
    if not known:
        allowed = "a name in the cluster: the folder has none yet (snowmelt found gives it one)"
        raise BadOption("--id", "left out", allowed)
    return known


def _membership_settings(heartbeat: float, misses: int) -> MembershipSettings:
    beat = seconds(heartbeat)
    return MembershipSettings(interval=beat, misses=misses, grace=seconds(heartbeat / 3))


def _site() -> Callable[[SiteContext], Site]:
    """The page of the browser."""
    from snowmelt.page import PageSite  # noqa: PLC0415  # a node without it starts sooner

    return PageSite


def node(
    data: Annotated[Path, typer.Option(help="Folder of this node's disk; made when missing.")],
    id: Annotated[  # noqa: A002
        str, typer.Option(help="This node's name in the cluster; its folder knows it later.")
    ] = "",
    listen: Annotated[str, typer.Option(help="Where to listen.")] = LISTEN,
    join: Annotated[
        list[str] | None,
        typer.Option(help="Address of a node of the cluster to join; repeat for more."),
    ] = None,
    advertise: Annotated[str, typer.Option(help="Where others reach it, if not --listen.")] = "",
    cluster: Annotated[str, typer.Option(help="The cluster's name.")] = "snowmelt",
    token_file: Annotated[Path | None, TOKENS] = None,
    users: Annotated[Path | None, USERS] = None,
    user: Annotated[str, typer.Option(help="Which of them this node is.")] = "",
    tls_authority: Annotated[Path | None, typer.Option(help="CA certificate, PEM.")] = None,
    tls_certificate: Annotated[
        Path | None, typer.Option(help="This node's certificate, good for its id, PEM.")
    ] = None,
    tls_key: Annotated[Path | None, typer.Option(help="The key of the certificate.")] = None,
    no_tls: Annotated[bool, NO_TLS] = False,
    coordinator: Annotated[str, COORDINATOR] = "disk",
    etcd_user: Annotated[str, typer.Option(help="A user of etcd.")] = "",
    etcd_password_file: Annotated[
        Path | None, typer.Option(help="File with that user's password.")
    ] = None,
    heartbeat: Annotated[float, typer.Option(help="Seconds between heartbeats.")] = HEARTBEAT,
    misses: Annotated[
        int, typer.Option(help="After so many missed heartbeats a node is out.")
    ] = MISSES,
    limit: Annotated[
        list[str] | None, typer.Option(help="NAME=VALUE; again for more. " + LIMITS_HELP)
    ] = None,
    http: Annotated[
        str, typer.Option(help="HOST:PORT of a page, /metrics, /livez and /readyz.")
    ] = "",
    http_token_file: Annotated[
        Path | None, typer.Option(help="File with a token for the page and /metrics.")
    ] = None,
    log: Annotated[str, typer.Option(help="Log level: debug, info, warning, error.")] = "info",
) -> None:
    """Run one node until SIGTERM or Ctrl-C. It then leaves the cluster in order.

    With an empty --data it joins a cluster, by --join or --coordinator. A new one is begun by
    `snowmelt found`.
    """
    if log not in LEVELS:
        raise BadOption("--log", log, ", ".join(LEVELS))
    checked_heartbeat(heartbeat)
    logs.set_up(log)
    config = server.NodeConfig(
        id=node_id(id or _named(data)),
        listen=Address.parse(listen, "--listen"),
        advertise=Address.parse(advertise, "--advertise") if advertise else None,
        data=data,
        join=tuple(Address.parse(one, "--join") for one in join or ()),
        cluster=cluster,
        credentials=Credentials(
            token=read_token(token_file),
            token_file=token_file,
            users=users,
            user=user,
            authority=tls_authority,
            certificate=tls_certificate,
            key=tls_key,
            plain=no_tls,
        ),
        settings=_membership_settings(heartbeat, misses),
        limits=read_limits(limit or []),
        etcd=read_coordinator(coordinator, etcd_user, etcd_password_file),
        http=Address.parse(http, "--http") if http else None,
        http_token=read_secret("--http-token-file", "a token", http_token_file),
        site=_site() if http else None,
    )
    server.run(config)
