"""`snowmelt up`, `status`, `ping`, `reload`: a cluster seen from outside."""

import json
import statistics
import tempfile
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.live import Live
from rich.table import Table

from snowmelt.cli.local import LocalCluster, end_on_sigterm
from snowmelt.cli.local_etcd import LocalEtcd
from snowmelt.cli.node import HEARTBEAT, MISSES, checked_heartbeat, read_coordinator
from snowmelt.cli.options import CLUSTER, AsJson, ClusterOptions
from snowmelt.cli.page import page_port
from snowmelt.cli.tables import listing, styled
from snowmelt.client.cluster import Cluster
from snowmelt.client.connection.clients import Clients
from snowmelt.core.errors import BadOption, SnowmeltError
from snowmelt.core.instant import SECOND
from snowmelt.core.shown import printable
from snowmelt.protocols.membership import Member, Status
from snowmelt.runtime.statistics import NodeStatistics, Reloaded
from snowmelt.wire.framing import Kind

NOT_CURRENT = 4
VERSION_SECONDS = 1.0
"""So long a node may take to say which version it is."""
ASKED_AT_ONCE = 16
STYLES = {"current": "green", "cut off": "red", "outside": "yellow", "no answer": "red"}


def up(
    nodes: Annotated[int, typer.Option(help="How many nodes.")] = 3,
    data: Annotated[
        Path | None,
        typer.Option(help="Folder of their disks; default: a new one, removed at the end."),
    ] = None,
    port: Annotated[int, typer.Option(help="Port of the first; the others follow.")] = 4410,
    heartbeat: Annotated[float, typer.Option(help="Seconds between heartbeats.")] = HEARTBEAT,
    coordinator: Annotated[
        str,
        typer.Option(help="disk; etcd, started beside the nodes; or etcd://HOST:PORT/PREFIX."),
    ] = "disk",
) -> None:
    """Run a local cluster in the foreground until Ctrl-C."""
    if not 1 <= nodes <= 99:
        raise BadOption("--nodes", nodes, "1 to 99")
    if not 1 <= port <= 65_535 - nodes:
        raise BadOption("--port", port, f"1 to {65_535 - nodes}")
    checked_heartbeat(heartbeat)
    end_on_sigterm()
    with ExitStack() as stack:
        folder = data or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="snowmelt-")))
        url = coordinator
        if coordinator == "etcd":
            url = stack.enter_context(LocalEtcd(folder / "etcd")).url
        else:
            read_coordinator(coordinator)
        options = [] if url == "disk" else ["--coordinator", url]
        options += ["--misses", str(MISSES)]
        http = page_port()
        local = LocalCluster(nodes, folder, heartbeat, port, options=options, http=http)
        cluster = stack.enter_context(local)
        view = cluster.start()
        console = Console()
        kept = folder if data else "a folder that is thrown away (--data keeps it)"
        there = " ".join(one.id for one in view.members)
        console.print(f"{there}: up at [bold]{cluster.url}[/], on {kept}.")
        console.print(f"It is cluster {view.identity}. Ctrl-C ends it.", highlight=False)
        console.print(f"In the browser: http://127.0.0.1:{http}/", highlight=False)
        try:
            _watch(cluster, console)
        except KeyboardInterrupt:
            console.print("stopping in order …")


def _watch(cluster: LocalCluster, console: Console) -> None:
    """Shows how the nodes stand, as long as anybody looks."""
    if not console.is_terminal:
        while True:
            time.sleep(1.0)
    with Live(console=console, refresh_per_second=2) as live:
        while True:
            rows = [
                (node.name, f"127.0.0.1:{node.port}", node.status(0.5)) for node in cluster.nodes
            ]
            live.update(standing_table(rows))
            time.sleep(0.5)


def status(
    as_json: AsJson = False,
    counts: Annotated[bool, typer.Option(help="Also the counters of the process itself.")] = False,
    at: ClusterOptions = CLUSTER,
) -> None:
    """Show how a node sees the cluster. Ends with 4 when that node is not current."""
    with at.open() as cluster:
        told = cluster.status(timeout=at.timeout)
        process = _process_of(cluster, at.timeout, needed=counts)
    versions = {} if process is None else _versions(at, told, process)
    if as_json:
        object_ = as_builtins(told, versions)
        if process is not None:
            object_ |= process_object(process)
        if process is not None and counts:
            object_["process"] = msgspec.to_builtins(process)
        print(json.dumps(object_))
    else:
        console = Console()
        console.print(status_table(told, versions))
        for line in process_lines(process) if process is not None else ():
            print(printable(line))
        if process is not None and counts:
            console.print_json(msgspec.json.encode(process).decode())
    if told.standing != "current":
        raise typer.Exit(NOT_CURRENT)


def _process_of(cluster: Cluster, timeout: float, *, needed: bool) -> NodeStatistics | None:
    """What the node's process says of itself; not every user may ask."""
    try:
        return cluster.statistics(timeout=timeout)
    except SnowmeltError:
        if needed:
            raise
        return None


