"""Priorities in commands: what is said of them when items are put, and how far they reach."""

from typing import Any, Final, cast

import msgspec
import typer

from snowmelt.client.cluster import Cluster
from snowmelt.client.embedded.face import EmbeddedCluster
from snowmelt.client.fifo.face import Fifo
from snowmelt.client.priority.face import PriorityQueue
from snowmelt.client.queue.options import PriorityOptions, QueueOptions
from snowmelt.core.errors import BadOption
from snowmelt.protocols.queue.api.calls import QueueStatus
from snowmelt.protocols.queue.api.settings import ANY

PRIORITY: Final = typer.Option(
    help="Of each item. A new queue becomes a priority queue.", metavar="NUMBER"
)
PRIORITIES: Final = typer.Option(
    help="Which priorities a new queue takes: int, float, or how many from 0.",
    metavar="KIND",
)
PARTITIONS: Final = typer.Option(
    help="How many partitions a new queue has, each with its own leader.", metavar="NUMBER"
)
LARGEST_FIRST: Final = typer.Option(
    "--largest-first/--least-first", help="Which priority a new queue gives out first."
)
_REACH: Final = {"first": 0.0, "median": 0.5, "last": 1.0}


class PriorityFlags(msgspec.Struct, frozen=True):
    """The flags of a command that are about priorities."""

    priority: int | float | None
    options: PriorityOptions


def urgency(
    priority: str | None, priorities: str | None, largest_first: bool | None
) -> PriorityFlags:
    """The flags, read and checked.

    >>> urgency("-5", "float", None)
    PriorityFlags(priority=-5, options={'priorities': <class 'float'>})
    >>> urgency("soon", None, None)
    Traceback (most recent call last):
    snowmelt.core.errors.BadOption: --priority is 'soon'; allowed: a number, such as -5 or 2.5
    """
    options = PriorityOptions()
    if priorities is not None:
        options["priorities"] = _kind(priorities)
    if largest_first is not None:
        options["largest_first"] = largest_first
    return PriorityFlags(None if priority is None else _number(priority), options)


def _number(word: str) -> int | float:
    for read in (int, float):
        try:
            return read(word)
        except ValueError:
            continue
    raise BadOption("--priority", word, "a number, such as -5 or 2.5")


def _kind(word: str) -> int | type[int] | type[float]:
    named: dict[str, type[int] | type[float]] = {"int": int, "float": float}
    if word in named:
        return named[word]
    try:
        return int(word)
    except ValueError:
        allowed = "int, float, or a number of priorities"
        raise BadOption("--priorities", word, allowed) from None


def into(
    cluster: Cluster | EmbeddedCluster,
    name: str,
    said: PriorityFlags,
    timeout: float,
    partitions: int | None = None,
) -> tuple[Fifo | PriorityQueue, dict[str, Any]]:
    """The queue of this name, and the priority with which to put; of a fifo none.

    Whatever is said of priorities, it is a priority queue then.
    """
    more, all_said = QueueOptions(), cast("PriorityOptions", dict(said.options))
    if partitions is not None:
        more["partitions"] = all_said["partitions"] = partitions
    found, ranked = cluster.queue(name, timeout=timeout), {"priority": said.priority or 0}
    if isinstance(found, PriorityQueue):
        return cluster.priority(name, **all_said) if all_said else found, ranked
    if said.priority is None and not said.options:
        return cluster.fifo(name, **more) if more else found, {}
    if name in cluster.queues(timeout=timeout):
        given = {"priority": said.priority, **said.options}
        option, value = next(one for one in given.items() if one[1] is not None)
        word = value.__name__ if isinstance(value, type) else value
        raise BadOption(f"--{option.replace('_', '-')}", word, f"none: {name} is a fifo")
    return cluster.priority(name, **all_said), ranked


def reach_of(
    queue: Fifo | PriorityQueue, status: QueueStatus, timeout: float
) -> dict[str, int | float]:
    """The first, the middle and the last priority that is ready, where any number is one.

    There may be as many as items, so these are shown in the place of all.
    """
    if isinstance(queue, Fifo) or not status.ready:
        return {}
    if status.settings.priorities != ANY:
        return {}
    seen = {word: queue.quantile(share, timeout=timeout) for word, share in _REACH.items()}
    return {word: one.priority for word, one in seen.items() if one is not None}
