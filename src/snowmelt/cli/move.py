"""`snowmelt move`: what waits in one queue goes into another, each item once, in its order."""

import sys
from collections.abc import Iterator
from typing import Annotated, Final

import typer

from snowmelt.cli.backup import bar
from snowmelt.cli.options import HERE, PlaceOptions
from snowmelt.client.cluster import Cluster
from snowmelt.client.embedded.face import EmbeddedCluster
from snowmelt.client.fifo.face import Fifo
from snowmelt.client.priority.face import PriorityQueue
from snowmelt.core.errors import BadOption, Empty

Queue = Fifo | PriorityQueue
AT_ONCE: Final = 1_000
BYTES_AT_ONCE: Final = 16 << 20
IDLE: Final = 1.0
IN_PARTS: Final = (
    "one of one partition. Have producers put into {new}, and consumers take from both until {old}"
    " is empty; then delete {old}"
)
"""What is possible where one of the two has several."""


def move(
    old: Annotated[str, typer.Argument(help="The queue that they are in.")],
    new: Annotated[str, typer.Argument(help="The queue they go into; create it first.")],
    idle: Annotated[float, typer.Option(help="End after so many seconds without an item.")] = IDLE,
    at: PlaceOptions = HERE,
) -> None:
    """Move what waits in a queue into another, while both go on. Each item is moved once.

    It says before who uses the old queue, and what they have to do.
    """
    if old == new:
        raise BadOption("new", new, f"another queue than {old}")
    if not 0 <= idle <= 86_400:
        raise BadOption("--idle", idle, "0 to 86400 seconds")
    with at.open() as cluster:
        source = cluster.queue(old, timeout=at.timeout)
        target = cluster.queue(new, timeout=at.timeout)
        was = source.stats(timeout=at.timeout)
        goes = target.stats(timeout=at.timeout)  # it is there: a step would make a fifo of a typo
        for status in (was, goes):
            if status.settings.partitions > 1:
                raise BadOption("queue", status.queue, IN_PARTS.format(old=old, new=new))
        for line in _users(source, new, at.timeout):
            print(line, file=sys.stderr)
        total, count = was.ready, 0
        with bar(f"{old} to {new}") as progress:
            while some := _moved(cluster, source, target, idle, at.timeout):
                count += some
                progress(count, max(count, total))
    print(f"{count} item{'' if count == 1 else 's'} of {old} moved to {new}")


def _users(source: Queue, new: str, timeout: float) -> Iterator[str]:
    """Who uses the old queue, and what becomes of them, a line each."""
    old = source.name
    for one in source.consumers(timeout=timeout):
        who = f"{one.program} (process {one.pid} on {one.host})"
        if one.items:
            yield f"{who} has {one.items} of {old}: they stay its own, and go back to {old}"
        if one.gets_waiting:
            yield f"{who} waits at {old} and takes what comes first: start it on {new}, too"
        if one.puts_waiting:
            yield f"{who} puts into {old}: have it put into {new}, and run this again"
    for group in source.groups(timeout=timeout):
        held = group.given - group.done
        yield (
            f"group {group.name} holds {held} of {old}, which stay there: let its program end them."
            f" A stream of Spark begins at {new} with a new checkpoint, once that is so"
        )


def _moved(
    cluster: Cluster | EmbeddedCluster, source: Queue, target: Queue, idle: float, timeout: float
) -> int:
    """How many in one step; none when nothing came in the time."""
    urgent = isinstance(source, PriorityQueue) and isinstance(target, PriorityQueue)
    try:
        with cluster.step(timeout=timeout) as step:
            some = step.get_many(source, AT_ONCE, bytes_max=BYTES_AT_ONCE, timeout=idle)
            for item in some:
                priority = item.priority if urgent else None
                step.put(target, item.body, priority=priority, key=item.key, headers=item.headers)
    except Empty:
        return 0
    return len(some)
