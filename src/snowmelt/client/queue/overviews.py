"""How all queues of a cluster are, as steps (`connection.steps`): each node reports those it leads.

Nothing of it is confirmed by followers, so it costs a call a node. A row may be of a leader that
does not know yet that it leads no more; of two rows the one with the later term counts.
"""

from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from snowmelt.client.connection.steps import Query, Steps
from snowmelt.client.connection.waits import Wait
from snowmelt.client.fifo.steps import queue_names
from snowmelt.client.parted.looks import summed
from snowmelt.core.errors import OutcomeUnknown, SnowmeltError, StateError
from snowmelt.core.names import NodeId, contact
from snowmelt.protocols.membership.messages import GetStatus, Status
from snowmelt.protocols.queue.api.partition_names import part_of, whole_of
from snowmelt.protocols.queue.api.statuses import Describe, Overview, Overviewed, QueueStatus

NODE_SECONDS: Final = 2.0
"""So long one node may take."""
QUEUE_SECONDS: Final = 1.0
"""So long one queue that nobody leads may take."""
SILENT: Final = "{} does not answer"

Nodes = tuple[tuple[NodeId, NodeId], ...]
"""The nodes to ask: the name of each, and the name to call it by."""
WhoIsHere = Callable[[float], Steps[Nodes]]


class QueueOverview(msgspec.Struct, frozen=True):
    """How one of the queues of a cluster is, as `overview` returns it."""

    name: str
    status: QueueStatus | None
    """None where nobody leads it now."""
    away: tuple[str, ...] = ()
    """Which nodes have a copy of it and are not present."""
    waits: str = ""
    """Why nobody leads it, in a sentence."""


def members(timeout: float) -> Steps[Nodes]:
    """The nodes of a cluster that are present."""
    told: Status = yield Query(GetStatus(), timeout)
    here = () if told.view is None else told.view.members
    return tuple([(one.id, contact(one.address)) for one in here])


def overview(who_is_here: WhoIsHere | None, timeout: float) -> Steps[list[QueueOverview]]:
    """All queues, by name. Without nodes to ask, the one that answers has all."""
    wait = Wait(timeout)
    names = (yield from queue_names(wait.left)).names
    nodes = (yield from who_is_here(wait.left)) if who_is_here else ()
    rows, silent = dict[str, QueueStatus](), list[NodeId]()
    for node, address in nodes or ((None, None),):
        try:
            some = yield from _of_node(node, address, wait)
        except (OutcomeUnknown, StateError):
            silent += () if node is None else (node,)
            continue
        for row in some:
            if row.queue not in rows or rows[row.queue].term < row.term:
                rows[row.queue] = row
    led, present = {whole_of(name) for name in rows}, [name for name, _ in nodes]
    told = list(_led(rows, present if nodes else None))
    for name in [one for one in names if one not in led]:
        found = yield from _unled(name, silent, wait)
        told += (found,)
    return sorted(told, key=lambda one: one.name)


def _of_node(node: NodeId | None, address: NodeId | None, wait: Wait) -> Steps[list[QueueStatus]]:
    """Those that it leads; nothing if another answers in its place."""
    rows, more = list[QueueStatus](), True
    while more:
        ask = Overview(rows[-1].queue if rows else "")
        told: Overviewed = yield Query(ask, min(NODE_SECONDS, wait.left), address)
        if node not in (None, told.node):
            return []
        rows += told.rows
        more = told.more
    return rows


def _led(rows: dict[str, QueueStatus], here: list[NodeId] | None) -> Iterator[QueueOverview]:
    parts: dict[str, dict[int, QueueStatus]] = {}
    for name, row in rows.items():
        parts.setdefault(whole_of(name), {})[part_of(name) or 0] = row
    for name, found in parts.items():
        count = next(iter(found.values())).settings.partitions
        row = found[0] if count == 1 else summed(name, count, found)
        away = () if here is None else tuple([one for one in row.followers if one not in here])
        yield QueueOverview(name, row, away)


def _unled(name: str, silent: list[NodeId], wait: Wait) -> Steps[QueueOverview]:
    """A node may lead it by now; else the answer says which nodes it waits for."""
    left = min(QUEUE_SECONDS, wait.left)
    if left <= 0:
        return QueueOverview(name, None, waits="it was not asked: the time was over")
    try:
        status: QueueStatus = yield Query(Describe(name), left)
    except OutcomeUnknown as error:
        why = " and ".join(map(SILENT.format, silent)) or str(error)
        return QueueOverview(name, None, waits=why)
    except SnowmeltError as error:
        return QueueOverview(name, None, waits=str(error))
    return QueueOverview(name, status)
