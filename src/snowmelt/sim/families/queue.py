"""The life of the one engine's queues: the fifo's users and judges, over another machine."""

from random import Random
from typing import Any

from snowmelt.core.names import NodeId
from snowmelt.core.node import Node
from snowmelt.protocols import queue
from snowmelt.protocols.fifo.limits import Limits
from snowmelt.sim.families.fifo import FifoLife
from snowmelt.sim.families.fifo_engine import Engine
from snowmelt.sim.families.queue_staging import Planner
from snowmelt.sim.planted import Bug


class QueueEngine(Engine):
    """It answers the fifo's calls, and its keys lie where the fifo's do."""

    messages = queue.MESSAGES
    moves = True

    def machine(
        self, bug: Bug | None, me: NodeId, chance: Random, limits: Limits, *, on_disk: bool
    ) -> Node[Any]:
        """Its machine; no bug was planted in it yet."""
        del bug
        return queue.QueueNode(me, chance, limits=limits, on_disk=on_disk)


class QueueLife(FifoLife):
    """As a fifo's, whose stagers plan, too."""

    name = "queue"
    engine = QueueEngine()
    stager = Planner
