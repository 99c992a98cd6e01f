"""`snowmelt select`, `quantile`: items of a priority queue by their rank. Nothing is taken."""

import json
from typing import Annotated

import typer

from snowmelt.cli.options import HERE, AsJson, PlaceOptions, QueueName
from snowmelt.cli.queue_show import peek_lines, seen_object
from snowmelt.client.fifo.face import Fifo
from snowmelt.client.leases.steps import Seen
from snowmelt.client.priority.face import PriorityQueue
from snowmelt.core.errors import BadOption, Empty


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
