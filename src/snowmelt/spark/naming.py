"""Which queues a source reads: those named, or those a pattern fits by now."""

import re

from snowmelt.spark.connections import check_kind, check_there, queues_at
from snowmelt.spark.options import SourceOptions


def queue_names(options: SourceOptions) -> tuple[str, ...]:
    """The names, sorted. A pattern is to fit a whole name, as Kafka's is."""
    if not options.pattern:
        return options.queues
    pattern = re.compile(options.pattern)
    return tuple(sorted(name for name in queues_at(options.connection) if pattern.fullmatch(name)))


def check_queues(options: SourceOptions) -> None:
    """Raises when the cluster can't be reached, or has not the queues that are named."""
    check_there(options.connection, options.queues)
    check_kind(options.connection, options.queues, options.kind)
