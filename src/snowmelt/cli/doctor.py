"""`snowmelt doctor`: what is wrong with a machine, or with a cluster, before it costs anything."""

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from time import perf_counter, time
from typing import Annotated, Final

import msgspec
import typer
from rich.console import Console

from snowmelt import __version__
from snowmelt.cli.node import LISTEN, NO_TLS, USERS, read_limits, read_token
from snowmelt.cli.options import TIMEOUT, TOKEN, USER, AsJson, ClusterOptions
from snowmelt.cli.tables import listing, styled
from snowmelt.core.errors import BadOption, SnowmeltError
from snowmelt.core.names import Address
from snowmelt.runtime import checkup
from snowmelt.runtime.checkup import CheckResult, Health
from snowmelt.runtime.credentials import Credentials

STYLES: Final = {
    Health.WELL: "green",
    Health.WARNING: "yellow",
    Health.BAD: "red",
    Health.UNKNOWN: "dim",
}
APART: Final = 0.5
"""Seconds that clocks of a cluster may differ before it is worth a word."""


def doctor(
    url: Annotated[str, typer.Option(help="A cluster that runs: each of its nodes is asked.")] = "",
    data: Annotated[Path | None, typer.Option(help="Folder of a node's disk.")] = None,
    id: Annotated[str, typer.Option(help="The node's name; its certificate must have it.")] = "",  # noqa: A002
    listen: Annotated[str, typer.Option(help="Where a node shall listen.")] = LISTEN,
    token_file: Annotated[Path | None, TOKEN] = None,
    user: Annotated[str, USER] = "",
    users: Annotated[Path | None, USERS] = None,
    tls_authority: Annotated[Path | None, typer.Option(help="CA certificate, PEM.")] = None,
    tls_certificate: Annotated[Path | None, typer.Option(help="The node's certificate.")] = None,
    tls_key: Annotated[Path | None, typer.Option(help="The key of the certificate.")] = None,
    no_tls: Annotated[bool, NO_TLS] = False,
    limit: Annotated[list[str] | None, typer.Option(help="NAME=VALUE; as of a node.")] = None,
    as_json: AsJson = False,
    timeout: Annotated[float, TIMEOUT] = 5.0,
) -> None:
    """Look for what is wrong with this machine, or a cluster.

    Give it the options that the node has: it checks the rights of files, certificates and their
    days, the disk, limits of the system, the clock and the port, and changes nothing. With --url
    it asks each node of a cluster. Ends with 1 when anything is bad.
    """
    cluster = ClusterOptions(url, token_file, timeout, user)
    if url and data is None:
        findings = list(_cluster(cluster))
    else:
        token = ""
        with suppress(BadOption):  # what is wrong with the file is a finding
            token = read_token(token_file)
        credentials = Credentials(
            token=token,
            users=users,
            authority=tls_authority,
            certificate=tls_certificate,
            key=tls_key,
            plain=no_tls,
        )
        files = {"--token-file": token_file, "--users": users, "--tls-key": tls_key}
        address = Address.parse(listen, "--listen")
        connections = read_limits(limit or []).connections
        findings = list(_machine(data, id, address, credentials, files, connections))
        findings += _cluster(cluster) if url else ()
    if as_json:
        print(json.dumps(msgspec.to_builtins(findings)))
    else:
        _show(findings)
    if any(one.verdict is Health.BAD for one in findings):
        raise typer.Exit(1)


def _machine(
    data: Path | None,
    id: str,  # noqa: A002
    address: Address,
    credentials: Credentials,
    files: dict[str, Path | None],
    connections: int,
) -> Iterator[CheckResult]:
    yield checkup.software()
    yield from checkup.secret_files(files)
    yield from checkup.token(credentials)
    yield from checkup.users(credentials)
    if data is not None:
        yield from checkup.data_folder(data)
    yield from checkup.certificates(credentials, id)
    yield checkup.open_files(connections)
    yield checkup.shared_memory()
    yield checkup.clock()
    yield checkup.listening(address, credentials)


def _cluster(options: ClusterOptions) -> Iterator[CheckResult]:
    """Each member of a running cluster: whether it answers, its view, its version, its clock."""
    try:
        with options.open() as cluster:
            told = cluster.status(timeout=options.timeout)
    except SnowmeltError as error:
        yield CheckResult(
            f"--url {options.url}", Health.BAD, str(error), "start it, or mend the URL"
        )
        return
    if told.view is None:
        text = "join it to a cluster: --join, or snowmelt found"
        yield CheckResult(told.node, Health.BAD, f"it is {told.standing}", text)
        return
    for member in told.view.members:
        yield _member(options, member.id, member.address, told.view.epoch)


def _member(options: ClusterOptions, name: str, address: Address, epoch: int) -> CheckResult:
    about = f"{name} at {address}"
    try:
        with options.member(address, options.timeout).open() as cluster:
            told = cluster.status(timeout=options.timeout)
            begin, began = perf_counter(), time()
            process = cluster.statistics(timeout=options.timeout)
            took = perf_counter() - begin
    except SnowmeltError as error:
        return CheckResult(
            about, Health.BAD, str(error), "look at its log; start it, or mend its way"
        )
    apart = process.clock - (began + took / 2)
    said = f"{told.standing}, version {process.version}, answers in {took * 1e3:.1f} ms"
    said += f"; {process.fullness}" + (f"; drained: {process.drained}" if process.drained else "")
    if told.standing != "current" or told.view is None or told.view.epoch < epoch:
        text = "its view is older than others know: look at its log and its network"
        return CheckResult(about, Health.BAD, said, text)
    if process.nearly_full:
        text = "make room: puts are refused when it is full"
        return CheckResult(about, Health.WARNING, said, text)
    if abs(apart) - took / 2 > APART:
        text = "keep its clock right: delays and schedules go by the leader's"
        return CheckResult(about, Health.WARNING, f"{said}; its clock is {apart:+.1f} s off", text)
    if process.version != __version__:
        text = f"this is {__version__}: upgrade node by node until all are the same"
        return CheckResult(about, Health.WARNING, said, text)
    return CheckResult(about, Health.WELL, said)


def _show(findings: list[CheckResult]) -> None:
    heads = ("", "about", "found", "way out")
    table = listing(heads, words=heads)
    for one in findings:
        verdict = styled(one.verdict.value, STYLES[one.verdict])
        table.add_row(verdict, one.about, one.said, one.way_out)
    Console().print(table)
