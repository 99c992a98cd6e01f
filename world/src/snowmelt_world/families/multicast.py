"""The multicast family's life: topics under way, while nodes, links and clients fail.

Each node is a whole process: membership, the baton with its tree, and the topics on it. Who
publishes and who listens stands in `multicast_crowd.py`, what may never be seen in
`multicast_ledger.py`.
"""

from functools import partial
from random import Random
from typing import Any, Final

from snowmelt.core.instant import Duration, Instant, seconds
from snowmelt.core.names import NodeId, OperationId, contact
from snowmelt.core.node import Announce, Announced, Effect, Event, Node, Received, Reply, Send
from snowmelt.protocols import baton, multicast
from snowmelt.protocols.baton import BatonSettings
from snowmelt.protocols.calling import Answer, Call, Gone
from snowmelt.protocols.membership import CutOff, View
from snowmelt.protocols.multicast import MulticastSettings, calls
from snowmelt.protocols.multicast.messages import Acknowledge, Broadcast
from snowmelt_world.families.membership import SETTINGS, address, member
from snowmelt_world.families.multicast_crowd import Actor, Listener, Publisher, Stage
from snowmelt_world.families.multicast_ledger import FINAL, Ledger
from snowmelt_world.families.operators import Operators
from snowmelt_world.families.relying import Relied, relying
from snowmelt_world.life import FamilyLife, Tally
from snowmelt_world.planted import planted
from snowmelt_world.scenario import ETCD_DECIDES, Scenario
from snowmelt_world.world import Broken, World

BATON: Final = BatonSettings()
MULTICAST: Final = MulticastSettings()
SMALL: Final = MulticastSettings(kept_messages=20, queued_bytes=200)
"""So little that nodes forget what others still need."""


