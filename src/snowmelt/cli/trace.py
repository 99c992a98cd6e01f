"""`snowmelt trace`: the life of one item, as far as its queue has records of it."""

import json
from datetime import datetime
from typing import Annotated

import typer

from snowmelt.cli.item import item_lines, item_object, whole
from snowmelt.cli.options import HERE, AsJson, PlaceOptions, QueueName
from snowmelt.cli.queue_show import age
from snowmelt.client.queue.item_trace import ItemTrace, TraceEntry
from snowmelt.core.shown import printable
from snowmelt.protocols.queue.api.statuses import TraceKind


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
    lines += [f"{_when(one):33}  {_said(one)}" for one in life.entries]
    where = "" if life.partition is None else f" in partition {life.partition}"
    return [*lines, f"now{where}:", *[f"  {line}" for line in item_lines(life.now)]]


def _when(one: TraceEntry) -> str:
    """At which moment, or between which: a step of the log has no time of its own."""
    after, before = one.after, one.before
    if before is None:
        return "" if after is None else f"after {after:%Y-%m-%d %H:%M:%S}"
    if after is None:
        return f"before {before:%Y-%m-%d %H:%M:%S}"
    if (before - after).total_seconds() < 1:
        return f"{before:%Y-%m-%d %H:%M:%S}"
    same = after.date() == before.date()
    return f"{after:%Y-%m-%d %H:%M:%S} to {before:{'%H:%M:%S' if same else '%m-%d %H:%M:%S'}}"


def _said(one: TraceEntry) -> str:
    who = printable(one.name)
    if one.program:
        who = printable(one.program)
        who += f", process {one.pid} at {printable(one.host)}" if one.host else ""
    by = f" by {who}" if who else ""
    match one.kind:
        case TraceKind.PUT:
            words = f"{by}, as number {one.number}" if who else ""
        case TraceKind.LEASED:
            words = f"{' to ' + who if who else ''} for {age(one.length)}, lease {one.number}"
        case TraceKind.EXTENDED:
            words = f"{by} to {age(one.length)}, lease {one.number}"
        case TraceKind.FAILED:
            words = f"{by}, for the time {one.failures}: {printable(one.reason)}"
        case TraceKind.DIED:
            words = f" after {one.failures} failures: {printable(one.reason)}"
        case _:
            words = by
    due = "" if one.due is None else f", for {one.due:%Y-%m-%d %H:%M:%S}"
    return f"{one.kind.value}{words}{due}"
