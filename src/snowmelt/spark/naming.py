"""Which queues a source reads: those named, or those a pattern fits by now."""

import re
from collections.abc import Iterator

from snowmelt.spark.connections import check_kind, check_there, queues_at
from snowmelt.spark.options import FIFO, PRIORITY, SourceOptions


def queue_names(options: SourceOptions) -> tuple[str, ...]:
    """The names, sorted. A pattern is to fit a whole name, as Kafka's is.

    It leaves out priority queues, and the fifos beside them in which groups have their notes: a
    note that is taken as a row is one that its group never gets, with all that it names. A stream
    asks for this at each batch, so it waits for a cluster that lost a node just now.
    """
    if not options.pattern:
        return options.queues
    place, fits = options.connection, re.compile(options.pattern).fullmatch
    fitting = sorted(filter(fits, queues_at(place, place.timeout, FIFO)))
    urgent = frozenset(queues_at(place, place.timeout, PRIORITY))
    return tuple([one for one in fitting if urgent.isdisjoint(_owners(one))])


def _owners(name: str) -> Iterator[str]:
    """Whose notes a fifo of this name has, if one of these is a priority queue (`QUEUE.GROUP`).

    >>> list(_owners("jobs.of.spark"))
    ['jobs', 'jobs.of']
    """
    return (name[: dot.start()] for dot in re.finditer(r"\.", name))


def check_queues(options: SourceOptions) -> None:
    """Raises when the cluster can't be reached, or has not the queues that are named."""
    check_there(options.connection, options.queues)
    check_kind(options.connection, options.queues, options.kind)
