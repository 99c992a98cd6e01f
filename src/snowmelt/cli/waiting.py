"""Which queues have something that no present node has, for whoever gives up an absent node."""

import time
from collections.abc import Iterator
from typing import Final

from snowmelt.client.cluster import Cluster
from snowmelt.core.errors import OutcomeUnknown, Unavailable

EACH: Final = 1.0
"""So many seconds a queue may take to tell how it is, at most."""


def waiting(cluster: Cluster, timeout: float) -> Iterator[str]:
    """A sentence about each queue of one copy that waits for nodes that are away.

    With more copies the others have it. In all it takes `timeout`; whoever was not asked is told.
    """
    end = time.monotonic() + timeout
    names = [(kind, one) for kind in ("fifo", "priority") for one in cluster.queues(kind=kind)]
    for at, (kind, name) in enumerate(names):
        left = end - time.monotonic()
        if left <= 0:
            yield f"{len(names) - at} more queues were not asked in {timeout:g} seconds"
            return
        queue = cluster.fifo(name) if kind == "fifo" else cluster.priority(name)
        try:
            told = queue.stats(timeout=min(EACH, left))
        except (OutcomeUnknown, Unavailable) as error:
            yield f"{name}: {error}"
        else:
            if told.short_of_copies and told.settings.replicas == 1:
                yield f"{name}: {told.short_of_copies:,} items, in one copy"