class MulticastLife(FamilyLife):
    """Three to seven nodes, one or two topics, publishers and listeners of each."""

    name = "multicast"

    def __init__(self, scenario: Scenario, chance: Random) -> None:
        super().__init__(scenario, chance)
        self._etcd = scenario.coordinator == ETCD_DECIDES
        self._settings = chance.choice((MULTICAST, MULTICAST, SMALL))
        self._breaks = chance.choice((0, 0, 3, 10))
        """How many connections of publishers and listeners end for no reason."""
        small = self._settings is SMALL
        self._ledgers = {
            f"t{number}": Ledger(small=small) for number in range(chance.choice((1, 1, 2)))
        }
        self._actors: dict[NodeId, Actor] = {}
        self._publishers: list[Publisher] = []
        self._listeners: list[Listener] = []
        self._views: dict[NodeId, View] = {}
        self._rounds = 0
        self._newest = 0
        """The number of the newest view that anybody was told."""
        self._rested: list[int] = []
        """How often each listener had been told of a gap when the last round at rest began."""

    @property
    def bound(self) -> Duration:
        """How long after the last fault it may take.

        Members are missed, the baton is made anew, what was numbered before is heard or skipped,
        and then everybody publishes once more.
        """
        members = SETTINGS.patience + SETTINGS.lease
        search = 2 * (MULTICAST.patience + seconds(4))
        return Duration(members + 3 * BATON.lease + search + seconds(30))

    # --- who is there -----------------------------------------------------------------------------

    def populate(self, world: World) -> None:
        """The founder first, the others soon after; then those who publish and listen."""
        self._world = world
        chance, nodes, end = self._chance, self._scenario.nodes, self._scenario.faults_end
        self._stage = Stage(world, nodes, self._ledgers)
        self._operators = Operators(world, nodes, None if self._etcd else nodes[0])
        for node in nodes:
            world.add(node, partial(self._node, node), address(node))
            begin = 0 if node == nodes[0] else chance.randrange(seconds(2))
            world.at(Instant(begin), world.start, node)
        for topic in self._ledgers:
            for number in range(chance.randint(1, 3)):
                at = Instant(chance.randrange(seconds(4)))
                world.at(at, self._publish, f"p{number}.{topic}", topic)
            for number in range(chance.randint(2, 5)):
                at = Instant(chance.randrange(chance.choice((seconds(3), end))))
                world.at(at, self._listen, f"l{number}.{topic}", topic)
        for _ in range(self._breaks):
            world.at(Instant(chance.randrange(end)), self._break)
        world.at(end, self._drain)

    def _node(self, node: NodeId, chance: Random) -> Node[Any]:
        founder = self._scenario.nodes[0]
        families = [
            relying(),  # before those whose words it is to explain
            *baton.families(node, BATON, chance, etcd=self._etcd),
            multicast.family(node, self._settings, chance),
        ]
        contacts = () if node == founder else (founder,)
        decided_by = self._scenario.coordinator
        process = member(node, contacts, chance, *families, coordinator=decided_by)
        return Witness(node, planted(self._scenario.bug, process), self._stage)

    def _publish(self, name: str, topic: str) -> None:
        publisher = Publisher(self._stage, name, topic, self._dice(name))
        self._publishers.append(publisher)
        self._actors[publisher.name] = publisher

    def _listen(self, name: str, topic: str) -> None:
        listener = Listener(self._stage, name, topic, self._dice(name))
        self._listeners.append(listener)
        self._actors[listener.name] = listener

    def _break(self) -> None:
        """A connection ends, and both sides see it."""
        if not self._actors:
            return
        actor = self._actors[self._chance.choice(sorted(self._actors))]
        node = self._chance.choice(self._scenario.nodes)
        if self._world.slots[node].node is not None:
            self._world.give(node, Announced(Gone(actor.name)))
        actor.lose(contact(address(node)))

    def _drain(self) -> None:
        self._stage.draining = True

    # --- what is seen -----------------------------------------------------------------------------

    def replied(self, at: Instant, node: NodeId, effect: Reply[Any]) -> None:
        actor = self._actors.get(node)
        if self._operators.over or self._operators.answered(node, effect.message):
            return
        if actor is not None:
            actor.answered(effect.operation, effect.message, at)

    def announced(self, at: Instant, node: NodeId, effect: Announce) -> None:
        """A view is without a node, or has it as another than before; or a node is cut off."""
        match effect.fact:
            case View() as view:
                self._newest = max(self._newest, view.epoch)
            case Relied(view):
                before = self._views.get(node)
                self._views[node] = view
                for one in before.members if before is not None else ():
                    if view.member(one.id) != one:
                        self._failed(one.id, at)
                if view.member(node) is None:
                    self._failed(node, at)
            case CutOff():
                self._views.pop(node, None)
                self._failed(node, at)
            case _:
                pass

    def ended(self, at: Instant, node: NodeId) -> None:
        self._views.pop(node, None)
        self._failed(node, at)

    def halted(self, at: Instant, node: NodeId, reason: str) -> None:
        del at
        self._operators.halted(node, reason)

    def disk_lost(self, at: Instant, node: NodeId) -> None:
        self._operators.disk_lost(at, node)

    def set_back(self, at: Instant, node: NodeId, taken: Instant) -> None:
        self._operators.set_back(at, node, taken)

    def _failed(self, node: NodeId, at: Instant) -> None:
        for ledger in self._ledgers.values():
            ledger.fails(node, at)

    # --- at the end -------------------------------------------------------------------------------

    def unsettled(self, world: World) -> str:
        """At rest when all have heard all; then everybody publishes once more, twice.

        The first time may show that a baton had been lost, of which nobody knew; not the second.
        """
        if self._operators.over:
            return ""
        if down := self._down(world):
            return down
        views = [self._views.get(node) for node in self._scenario.nodes]
        if views[0] is None or any(view != views[0] for view in views):
            return f"{self._scenario.nodes[0]} is in another view than others"
        if views[0].epoch < self._newest:
            return f"view {self._newest} is not sure yet"
        if len(views[0].members) < len(views):
            return f"{self._scenario.nodes[0]} sees {views[0]}"
        reason = self._busy() or self._apart() or self._unheard()
        if reason or self._rounds == FINAL:
            return reason
        self._rested = [one.hearing.following.missed for one in self._listeners]
        self._rounds += 1
        for publisher in self._publishers:
            publisher.once_more()
        return f"{self._publishers[0].name} publishes once more"

    def _busy(self) -> str:
        for publisher in self._publishers:
            if not publisher.done:
                return f"{publisher.name} has not been told that everybody heard it"
        return ""

    def _apart(self) -> str:
        """Who stands elsewhere than another who listens to the same.

        What nobody asks to be published any more may have been heard by one, of a node that is gone
        with it. So where they stand counts once all have published at rest.
        """
        for listener in self._listeners:
            position = listener.hearing.following.position
            if position is None:
                return f"{listener.name} has not begun"
            for other in self._listeners:
                its = other.hearing.following.position
                if self._rounds and other.topic == listener.topic and its != position:
                    return f"{listener.name} is at {position}, {other.name} at {its}"
        return ""

    def _unheard(self) -> str:
        """Who has not heard what was published when all was at rest."""
        for listener in self._listeners:
            heard = dict.fromkeys(listener.ear.tickets)
            for ticket, wish in listener.ledger.wishes.items():
                if wish.round and wish.answered is not None and ticket not in heard:
                    return f"{listener.name} has not heard {ticket}"
        return ""

    @property
    def tally(self) -> Tally:
        return Tally.of(self._ledgers.values())

    def judge(self, world: World) -> None:
        """Each topic's history; and when all was at rest nobody was told of anything missing."""
        del world
        for ledger in self._ledgers.values():
            ledger.judge(
                calm=not (self._scenario.faults or self._scenario.weather or self._breaks)
                and self._settings is MULTICAST
            )
        for listener, missed in zip(self._listeners, self._rested, strict=False):
            if self._rounds == FINAL and listener.hearing.following.missed > missed:
                raise Broken(f"{listener.name} missed something at rest", listener.name)


