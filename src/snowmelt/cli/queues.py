"""`snowmelt queues` and `snowmelt top`: all queues in one table, once or live.

Rates are reckoned from two looks: what came in, and was given out, between them.
"""

import json
import time
from collections.abc import Callable, Iterator
from typing import Annotated, Any, Final

import msgspec
import typer
from rich.live import Live
from rich.table import Table

from snowmelt.cli.options import HERE, AsJson, PlaceOptions, QueueName
from snowmelt.cli.tables import listing, wide_console
from snowmelt.client.cluster import Cluster
from snowmelt.client.embedded.face import EmbeddedCluster
from snowmelt.client.queue.rows import QueueRow, queue_row
from snowmelt.core.errors import BadOption
from snowmelt.core.shown import age, printable
from snowmelt.protocols.queue.api.statuses import QueueStatus

HEADS: Final = (
    "queue", "order", "ready", "leased", "oldest", "in/s", "out/s", "dead", "bytes", "leader",
    "copies", "note",
)  # fmt: skip
WORDS: Final = ("queue", "order", "leader", "note")
NOTE: Final = 60
"""Letters of a note in the table; JSON has all of it."""


def rate(each: float | None) -> str:
    """As it stands in the table.

    >>> rate(None), rate(0.0), rate(0.25), rate(12.3), rate(12_345.6)
    ('-', '0', '0.25', '12', '12,346')
    """
    if each is None:
        return "-"
    return f"{each:,.0f}" if each >= 10 or not each else f"{each:.2g}"


def table_of(lines: list[QueueRow]) -> Table:
    """Shows queues, one row a queue."""
    made = listing(HEADS, words=WORDS)
    for one in lines:
        counts = [f"{one.ready:,}", f"{one.leased:,}", age(one.oldest)]
        rates = [rate(one.in_per_second), rate(one.out_per_second)]
        rest = [f"{one.dead:,}", f"{one.bytes:,}", one.leader or "-", _copies(one), note(one)]
        if not one.leader:
            counts, rates, rest[:2] = ["-"] * 3, ["-"] * 2, ["-"] * 2
        made.add_row(one.queue, one.order or "-", *counts, *rates, *rest)
    return made


def _copies(one: QueueRow) -> str:
    if not one.leader:
        return "-"
    return str(one.copies) if one.copies == one.replicas else f"{one.copies} of {one.replicas}"


def note(one: QueueRow) -> str:
    """What a person should know of it: paused, copies missing, or why it has no leader.

    >>> note(QueueRow(queue="q", paused=True, away=("n2", "n3"), short_of_copies=1_200))
    'paused; n2 and n3 away; 1,200 short of copies'
    """
    short = f"{one.short_of_copies:,} short of copies" if one.short_of_copies else ""
    away = f"{' and '.join(one.away)} away" if one.away else ""
    waits = one.waits.removeprefix(f"queue {one.queue!r} ")
    said = "; ".join([word for word in ("paused" * one.paused, away, short, waits) if word])
    return said if len(said) <= NOTE else said[: NOTE - 1] + "…"


Look = Callable[[], list[QueueRow]]


def looking(cluster: Cluster | EmbeddedCluster, timeout: float) -> Look:
    """Each time: how they are, with rates since the last time."""
    known: dict[str, QueueStatus] = {}
    at = 0.0

    def look() -> list[QueueRow]:
        nonlocal at
        found, before = cluster.overview(timeout=timeout), at
        at = time.monotonic()
        lines = [queue_row(one, known.get(one.name), at - before) for one in found]
        known.clear()
        known.update({one.name: one.status for one in found if one.status is not None})
        return lines

    return look


def queues(
    names: Annotated[bool, typer.Option("--names", help="Only their names, a line each.")] = False,
    over: Annotated[
        float, typer.Option(help="Seconds over which rates are measured; 0: no rates.")
    ] = 1.0,
    as_json: AsJson = False,
    at: PlaceOptions = HERE,
) -> None:
    """Show all queues in a table. How much is in each, how old, its rates, who leads it."""
    if not 0 <= over <= 3600:
        raise BadOption("--over", over, "0 to 3600 seconds")
    with at.open() as cluster:
        if names:
            for name in cluster.queues(timeout=at.timeout):
                print(name)
            return
        look = looking(cluster, at.timeout)
        lines = look()
        if over and lines and isinstance(cluster, Cluster):
            time.sleep(over)
            lines = look()
    if as_json:
        print(json.dumps({"queues": msgspec.to_builtins(lines)}))
    else:
        wide_console().print(table_of(lines))


def consumers(queue: QueueName, as_json: AsJson = False, at: PlaceOptions = HERE) -> None:
    """Show a queue's consumers: their programs, what they have in hand, and how many calls wait."""
    with at.open() as cluster:
        found = cluster.queue(queue, timeout=at.timeout).consumers(timeout=at.timeout)
    if as_json:
        print(json.dumps({"queue": queue, "consumers": msgspec.to_builtins(found)}))
        return
    heads = ("program", "process", "machine", "in hand", "for", "gets wait", "puts wait")
    made = listing(heads, words=("program", "machine"))
    for one in found:
        held = age(one.held if one.items else None)
        counts = [f"{one.items:,}", held, f"{one.gets_waiting:,}", f"{one.puts_waiting:,}"]
        who = [printable(one.program), str(one.pid or "-"), printable(one.host or "-")]
        made.add_row(*who, *counts)
    if found:
        wide_console().print(made)
    else:
        print(f"no consumer holds items of {queue} or waits for them")


SORTS: Final[dict[str, Callable[[QueueRow], Any]]] = {
    "name": lambda one: one.queue,
    "ready": lambda one: (-one.ready, one.queue),
    "oldest": lambda one: (-(one.oldest or 0), one.queue),
    "in": lambda one: (-(one.in_per_second or 0), one.queue),
    "out": lambda one: (-(one.out_per_second or 0), one.queue),
    "dead": lambda one: (-one.dead, one.queue),
    "bytes": lambda one: (-one.bytes, one.queue),
}


def top(
    every: Annotated[float, typer.Option(help="Seconds between updates.")] = 2.0,
    sort: Annotated[str, typer.Option(help="What comes first: " + ", ".join(SORTS))] = "ready",
    rows: Annotated[int, typer.Option("-n", "--rows", help="Queues at most.")] = 40,
    looks: Annotated[int, typer.Option(help="End after so many updates; 0: never.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object an update.")] = False,
    at: PlaceOptions = HERE,
) -> None:
    """Show all queues, live, until Ctrl-C."""
    if sort not in SORTS:
        raise BadOption("--sort", sort, ", ".join(SORTS))
    if not 0.1 <= every <= 3600:
        raise BadOption("--every", every, "0.1 to 3600 seconds")
    if rows < 1:
        raise BadOption("--rows", rows, "1 or more")
    if looks < 0:
        raise BadOption("--looks", looks, "0 or more")
    with at.open() as cluster:
        told = _looks(looking(cluster, at.timeout), every, looks)
        some = (sorted(lines, key=SORTS[sort])[:rows] for lines in told)
        if as_json:
            for lines in some:
                print(json.dumps({"queues": msgspec.to_builtins(lines)}), flush=True)
            return
        with Live(console=wide_console(), auto_refresh=False) as live:
            for lines in some:
                live.update(table_of(lines), refresh=True)


def _looks(look: Look, every: float, most: int) -> Iterator[list[QueueRow]]:
    """One after another; the first is a short one, so that there are rates soon."""
    look()
    time.sleep(min(every, 0.5))
    count = 0
    while True:
        yield look()
        count += 1
        if count == most:
            return
        time.sleep(every)
