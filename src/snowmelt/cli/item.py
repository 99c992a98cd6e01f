"""`snowmelt item`, `trace`, `select`, `quantile`: one item by itself, wherever it is."""

import json
from datetime import datetime
from typing import Annotated

import typer

from snowmelt.cli.options import HERE, AsJson, PlaceOptions, QueueName
from snowmelt.cli.queue_show import holder_object, peek_lines, seen_object
from snowmelt.client.fifo.face import Fifo
from snowmelt.client.leases.steps import Seen
from snowmelt.client.priority.face import PriorityQueue
from snowmelt.client.queue.item_words import happened, standing, when
from snowmelt.client.queue.one_item import DROPPED, READY, ItemOverview, ItemTrace
from snowmelt.core.errors import BadOption, Empty

OVER = 4
"""There was nothing to do."""


def item(
    queue: QueueName,
    position: Annotated[int, typer.Argument(help="As put, peek and get show it.")],
    priority: Annotated[
        float | None, typer.Option(help="That of the item, where priorities are numbered.")
    ] = None,
    drop: Annotated[bool, typer.Option("--drop", help="End it, whoever has it.")] = False,
    bring_back: Annotated[
        bool, typer.Option("--bring-back", help="Make it ready: end its lease or its delay.")
    ] = False,
    move_to: Annotated[str, typer.Option(help="Another queue: put it there, drop it here.")] = "",
    as_json: AsJson = False,
    at: PlaceOptions = HERE,
) -> None:
    """Show one item, drop it, bring it back or move it.

    Ends with 4 where there was nothing to do: it has ended, or is ready already.
    """
    if drop + bring_back + bool(move_to) > 1:
        raise BadOption("--drop, --bring-back, --move-to", "several", "one of them")
    rank = whole(priority)
    with at.open() as cluster:
        found = cluster.queue(queue, timeout=at.timeout)
        if drop or bring_back or move_to:
            to = cluster.queue(move_to, timeout=at.timeout) if move_to else None
            fate = to or (DROPPED if drop else READY)
            done = found.change_item(position, fate, priority=rank, timeout=at.timeout)
            text = f"it is in {move_to} now" if move_to else f"it is {fate}"
            _say(as_json, {"done": done}, text if done else "there was nothing to do")
            if not done:
                raise typer.Exit(OVER)
            return
        told = found.item(position, priority=rank, timeout=at.timeout)
    _say(as_json, item_object(told), "\n".join(item_lines(told)))


def whole(priority: float | None) -> float | None:
    """A priority as a person gives it."""
    return int(priority) if priority is not None and priority.is_integer() else priority


def item_object(told: ItemOverview) -> dict[str, object]:
    """One item as a JSON object."""
    seen = {} if told.seen is None else seen_object(told.seen)
    return seen | {
        "position": told.position,
        "standing": told.standing.value,
        "bytes": told.bytes,
        "failures": told.failures,
        "reason": told.reason,
        **holder_object(told),
        "group": told.group,
        "put_at": None if told.put_at is None else told.put_at.isoformat(),
    }


def item_lines(told: ItemOverview) -> list[str]:
    """The same for a person."""
    lines = [] if told.seen is None else list(peek_lines([told.seen]))
    return [*lines, standing(told)]


def _say(as_json: bool, fields: dict[str, object], text: str) -> None:
    print(json.dumps(fields) if as_json else text)


def trace(
    queue: QueueName,
    position: Annotated[int, typer.Argument(help="As put, peek and get show it.")],
    priority: Annotated[
        float | None, typer.Option(help="That of the item, where priorities are numbered.")
    ] = None,
    as_json: AsJson = False,
    at: PlaceOptions = HERE,
) -> None:
    """Show what happened to one item, and what is not known any more."""
    with at.open() as cluster:
        found = cluster.queue(queue, timeout=at.timeout)
        life = found.trace(position, priority=whole(priority), timeout=at.timeout)
    if as_json:
        print(json.dumps(trace_object(life)))
        return
    for line in trace_lines(life):
        print(line)


def trace_object(life: ItemTrace) -> dict[str, object]:
    """The same as a JSON object."""
    entries = [
        {
            name: value.isoformat() if isinstance(value, datetime) else value
            for name, value in ((name, getattr(one, name)) for name in one.__struct_fields__)
        }
        for one in life.entries
    ]
    return {
        "now": item_object(life.now),
        "entries": entries,
        "partition": life.partition,
        "unknown": life.unknown,
    }


def trace_lines(life: ItemTrace) -> list[str]:
    """The same for a person, a line for each event."""
    lines = [f"not known: {life.unknown}"] if life.unknown else []
    lines += [f"{when(one):33}  {happened(one)}" for one in life.entries]
    where = "" if life.partition is None else f" in partition {life.partition}"
    return [*lines, f"now{where}:", *[f"  {line}" for line in item_lines(life.now)]]


def select(
    queue: QueueName,
    rank: Annotated[int, typer.Argument(help="1 is the next.")],
    as_json: AsJson = False,
    at: PlaceOptions = HERE,
) -> None:
    """Show the item of a rank among those that are ready. Ends with 8 when fewer are."""
    with at.open() as cluster:
        found = _ranked(cluster.queue(queue, timeout=at.timeout), at.timeout)
        seen = found.select(rank, timeout=at.timeout)
    _show(queue, seen, f"fewer than {rank} items of {queue} are ready", as_json)


def quantile(
    queue: QueueName,
    share: Annotated[float, typer.Argument(help="0 is the first, 0.5 the median, 1 the last.")],
    as_json: AsJson = False,
    at: PlaceOptions = HERE,
) -> None:
    """Show the item behind a share of those that are ready. Ends with 8 when none is."""
    with at.open() as cluster:
        found = _ranked(cluster.queue(queue, timeout=at.timeout), at.timeout)
        seen = found.quantile(share, timeout=at.timeout)
    _show(queue, seen, f"no item of {queue} is ready", as_json)


def _ranked(queue: Fifo | PriorityQueue, timeout: float) -> PriorityQueue:
    if not isinstance(queue, Fifo):
        return queue
    queue.stats(timeout=timeout)  # says so when there is none
    raise BadOption("queue", queue.name, "a priority queue; this is a fifo, without ranks")


def _show(queue: str, seen: Seen | None, none: str, as_json: bool) -> None:
    if seen is None:
        raise Empty(none)
    if as_json:
        print(json.dumps({"queue": queue, "item": seen_object(seen)}))
    else:
        print(*peek_lines([seen], ranked=True))
