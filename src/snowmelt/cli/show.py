"""How a cluster looks on a terminal."""

from collections.abc import Mapping

from rich.table import Table

from snowmelt.cli.tables import listing, styled
from snowmelt.core.instant import SECOND
from snowmelt.protocols.membership import Status
from snowmelt.runtime.statistics import NodeStatistics

STYLES = {"current": "green", "cut off": "red", "outside": "yellow", "no answer": "red"}


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
