"""Which queues a source reads: those named, or those a pattern fits by now."""

import re

from snowmelt.spark.connections import check_kind, check_there, queues_at
from snowmelt.spark.options import FIFO, SourceOptions


def queue_names(options: SourceOptions) -> tuple[str, ...]:
    """The names, sorted. A pattern is to fit a whole name, as Kafka's is.

    It leaves out priority queues. A stream asks for this at each batch, so it waits for a cluster
    that lost a node just now.
    """
    if not options.pattern:
        return options.queues
    place, fits = options.connection, re.compile(options.pattern).fullmatch
    return tuple(sorted(filter(fits, queues_at(place, place.timeout, FIFO))))


def check_queues(options: SourceOptions) -> None:
    """Raises when the cluster can't be reached, or has not the queues that are named."""
    check_there(options.connection, options.queues)
    check_kind(options.connection, options.queues, options.kind)
