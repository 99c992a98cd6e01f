"""`snowmelt groups`: groups that took items of a queue for good, and how to take these back."""

import json
import time
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from snowmelt.cli.commands import Commands
from snowmelt.cli.options import HERE, AsJson, PlaceOptions, QueueName
from snowmelt.cli.queue import confirm
from snowmelt.cli.tables import listing
from snowmelt.client.fifo.face import Fifo
from snowmelt.core.errors import BadOption
from snowmelt.core.instant import SECOND
from snowmelt.protocols.queue.api.calls import GroupStatus

groups = Commands(help="Groups of a queue: streams and pipelines.", no_args_is_help=True)


@groups.command(name="list")
def list_(queue: QueueName, as_json: AsJson = False, at: PlaceOptions = HERE) -> None:
    """List a queue's groups: what each holds, and when it was last heard of."""
    with at.open() as cluster:
        found = cluster.fifo(queue).groups(timeout=at.timeout)
    if as_json:
        print(json.dumps({"queue": queue, "groups": [group_object(one) for one in found]}))
    elif found:
        Console().print(groups_table(found))
    else:
        print(f"{queue} has no groups")


@groups.command()
def release(
    queue: QueueName,
    group: Annotated[str, typer.Argument(help="The group's name.")],
    yes: Annotated[bool, typer.Option("--yes", help="Do it without asking.")] = False,
    at: PlaceOptions = HERE,
) -> None:
    """Forget a group: what it holds goes back, and its readers are stopped."""
    with at.open() as cluster:
        fifo = cluster.fifo(queue)
        found = _named(fifo, group, at.timeout)
        if not yes:
            confirm(_question(queue, found))
        count = fifo.group(group).release(timeout=at.timeout)
    print(f"{count} {'item' if count == 1 else 'items'} of {group} went back into {queue}")


def group_object(group: GroupStatus) -> dict[str, object]:
    """A group as one JSON object, its fields by name."""
    fields: dict[str, object] = msgspec.structs.asdict(group)
    return fields | {"holding": group.given - group.done, "heard": group.heard / SECOND}


def groups_table(found: list[GroupStatus]) -> Table:
    """Shows the groups of a queue, one row a group."""
    table = listing(("group", "done", "holding", "last heard"), words=("group",))
    for one in found:
        holding = f"{one.given - one.done:,}"
        table.add_row(one.name, f"{one.done:,}", holding, heard_text(one))
    return table


def heard_text(group: GroupStatus) -> str:
    """When a group was last heard of, in words.

    >>> heard_text(GroupStatus("loaders", 1, 0, 0, heard=0))
    'never'
    """
    if not group.heard:
        return "never"
    return f"{max(0.0, (time.time_ns() - group.heard) / SECOND):,.1f} s ago"


def _named(fifo: Fifo, name: str, timeout: float) -> GroupStatus:
    found = fifo.groups(timeout=timeout)
    for one in found:
        if one.name == name:
            return one
    known = ", ".join(one.name for one in found) or f"none; {fifo.name} has no groups"
    raise BadOption("group", name, known)


def _question(queue: str, group: GroupStatus) -> str:
    back = f"{group.given - group.done:,} items back to {queue}"
    return f"Forget {group.name}, heard of {heard_text(group)}, and give {back}?"
