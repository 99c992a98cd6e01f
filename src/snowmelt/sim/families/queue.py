"""The life of the new engine: the fifo's users and judges, over its machine."""

from random import Random
from typing import Any

from snowmelt.core.names import NodeId
from snowmelt.core.node import Node
from snowmelt.protocols import queue
from snowmelt.protocols.fifo.limits import LIMITS, Limits
from snowmelt.protocols.host import Family
from snowmelt.sim.families.fifo import FifoLife
from snowmelt.sim.families.membership import member
from snowmelt.sim.planted import Bug
from snowmelt.sim.scenario import DISK


def process(
    node: NodeId,
    founder: NodeId,
    chance: Random,
    limits: Limits = LIMITS,
    bug: Bug | None = None,
    coordinator: str = DISK,
) -> Node[Any]:
    """One process of a simulated cluster with queues of the new engine."""
    del bug
    machine = queue.QueueNode(node, chance, limits=limits, on_disk=coordinator == DISK)
    family = Family("fifo", machine, queue.MESSAGES, fenced=True)
    contacts = () if node == founder else (founder,)
    return member(node, contacts, chance, family, coordinator=coordinator)


class QueueLife(FifoLife):
    """As a fifo's, without groups and staging yet."""

    name = "queue"
    process = staticmethod(process)
    groups_share = 0.0
