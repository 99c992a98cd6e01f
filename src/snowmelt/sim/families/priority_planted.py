"""Known bugs of the priority family's own machine, which its lives must find."""

from random import Random

from snowmelt.core.names import NodeId
from snowmelt.protocols.priority import PriorityNode
from snowmelt.protocols.priority.limits import Limits
from snowmelt.sim.planted import Bug


def machine(bug: Bug | None, me: NodeId, chance: Random, limits: Limits) -> PriorityNode:
    """The priority machine, with this bug in it if it is one of its own."""
    del bug
    return PriorityNode(me, chance, limits=limits)
