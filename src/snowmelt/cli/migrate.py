"""`snowmelt migrate`: a cluster that a disk decided for goes to etcd."""

import json
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from snowmelt.cli.node import read_coordinator
from snowmelt.core.errors import BadOption
from snowmelt.protocols.baton.fences import KEY as FENCES
from snowmelt.protocols.queue.messages.home_words import Assignment
from snowmelt.runtime.migrate import Migration, Move


def migrate(
    data: Annotated[Path, typer.Option(help="The folder of the stopped coordinator.")],
    coordinator: Annotated[str, typer.Option(help="Where to: etcd://HOST:PORT[,...]/PREFIX.")],
    etcd_user: Annotated[str, typer.Option(help="A user of etcd.")] = "",
    etcd_password_file: Annotated[
        Path | None, typer.Option(help="File with that user's password.")
    ] = None,
    cluster: Annotated[str, typer.Option(help="The cluster's name.")] = "snowmelt",
    yes: Annotated[
        bool, typer.Option("--yes", help="Do it; the default only shows what would be done.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Let etcd decide instead of a disk. Stop all nodes of the cluster first.

    Shows what it would do; with --yes it does it. Cut off at any moment, it is run again.
    """
    place = read_coordinator(coordinator, etcd_user, etcd_password_file)
    if place is None:
        raise BadOption("--coordinator", coordinator, "etcd://HOST:PORT/PREFIX")
    with Migration(data, place, cluster) as migration:
        move = migration.plan()
        if yes:
            migration.carry_out(move)
        told = _told(move, migration.where, done=yes)
    if as_json:
        print(json.dumps(told))
    else:
        print(_text(told))


def _told(move: Move, where: str, *, done: bool) -> dict[str, object]:
    view = move.ledger.view
    return {
        "done": done,
        "to": where,
        "cluster": view.identity,
        "view": view.epoch,
        "members": [one.id for one in view.members],
        "queues": sorted(name for name, home in move.homes.items() if _is_queue(name, home)),
        "batons": sorted(name for name in move.batons if name != FENCES.decode()),
        "left_behind": list(move.too_large),
    }


def _is_queue(name: str, home: bytes) -> bool:
    """And neither a number nor the grave of one."""
    return not name.startswith("/") and msgspec.msgpack.decode(home, type=Assignment).end is None


def _text(told: dict[str, object]) -> str:
    queues, batons, left = (told[name] for name in ("queues", "batons", "left_behind"))
    assert isinstance(queues, list)
    assert isinstance(batons, list)
    assert isinstance(left, list)
    many = f"{len(queues)} queues, {len(batons)} values of batons"
    to = f"Cluster {told['cluster']} goes to {told['to']}, with view {told['view']}"
    lines = [f"{to}: {many}. Items stay where they are."]
    if left:
        lines.append(f"Values too large for etcd stay on this disk: {', '.join(left)}.")
    if told["done"]:
        lines.append(f"Done. Start every node with --coordinator {told['to']}")
    else:
        lines.append("Nothing was done. Stop all nodes, and say the same with --yes.")
    return "\n".join(lines)
