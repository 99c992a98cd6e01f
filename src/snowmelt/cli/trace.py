"""`snowmelt trace`: the life of one item, as far as its queue has records of it."""

import json
from datetime import datetime
from typing import Annotated

import typer

from snowmelt.cli.item import item_lines, item_object, whole
from snowmelt.cli.options import HERE, AsJson, PlaceOptions, QueueName
from snowmelt.client.queue.item_trace import ItemTrace
from snowmelt.client.queue.item_words import happened, when


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
