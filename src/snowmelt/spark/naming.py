"""Which queues a source reads: those named, or those a pattern fits by now."""

import re

from snowmelt.spark.connections import check_kind, check_there, in_parts, queues_at
from snowmelt.spark.options import FIFO, SourceOptions


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
