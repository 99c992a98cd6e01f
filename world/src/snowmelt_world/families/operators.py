"""Who runs the machines of a simulated cluster: frees ids, and has nodes leave in order.

Without the coordinator's disk nobody decides any more, and the life is over: nothing can be freed.
"""

from random import Random
from typing import Any, Final

from snowmelt.core.instant import Duration, Instant, later, seconds
from snowmelt.core.names import NodeId, OperationId, contact
from snowmelt.core.outcome import Outcome, Succeeded
from snowmelt.protocols.calling import Ask, Caller
from snowmelt.protocols.membership import Depart, Forget
from snowmelt_world.families.membership import address
from snowmelt_world.world import World

PATIENCE: Final = seconds(4)
AGAIN: Final = seconds(1)


LAST_BACK: Final = seconds(15)
"""So long after the last fault who left in order is back."""


class Departures:
    """Nodes that are asked to leave, and are back some time after they have."""

    def __init__(self, world: World, chance: Random, away: Duration, faults_end: Instant) -> None:
        self._world = world
        self._chance = chance
        self._away = away
        self._faults_end = faults_end
        self._asked: dict[NodeId, int] = {}

    def leave(self, node: NodeId) -> None:
        if self._world.slots[node].node is not None:
            number = self._asked[node] = self._asked.get(node, 0) + 1
            self._world.request(node, OperationId(node, number), Depart())

    def left(self, at: Instant, node: NodeId) -> None:
        """It says that it has left, and is stopped until it is brought back."""
        wait = Duration(self._chance.randrange(seconds(1), self._away))
        back = min(later(at, wait), later(max(at, self._faults_end), LAST_BACK))
        self._world.at(at, self._world.stop, node)
        self._world.at(back, self._world.wake, node)


class Operators:
    """As many as nodes lose their disks; each asks until it is told that its node's id is free."""

    def __init__(self, world: World, nodes: tuple[NodeId, ...], coordinator: NodeId | None) -> None:
        self.over = False
        """Whether the cluster can't go on: then there is nothing more to be seen."""
        self._world = world
        self._coordinator = coordinator
        """Whose disk the cluster can't go on without; None where etcd decides."""
        self._targets = [contact(address(node)) for node in nodes]
        self._frees: dict[NodeId, NodeId] = {}
        self._lost: dict[NodeId, Instant] = {}
        """When each lost the disk that it had."""
        self._gone: dict[NodeId, None] = {}
        self._asked = 0

    def gone(self, node: NodeId) -> None:
        """A machine is not replaced: nobody starts it, whoever frees its id still."""
        self._gone[node] = None

    def disk_lost(self, at: Instant, node: NodeId) -> None:
        """The machine is replaced: its id is freed, and it starts with an empty disk."""
        self._lost[node] = at
        if node == self._coordinator:
            self.over = True
        else:
            self._set_free(node)

    def set_back(self, at: Instant, node: NodeId, taken: Instant) -> bool:
        """A node has an older copy of its disk; whether that is the coordinator's.

        A copy of a disk that was lost since, or from before its first record, is another disk. The
        coordinator's knows nothing of the new disks of others: they are freed again.
        """
        empty = not self._world.slots[node].disk.start().records
        if empty or taken < self._lost.get(node, Instant(0)):
            self.disk_lost(at, node)
            return False
        if node != self._coordinator:
            return False
        for other in self._lost:
            self._world.stop(other)
            self._set_free(other)
        return True

    def halted(self, node: NodeId, reason: str) -> None:
        """What the process on its old disk had said came late, and bound the id again."""
        if "belongs to another disk" in reason:
            self._set_free(node)

    def answered(self, operator: NodeId, outcome: Outcome[Any]) -> bool:
        """Whether this was one of them; it asks again, or starts the node."""
        node = self._frees.get(operator)
        if node is None:
            return False
        if node in self._gone:
            return True
        if isinstance(outcome, Succeeded):
            self._world.slots[node].wanted = True
            self._world.start(node)
        else:  # it is not missed yet, or nobody who decides can be reached
            self._world.at(later(self._world.now, AGAIN), self._forget, operator)
        return True

    def _set_free(self, node: NodeId) -> None:
        """This one has an empty disk: it is started once its id is nobody's."""
        self._world.slots[node].wanted = False
        operator = NodeId(f"operator-{len(self._frees)}")
        self._frees[operator] = node
        self._world.add(operator, lambda dice: Caller(list(self._targets), dice))
        self._world.start(operator)
        self._forget(operator)

    def _forget(self, operator: NodeId) -> None:
        self._asked += 1
        ask = Ask(Forget(self._frees[operator]), PATIENCE)
        self._world.request(operator, OperationId(operator, self._asked), ask)