def _versions(at: ClusterOptions, told: Status, own: NodeStatistics) -> dict[str, str]:
    """Which version each member runs; of one that does not answer soon, nothing."""
    others = [one for one in (told.view.members if told.view else ()) if one.id != own.node]

    def asked(member: Member) -> str:
        try:
            with at.member(member.address, min(VERSION_SECONDS, at.timeout)).open() as cluster:
                return cluster.statistics(timeout=min(VERSION_SECONDS, at.timeout)).version
        except SnowmeltError:
            return ""

    with ThreadPoolExecutor(ASKED_AT_ONCE) as threads:
        found = threads.map(asked, others)
        return {own.node: own.version} | {
            member.id: version for member, version in zip(others, found, strict=True) if version
        }


def reload(as_json: AsJson = False, at: ClusterOptions = CLUSTER) -> None:
    """Have each node of the URL read its users and certificates again.

    A node that can't read them goes on with those it has, and this ends with 2. Connections of
    users that are gone, or have lost the secret by which they came, are closed.
    """
    place = at.place()
    told = {}
    for address in place.addresses:
        one = Clients(msgspec.structs.replace(place, addresses=(address,)))
        try:
            answer = one.inquire(at.timeout, Kind.RELOAD)
        finally:
            one.close()
        told[str(address)] = msgspec.json.decode(answer, type=Reloaded).users
        if not as_json:
            users = told[str(address)]
            print(f"{address} knows {users} user{'s' * (users != 1)}")
    if as_json:
        print(json.dumps(told))


def ping(
    count: Annotated[int, typer.Option(help="How often.")] = 10,
    size: Annotated[int, typer.Option(help="How many bytes.")] = 64,
    as_json: AsJson = False,
    at: ClusterOptions = CLUSTER,
) -> None:
    """Send bytes to a node and back, and time it."""
    if count < 1:
        raise BadOption("--count", count, "1 or more")
    if not 0 <= size <= 64 << 20:
        raise BadOption("--size", size, "0 to 67108864 bytes")
    took: list[float] = []
    with at.open() as cluster:
        for _ in range(count):
            begin = time.perf_counter()
            cluster.ping(bytes(size), timeout=at.timeout)
            took.append((time.perf_counter() - begin) * 1e3)
    told = {
        "count": count,
        "size": size,
        "median_ms": round(statistics.median(took), 3),
        "max_ms": round(max(took), 3),
    }
    print(json.dumps(told) if as_json else _sentence(told))


def _sentence(told: dict[str, float]) -> str:
    return (
        f"{told['count']} x {told['size']} bytes there and back: "
        f"median {told['median_ms']} ms, longest {told['max_ms']} ms"
    )


def as_builtins(status: Status, versions: Mapping[str, str]) -> dict[str, object]:
    """A status as one JSON object, its fields by name; a version that is not known is empty."""
    view = status.view
    shown = None
    if view is not None:
        shown = {
            "cluster": view.identity,
            "epoch": view.epoch,
            "coordinator": view.coordinator,
            "members": [
                {
                    "id": one.id,
                    "address": str(one.address),
                    "start": one.start,
                    "version": versions.get(one.id, ""),
                }
                for one in view.members
            ],
        }
    silent = {node: span / SECOND for node, span in status.silent.items()}
    return {
        "node": status.node,
        "standing": status.standing,
        "view": shown,
        "seconds_since_heard": silent,
    }


def process_object(told: NodeStatistics) -> dict[str, object]:
    """The same for a program."""
    disk = {name: told.store.get(name, 0) for name in ("bytes_used", "bytes_max", "bytes_free")}
    return {"drained": told.drained, "disk": disk}


def process_lines(told: NodeStatistics) -> list[str]:
    """What a person should know of a node's process."""
    words = {"empty": "is drained: it keeps no queue", "draining": "is being drained"}
    drained = [f"{told.node} {words[told.drained]}"] if told.drained in words else []
    return [*drained, f"{told.node}: {told.fullness}"]


def standing_table(rows: list[tuple[str, str, Status | None]]) -> Table:
    """One line a node: (name, address, what it says)."""
    heads = ("node", "address", "standing", "view", "members")
    table = listing(heads, words=heads)
    for name, address, status in rows:
        standing = status.standing if status else "no answer"
        view = status.view if status else None
        members = " ".join(f"{one.id}/{one.start}" for one in view.members) if view else "-"
        epoch = str(view.epoch) if view else "-"
        style = STYLES.get(standing, "white")
        table.add_row(name, address, styled(standing, style), epoch, members)
    return table


def status_table(status: Status, versions: Mapping[str, str]) -> Table:
    """One node's sight of the cluster, a line a member, with the version that it runs."""
    view = status.view
    title = f"{status.node} is {status.standing}"
    title += f" in view {view.epoch} of cluster {view.identity}" if view else ""
    heads = ("node", "address", "starts", "role", "last heard", "version")
    table = listing(heads, words=heads, title=title)
    for member in view.members if view else ():
        role = "coordinator" if view and member.id == view.coordinator else "member"
        silent = status.silent.get(member.id)
        heard = f"{silent / SECOND:.1f} s ago" if silent is not None else "-"
        version = versions.get(member.id, "-")
        table.add_row(member.id, str(member.address), str(member.start), role, heard, version)
    return table
