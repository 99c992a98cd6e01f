"""`snowmelt drain` and `forget`: a node is emptied before it goes, or given up when it is gone."""

import json
import time
from collections.abc import Iterator
from typing import Annotated, Final

import msgspec
import typer
from rich.console import Console

from snowmelt.cli.options import CLUSTER, AsJson, ClusterOptions, check_timeout
from snowmelt.cli.queue_show import so_many
from snowmelt.client.cluster import Cluster
from snowmelt.client.queue.overviews import QueueOverview
from snowmelt.core.errors import BadOption, OutcomeUnknown, Unavailable
from snowmelt.core.names import node_id
from snowmelt.protocols.queue.api.drains import Drained

LOOK: Final = 0.5
STUCK_LOOKS: Final = 6
"""So often in a row nothing else is left but what is stuck."""
NAMED: Final = 5
NODE: Final = typer.Argument(help="The id of a node.")


def drain(
    node: Annotated[str, NODE],
    undo: Annotated[bool, typer.Option("--undo", help="Let it keep queues again.")] = False,
    within: Annotated[float, typer.Option(help="Seconds for all of it.")] = 3600.0,
    as_json: AsJson = False,
    at: ClusterOptions = CLUSTER,
) -> None:
    """Move all queues off a node that runs, and say when it is empty and may be stopped.

    It stays a member, and is given nothing until it starts anew, or until --undo.
    """
    if not 0 < within <= 30 * 86_400:
        raise BadOption("--within", within, "more than 0, at most 2592000 seconds")
    with at.open() as cluster:
        if undo:
            told = cluster.drain(node, undo=True, timeout=at.timeout)
        else:
            told = _emptied(cluster, node, within, at.timeout)
        view = cluster.status(timeout=at.timeout).view
    if as_json:
        print(json.dumps(msgspec.structs.asdict(told)))
    elif undo:
        print(f"{node} keeps queues again, as others do")
    else:
        decides = view is not None and view.coordinator == node
        go = "it decides on the members: keep its disk" if decides else "its disk may go"
        print(f"{node} is empty: it keeps no queue, and {go}. Stop it (SIGTERM) now,")
        print(f"or have it keep queues again: snowmelt drain {node} --undo")


def _emptied(cluster: Cluster, node: str, within: float, timeout: float) -> Drained:
    """Looks until it is empty; raises when it can't be, or takes too long."""
    end, stuck = time.monotonic() + within, 0
    with Console(stderr=True).status(f"{node} hands over …") as shown:
        while True:
            told = _look(cluster, node, timeout, end)
            if told is not None:
                if told.empty:
                    return told
                shown.update(f"{node} has {progress(told)}")
                stuck = stuck + 1 if told.stuck and told.stuck >= told.queues else 0
                if stuck == STUCK_LOOKS:
                    raise Unavailable(
                        f"{node} has {progress(told)}, which need as many nodes as there are "
                        f"({named(told.names)}): start another node, and they move by themselves; "
                        f"or give up: snowmelt drain {node} --undo"
                    )
            if time.monotonic() >= end:
                what = "does not answer" if told is None else f"has {progress(told)} still"
                raise OutcomeUnknown(
                    f"{node} {what} after {within:g} s; it goes on handing over: ask again, "
                    f"or give up: snowmelt drain {node} --undo"
                )
            time.sleep(LOOK)


def _look(cluster: Cluster, node: str, timeout: float, end: float) -> Drained | None:
    """One look; one that fails on the way is nothing, for leaders move."""
    try:
        return cluster.drain(node, timeout=max(0.1, min(timeout, end - time.monotonic())))
    except (OutcomeUnknown, Unavailable):
        return None


def progress(told: Drained) -> str:
    """What a node has still, in words."""
    queues = "1 queue" if told.queues == 1 else f"{told.queues:,} queues"
    more = f", {told.alone:,} of them in one copy" if told.alone else ""
    bodies = f", and {told.bodies:,} bodies of large puts" if told.bodies else ""
    return f"{queues} with {so_many(told.items)}{more}{bodies}"


def named(names: tuple[str, ...]) -> str:
    """The first of some names.

    >>> named(("a", "b", "c", "d", "e", "f"))
    'a, b, c, d, e, …'
    """
    return ", ".join(names[:NAMED]) + (", …" if len(names) > NAMED else "")


def forget(
    node: Annotated[str, typer.Argument(help="The id of a node that is gone for good.")],
    yes: Annotated[bool, typer.Option("--yes", help="Even if queues wait for it.")] = False,
    at: ClusterOptions = CLUSTER,
) -> None:
    """Free the id of an absent node. A node with an empty disk may then take it."""
    check_timeout(at.timeout)
    node_id(node)
    with at.open() as cluster:
        lacking = [] if yes else list(_waiting(cluster.overview(timeout=at.timeout)))
        if lacking:
            listed = "; ".join(lacking)
            raise Unavailable(
                f"queues wait for nodes that are away ({listed}): start {node} on its disk, "
                f"or, if that is lost, say so with: snowmelt forget {node} --yes"
            )
        cluster.forget(node, timeout=at.timeout)
    print(f"{node} is free")


def _waiting(queues: list[QueueOverview]) -> Iterator[str]:
    """A sentence about each queue of one copy that waits for nodes that are away.

    With more copies the others have it.
    """
    for one in queues:
        if one.status is None:
            yield f"{one.name}: {one.waits}"
        elif one.status.short_of_copies and one.status.settings.replicas == 1:
            yield f"{one.name}: {one.status.short_of_copies:,} items, in one copy"
