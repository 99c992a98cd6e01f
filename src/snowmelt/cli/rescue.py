"""`snowmelt rescue`: a cluster whose coordinator's disk is lost, from its members' folders."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from snowmelt.cli.tables import listing
from snowmelt.protocols.queue.controller.rescuing import CopyCondition, Housed
from snowmelt.protocols.queue.streams import node_of
from snowmelt.runtime.rescue import Rescue, RescuePlan


def rescue(
    data: Annotated[Path, typer.Option(help="The new coordinator's folder; made here.")],
    members: Annotated[
        list[Path],
        typer.Option("--from", help="Folder of a stopped node; repeat for each node."),
    ],
    lost: Annotated[
        list[str] | None, typer.Option(help="A node whose disk is lost; repeat for more.")
    ] = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="Do it; the default only shows what would be written.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Found a coordinator anew when its disk is lost. Its members' folders say how.

    Shows what it would do, and what is lost; with --yes it does it.
    """
    with Rescue(data, members, lost or []) as one:
        plan = one.plan()
        if yes:
            one.carry_out(plan)
    if as_json:
        print(json.dumps(_as_object(plan, done=yes)))
    else:
        _show(plan, done=yes)


def _show(plan: RescuePlan, *, done: bool) -> None:
    console = Console(highlight=False)
    console.print(_heading(plan))
    if _there(plan):
        console.print(_table(plan))
    for line in _warnings(plan):
        console.print(f"- {line}")
    if done:
        console.print(f"Done. Start {plan.me.id} without --join on {plan.data}, then the others.")
    else:
        console.print("Nothing was written. To do it, say the same with --yes.")


def _heading(plan: RescuePlan) -> str:
    view, last = plan.ledger.view, plan.ledger.left_out[0]
    named = ", ".join(f"{one.witness.own.id} ({one.path})" for one in plan.folders)
    return (
        f"Cluster {view.identity} is founded anew in {plan.data}, with {plan.me.id} as its"
        f" coordinator.\nThe newest view in these folders is {last}; the next is {view.epoch}.\n"
        f"Folders: {named}.\nLost: {', '.join(plan.lost)}."
    )


def _table(plan: RescuePlan) -> Table:
    heads = ("queue", "kind", "replicas", "goes on at", "term", "what is left")
    table = listing(heads, words=heads)
    for one in _there(plan):
        home = one.home
        replicas = str(home.settings.replicas) if home else "?"
        where = node_of(home.master) if home else "-"
        term = f"{one.last_term} -> {home.term}" if home else "-"
        table.add_row(one.queue, _kind(one), replicas, where, term, _left(one))
    return table


def _there(plan: RescuePlan) -> list[Housed]:
    return [one for one in plan.fifos if one.left is not CopyCondition.DELETED]


def _kind(one: Housed) -> str:
    if one.home is None:
        return "?"
    return "fifo" if one.home.settings.priorities == 1 else "priority"


def _left(one: Housed) -> str:
    match one.left:
        case CopyCondition.WHOLE:
            return "whole"
        case CopyCondition.PART:
            return "in part: items that were only on lost disks are lost"
        case CopyCondition.LOST | CopyCondition.DELETED:
            return "lost: there are bodies, and no copy says in which order"


def _warnings(plan: RescuePlan) -> list[str]:
    coordinator, *others = plan.lost
    disks = " or ".join(plan.lost)
    unnamed = f"Queues with one replica that were at home on {disks} are lost, and can't be named"
    lines = [
        f"{unnamed} where no item of theirs lies here.",
        f"Values of batons lay on {coordinator} alone and are lost; fences go on above the old.",
        f"The old folder of {coordinator} must never be started again, should it turn up.",
    ]
    if others:
        lines.append(
            f"Disks of {', '.join(others)} are refused from now on; to begin with an empty one:"
            " snowmelt forget ID"
        )
    return lines


def _as_object(plan: RescuePlan, *, done: bool) -> dict[str, object]:
    view = plan.ledger.view
    return {
        "done": done,
        "cluster": view.identity,
        "coordinator": plan.me.id,
        "newest_view": plan.ledger.left_out[0],
        "next_view": view.epoch,
        "from": [one.witness.own.id for one in plan.folders],
        "lost": list(plan.lost),
        "queues": [
            {
                "queue": one.queue,
                "kind": _kind(one),
                "left": one.left.value,
                "last_term": one.last_term,
                "next_term": one.home.term if one.home else None,
                "at": node_of(one.home.master) if one.home else None,
            }
            for one in _there(plan)
        ],
        "warnings": _warnings(plan),
    }
