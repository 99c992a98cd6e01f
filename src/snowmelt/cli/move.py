"""`snowmelt move`: what waits in one queue goes into another, each item once, in its order."""

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


def move(
    old: Annotated[str, typer.Argument(help="The queue that they are in.")],
    new: Annotated[str, typer.Argument(help="The queue they go into; create it first.")],
    idle: Annotated[float, typer.Option(help="End after so many seconds without an item.")] = IDLE,
    at: PlaceOptions = HERE,
) -> None:
    """Move what waits in a queue into another, while both go on. Each item is moved once."""
    if old == new:
        raise BadOption("new", new, f"another queue than {old}")
    if not 0 <= idle <= 86_400:
        raise BadOption("--idle", idle, "0 to 86400 seconds")
    with at.open() as cluster:
        source = cluster.queue(old, timeout=at.timeout)
        target = cluster.queue(new, timeout=at.timeout)
        total, count = source.stats(timeout=at.timeout).ready, 0
        target.stats(timeout=at.timeout)  # it is there: a step would make a fifo of a typo
        with bar(f"{old} to {new}") as progress:
            while some := _moved(cluster, source, target, idle, at.timeout):
                count += some
                progress(count, max(count, total))
    print(f"{count} item{'' if count == 1 else 's'} of {old} moved to {new}")


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
