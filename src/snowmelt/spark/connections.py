"""Connections of a worker process to clusters: one for each, kept for the tasks that come after."""

import atexit
import os
import re
from functools import lru_cache
from typing import Any, Final, Literal

import msgspec
from pyspark.sql.datasource import InputPartition

from snowmelt.client.cluster import Cluster, connect
from snowmelt.client.connection.url import pinned
from snowmelt.core.errors import AccessDenied, BadOption, NoSuchQueue, Unreachable
from snowmelt.spark.options import FIFO, PRIORITY, ConnectionOptions, SourceOptions
from snowmelt.spark.several import queues_of

LOOK_SECONDS: Final = 10.0
"""How long a person waits at most, at `load` or `start`, to hear that nobody is there."""


def queue_names(options: SourceOptions) -> tuple[str, ...]:
    """The names, sorted; of a queue of several partitions, theirs. A pattern fits whole names.

    It leaves out priority queues. A stream asks for this at each batch, so it waits for a cluster
    that lost a node just now.
    """
    place, names = options.connection, options.queues
    if options.pattern:
        fits = re.compile(options.pattern).fullmatch
        names = tuple(filter(fits, queues_at(place, place.timeout, FIFO)))
    return tuple(sorted(in_parts(place, names, options.kind)))


def check_queues(options: SourceOptions) -> None:
    """Raises when the cluster can't be reached, or has not the queues that are named."""
    check_there(options.connection, options.queues)
    check_kind(options.connection, options.queues, options.kind)


def cluster_at(place: ConnectionOptions) -> Cluster:
    """The cluster, connected when it is first asked something."""
    return _cluster(place.url, place.token, os.getpid())


@lru_cache(maxsize=8)
def _cluster(url: str, token: str | None, process: int) -> Cluster:
    del process  # Spark forks its workers; a connection must not have two owners
    cluster = connect(url, token=token)
    atexit.register(cluster.close)
    return cluster


def known(place: ConnectionOptions, identity: str) -> ConnectionOptions:
    """The same for other processes: they go on in the cluster that this one has met, or in none."""
    return msgspec.structs.replace(place, url=pinned(place.url, identity))


class PlannedPart(InputPartition):
    """A part of what is read, and where: in the cluster that was asked when it was planned."""

    def __init__(self, value: Any, place: ConnectionOptions) -> None:
        super().__init__(value)
        self._place = place

    def there(self, options: SourceOptions) -> SourceOptions:
        """The same options, for that cluster."""
        return msgspec.structs.replace(options, connection=self._place)


def queues_at(
    place: ConnectionOptions,
    timeout: float = LOOK_SECONDS,
    kind: Literal["fifo", "priority", "parted"] | None = None,
) -> list[str]:
    """The names of queues: the first thing asked, so that a bad URL or token shows at once."""
    try:
        return cluster_at(place).queues(kind=kind, timeout=min(place.timeout, timeout))
    except Unreachable as error:
        text = f"nobody answers at {place.url}: {error}; see the option url, and whether nodes run"
        raise Unreachable(text) from None
    except AccessDenied as error:
        text = f"{place.url} does not let us in: {error}; see the options token and url"
        raise AccessDenied(text) from None


def in_parts(place: ConnectionOptions, names: tuple[str, ...], kind: str) -> tuple[str, ...]:
    """The same queues; where one has several partitions, these: each has groups of its own."""
    several = frozenset(queues_at(place, place.timeout, "parted"))
    if not several.intersection(names):
        return names
    queue = queues_of(cluster_at(place), kind)
    return tuple(
        [
            one.name
            for name in names
            for one in (queue(name).parts(timeout=place.timeout) if name in several else ())
        ]
        + [name for name in names if name not in several]
    )


def check_there(place: ConnectionOptions, names: tuple[str, ...]) -> None:
    """Raises when one of these queues is not there: a misspelled name must not read as empty."""
    there = queues_at(place)
    for name in names:
        if name not in there:
            known = ", ".join(there) or "none yet"
            text = f"queue {name!r} is not in the cluster at {place.url}; there: {known}"
            raise NoSuchQueue(f"{text}. The first put into a queue makes it")


def check_kind(place: ConnectionOptions, names: tuple[str, ...], kind: str) -> None:
    """Raises when one of these queues is there and is of another kind."""
    other: Literal["fifo", "priority"] = "priority" if kind == FIFO else "fifo"
    there = frozenset(queues_at(place, place.timeout, other))
    for name in names:
        if name in there and kind == FIFO:
            raise BadOption("kind", kind, f"{PRIORITY}: {name!r} is a priority queue")
        if name in there:
            raise BadOption("kind", kind, f"{FIFO}: {name!r} is a fifo")
