"""A node is emptied, as steps (`connection.steps`): it is asked itself, wherever it listens."""

from snowmelt.client.connection.steps import Query, Steps
from snowmelt.client.connection.waits import Wait
from snowmelt.client.queue.overviews import members
from snowmelt.core.errors import BadOption, Unavailable
from snowmelt.core.names import NodeId
from snowmelt.protocols.queue.api.drains import Drain, Drained


def drain(node: NodeId, undo: bool, timeout: float) -> Steps[Drained]:
    """Has it begun, or undone; how far it is."""
    wait = Wait(timeout)
    here = dict((yield from members(wait.left)))
    if node not in here:
        raise BadOption("node", node, f"a node that is present: {', '.join(here)}")
    told: Drained = yield Query(Drain(undo), wait.left, here[node])
    if told.node != node:
        raise Unavailable(f"{node} does not answer, {told.node} answers in its place: ask again")
    return told
