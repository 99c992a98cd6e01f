"""How all queues are that a node leads, for whoever looks at all of them."""

from collections.abc import Mapping
from heapq import nsmallest

from snowmelt.core.names import NodeId
from snowmelt.core.users import fits
from snowmelt.protocols.queue.api.partition_names import whole_of
from snowmelt.protocols.queue.api.statuses import Overview, Overviewed
from snowmelt.protocols.queue.leader.leader import Leader


def overview(me: NodeId, leaders: Mapping[str, Leader], ask: Overview) -> Overviewed:
    """Some of them, in the order of their names."""
    behind = [name for name, one in leaders.items() if name > ask.after and one.serving]
    if ask.only:
        behind = [name for name in behind if fits(whole_of(name), ask.only)]
    names = nsmallest(ask.rows_max + 1, behind)
    rows = [leaders[name].status() for name in names[: ask.rows_max]]
    return Overviewed(me, tuple(rows), len(names) > len(rows))
