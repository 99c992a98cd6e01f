"""Who comes and goes in the lives of a family that moves what it has (`Engine.moves`).

Nodes join late, and leave in order; of those who left some come back with an empty disk, which
excuses nothing. Nor does it where a node that was drained says that it is empty, and its machine is
gone in that moment. Some who put die, and the nodes that had their connection hear it.
"""

from collections.abc import Callable, Sequence
from random import Random
from typing import Final

from snowmelt.core.instant import Instant, later, milliseconds, seconds
from snowmelt.core.names import NodeId, OperationId
from snowmelt.core.node import Announced
from snowmelt.protocols.calling import Gone
from snowmelt.protocols.queue.api.drains import Drain, Drained
from snowmelt_world.families.fifo_clients import Putter
from snowmelt_world.families.operators import Departures
from snowmelt_world.world import World

AWAY: Final = seconds(30)
"""How long who left in order is away at most."""
LATE_SHARE: Final = 0.3
SCRAPPED_SHARE: Final = 0.5
"""How many of those who left in order come back with an empty disk."""
DEATHS_SHARE: Final = 0.3
DRAINS_SHARE: Final = 0.12
"""In how many lives nodes are drained."""
DRAINS: Final = 1 << 32
"""Numbers of who asks for that begin here."""
LOOKS: Final = milliseconds(300)
"""So often it is asked how far such a node is."""


class Moves:
    """Its chance is its own: what was drawn before there were moves is what it was."""

    def __init__(self, dice: Callable[[str], Random], end: Instant, *, moves: bool) -> None:
        self._dice = dice
        self._end = end
        self._moves = moves
        self._scrapped: dict[NodeId, None] = {}
        self._draining: dict[NodeId, None] = {}
        self._asked = 0

    def begins(self, node: NodeId, begin: int) -> int:
        """When a node joins: soon, or much later."""
        dice = self._dice(f"late {node}")
        late = self._moves and dice.random() < LATE_SHARE
        return dice.randrange(self._end) if late else begin

    def plan(self, world: World, nodes: Sequence[NodeId], putters: Sequence[Putter]) -> None:
        """Whoever leaves and dies does so while there is load; the first node stays."""
        self._world, self._nodes, dice = world, nodes, self._dice("moves")
        self._departures = Departures(world, self._dice("away"), AWAY, self._end)
        for node in nodes[1:] if self._moves else ():
            for _ in range(dice.choice((0, 1, 2))):
                world.at(Instant(dice.randrange(self._end)), self._departures.leave, node)
        own = self._dice("draining")
        drains = self._moves and own.random() < DRAINS_SHARE
        for node in nodes[1:] if drains else ():
            if own.random() < 0.5:
                world.at(Instant(own.randrange(self._end)), self._drain, node)
        for one in putters if self._moves else ():
            if dice.random() < DEATHS_SHARE:
                world.at(Instant(dice.randrange(self._end)), self._falls, one)

    def left(self, at: Instant, node: NodeId) -> None:
        """A node says that it has left: it is stopped, and back later, or another disk is."""
        self._departures.left(at, node)
        if self._dice(f"scrapped {node} {at}").random() < SCRAPPED_SHARE:
            self._scrapped[node] = None
            self._world.at(at, self._world.replace_disk, node)

    def _drain(self, node: NodeId) -> None:
        """It is to be empty; who looks after it asks until it is, or until the faults are over."""
        self._draining[node] = None
        self._look(node)

    def _look(self, node: NodeId) -> None:
        if node not in self._draining:
            return
        over = self._world.now >= self._end
        self._ask(node, undo=over)
        if over:
            del self._draining[node]
        else:
            self._world.at(later(self._world.now, LOOKS), self._look, node)

    def _ask(self, node: NodeId, *, undo: bool) -> None:
        if self._world.slots[node].node is not None:
            self._asked += 1
            self._world.request(node, OperationId(node, DRAINS + self._asked), Drain(undo))

    def drained(self, at: Instant, node: NodeId, told: Drained) -> None:
        """One that is empty goes on, or its machine is gone at once, and another comes."""
        if not told.empty or node not in self._draining:
            return
        del self._draining[node]
        if self._dice(f"scrapped {node} {at}").random() < SCRAPPED_SHARE:
            self._scrapped[node] = None
            self._world.at(at, self._world.replace_disk, node)
        else:
            self._ask(node, undo=True)

    def has_scrapped(self, node: NodeId) -> bool:
        """Whether a disk that is lost had nothing on it any more that anybody needs."""
        scrapped = node in self._scrapped
        self._scrapped.pop(node, None)
        return scrapped

    def _falls(self, putter: Putter) -> None:
        putter.fall()
        for node in self._nodes:
            if self._world.slots[node].node is not None:
                self._world.give(node, Announced(Gone(putter.name)))
