"""What whoever runs a process of a pool tells it, besides messages: what the runtime would tell.

The protocol must be right with these facts, without them, and when they come late. Only one thing
is certain of them: whoever was told that a way has ended is told when there is one again.
"""

from collections.abc import Callable
from random import Random
from typing import Any

from snowmelt.core.instant import Duration, Instant, later, milliseconds, seconds
from snowmelt.core.names import NodeId
from snowmelt.core.node import Announced, Effect, Event, Node, Received, Send
from snowmelt.protocols.calling import Gone, Lost
from snowmelt.protocols.pool.calls import Coming, Reachable
from snowmelt.protocols.pool.messages import ObjectsLent, Request
from snowmelt_world.families.pool_load import LARGE
from snowmelt_world.world import World


class Ways:
    """Who was told that the way to whom has ended; all reach all, at once."""

    def __init__(
        self, world: World, peers: tuple[NodeId, ...], nodes: tuple[NodeId, ...], chance: Random
    ) -> None:
        self.told = chance.choice((0.0, 0.5, 1.0))
        """How likely it is that a process is told of the end of another."""
        self.world = world
        self._peers = peers
        self._nodes = nodes
        self._chance = chance
        self._lost: dict[tuple[NodeId, NodeId], None] = {}
        self.breaks: list[tuple[Instant, NodeId, NodeId]] = []
        """When the way between which two ended."""

    def leaves(self, me: NodeId, effects: list[Effect[Any]]) -> list[Effect[Any]]:
        del me
        return effects

    def link(self, me: NodeId, source: NodeId) -> object:
        """By what something comes; another, once it has ended."""
        del me, source
        return self

    def broke(self, one: NodeId, other: NodeId) -> None:
        """The way between two has ended, or one of them takes it for ended."""
        self.breaks.append((self.world.now, one, other))

    def ended(self, process: NodeId) -> None:
        """A process is gone, and so are its ways."""
        for peer in self._peers:
            self._lost.pop((process, peer), None)
            if peer != process and self._chance.random() < self.told:
                self._soon(self.lose, peer, process)
        for node in self._nodes:
            if self._chance.random() < self.told:
                self._soon(self._tell, node, Gone(process))

    def began(self, process: NodeId) -> None:
        for peer in self._peers:
            if (peer, process) in self._lost:
                self._soon(self._reach, peer, process)

    def break_some(self) -> None:
        peer, process = self._chance.sample(self._peers, 2)
        for one, other in ((peer, process), (process, peer)):
            if self._chance.random() < 0.8:
                self.lose(one, other)

    def lose(self, peer: NodeId, process: NodeId) -> None:
        """One of two is told; once the other runs, also that it can be reached."""
        self._tell(peer, Lost(process))
        self.broke(peer, process)
        self._lost[peer, process] = None
        if self.world.slots[process].node is not None:
            self._soon(self._reach, peer, process)

    def _reach(self, peer: NodeId, process: NodeId) -> None:
        if self.world.slots[process].node is not None and (peer, process) in self._lost:
            del self._lost[peer, process]
            self._tell(peer, Reachable(process))

    def _tell(self, peer: NodeId, fact: Any) -> None:
        if self.world.slots[peer].node is not None:
            self.world.give(peer, Announced(fact))

    def _soon(self, act: Any, *arguments: Any) -> None:
        wait = Duration(self._chance.randrange(milliseconds(1), seconds(1)))
        self.world.at(later(self.world.now, wait), act, *arguments)


class Herald:
    """A process' node; of what is large it hears first that it comes, and then at times no more."""

    def __init__(
        self,
        node: Node[Any],
        me: NodeId,
        ways: Ways,
        losses: float,
        slow: Duration,
        sent: Callable[[NodeId, NodeId, ObjectsLent | Request], None],
        dice: Random,
    ) -> None:
        self._node = node
        self._me = me
        self._ways = ways
        self._losses = losses
        self._slow = slow
        self._sent = sent
        self._world = ways.world
        self._dice = dice
        self._on_the_way: dict[int, None] = {}

    def check(self) -> None:
        self._node.check()

    def handle(self, event: Event[Any], now: Instant) -> list[Effect[Any]]:
        """What the node does, as far as it leaves the process."""
        effects = self._heard(event, now)
        for effect in effects:
            if type(effect) is Send and isinstance(effect.message, ObjectsLent | Request):
                self._sent(self._me, effect.target, effect.message)
        return self._ways.leaves(self._me, effects)

    def _heard(self, event: Event[Any], now: Instant) -> list[Effect[Any]]:
        """Holds back what is large, and gives it to itself once more when all of it has come."""
        if not isinstance(event, Received) or not isinstance(event.message, ObjectsLent):
            return self._node.handle(event, now)
        found = event.message
        if len(found.blob) < LARGE or self._on_the_way.pop(found.token, self) is None:
            return self._node.handle(event, now)
        link = self._ways.link(self._me, event.source)
        if link is None:
            return []  # it ended with its link before all had come
        self._on_the_way[found.token] = None
        wait = Duration(self._dice.randrange(milliseconds(1), self._slow))
        lost = self._dice.random() < self._losses
        at = later(self._world.now, wait)
        self._world.at(at, self._arrives, event, self._life, None if lost else link)
        coming = Coming(event.source, found.number, found.attempt, found.token, found.lease)
        return self._node.handle(Announced(coming), now)

    @property
    def _life(self) -> int:
        return self._world.slots[self._me].life

    def _arrives(self, event: Received[Any], life: int, link: object) -> None:
        if self._world.slots[self._me].node is None or life != self._life:
            return
        if link is not None and link is self._ways.link(self._me, event.source):
            self._world.give(self._me, event)
            return
        self._on_the_way.pop(event.message.token, None)
        if link is None:
            self._ways.lose(self._me, event.source)