class Witness:
    """A node of the cluster, seen by whoever writes down what it says of positions."""

    def __init__(self, name: NodeId, node: Node[Any], stage: Stage) -> None:
        self._name = name
        self._node = node
        self._stage = stage
        self._ledgers = stage.ledgers
        self._view: View | None = None
        self._calls: dict[OperationId, calls.Publish | calls.Listen] = {}
        self._asking: OperationId | None = None
        """The call that comes in this very step."""
        self._seen: list[Effect[Any]] = []

    def handle(self, event: Event[Any], now: Instant) -> list[Effect[Any]]:
        match event:
            case Received(client, Call(number, calls.Publish() | calls.Listen() as body)):
                self._asking = OperationId(client, number)
                self._calls[self._asking] = body
            case _:
                self._asking = None
        effects = self._node.handle(event, now)
        self._seen += effects
        return effects

    def check(self) -> None:
        """The node's own invariants, and what it said."""
        self._node.check()
        seen, self._seen = self._seen, []
        for effect in seen:
            match effect:
                case Announce(Relied(view)):
                    self._view = view
                case Send(_, Broadcast(name, publications)):
                    for one in publications:
                        self._ledgers[name].numbered(one)
                case Send(_, Acknowledge(name, life, here, _)):
                    self._ledgers[name].keeps(self._name, life, here)
                case Send(client, Answer(number, calls.Messages(publications))):
                    operation = OperationId(client, number)
                    self._stage.answerers[operation] = self._name
                    for one in publications:
                        self._ledgers[self._calls[operation].name].numbered(one)
                case Send(client, Answer(number, calls.Published(first))):
                    self._promised(OperationId(client, number), first)
                case _:
                    pass

    def _promised(self, operation: OperationId, first: calls.Position) -> None:
        asked = self._calls[operation]
        assert isinstance(asked, calls.Publish)
        ledger = self._ledgers[asked.name]
        ledger.numbered(calls.Publication(first, asked.ticket, asked.bodies))
        if operation == self._asking or self._view is None:
            return  # it tells again what it promised before, maybe in another view
        ledger.promises(self._name, self._view, first)
