"""A node of the overlay as a machine of its own, which knows only its neighbours.

Its links lose nothing and double nothing, in whatever order they bring it.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from snowmelt.core.instant import Instant
from snowmelt.core.names import NodeId
from snowmelt.core.node import Announce, Announced, Effect, Event, Received, Send
from snowmelt_lab.machines.overlay import messages
from snowmelt_lab.machines.overlay.family import Carry, Family, Fetch, Store, Tell, Wish
from snowmelt_lab.machines.overlay.labels import Kind, Virtual, three
from snowmelt_lab.machines.overlay.ring import Ring
from snowmelt_lab.machines.overlay.routing import keeps, point
from snowmelt_lab.machines.overlay.standing import Standing
from snowmelt_lab.machines.overlay.station import GuestStation, RingStation
from snowmelt_lab.machines.overlay.table import Getter
from snowmelt_lab.machines.overlay.virtual import Anchor, VirtualNode

Effects = list[Effect[messages.Message]]


class Join(msgspec.Struct, frozen=True):
    """A wish from outside: come into the overlay of this node."""

    contact: NodeId


class Leave(msgspec.Struct, frozen=True):
    """A wish from outside: go, once nothing of this node's own is unanswered."""


class Work(msgspec.Struct, frozen=True):
    """The family has new operations: look at its snapshot when a batch may leave."""


class Served(msgspec.Struct, frozen=True):
    """Told: a newcomer's operations are taken from now on."""


class Joined(msgspec.Struct, frozen=True):
    """Told: this node is on the ring."""


class Left(msgspec.Struct, frozen=True):
    """Told: this node has given everything away and may end."""


class JoinRefused(msgspec.Struct, frozen=True):
    """Told: a node of this name is on the ring already."""

    node: NodeId


class OverlayNode:
    """One node: three places, and the family that lives here."""

    def __init__(
        self, me: NodeId, salt: str, family: Family, ring: Ring | None = None, *, sync: bool = False
    ) -> None:
        """With a ring, as one of those that found the overlay; else it has to join."""
        self.me: Final = me
        self.family: Final = family
        self.standing: Final = Standing(me, salt, family, synchronous=sync)
        self.three: Final = three(salt, me)
        self.stations: dict[Kind, RingStation | GuestStation] = {
            one.kind: self._founded(one, ring) if ring else GuestStation(one, self.standing)
            for one in self.three
        }
        self.standing.member = ring is not None
        self._held: list[messages.Errand] = []
        """A guest's errands while it has no host that works."""
        self._asked = False
        """Whether the family has a part in the batch on its way."""
        self._told_joined = ring is not None
        self._counted = -1
        """The epoch in which this node's coming or going went up."""

    def _founded(self, one: Virtual, ring: Ring) -> RingStation:
        virtual = VirtualNode(one, ring.pred(one), ring.succ(one), self.standing)
        virtual.nodes = len(ring.nodes)
        if one == ring.anchor:
            virtual.anchor = Anchor(self.family.initial())
        return RingStation(virtual)

    def handle(self, event: Event[messages.Message], now: Instant) -> Effects:
        del now  # nothing here waits for a time
        match event:
            case Received(source, message):
                outcomes, effects = self._received(source, message)
            case Announced(Join(contact)):
                outcomes, effects = [messages.Mail(contact, messages.Ask(self.three))], []
            case Announced(Leave()):
                self.standing.wants_to_leave = True
                outcomes, effects = [], []
            case _:
                outcomes, effects = [], []
        return effects + self._run(outcomes)

    def check(self) -> None:
        """No word comes from an epoch that has ended, nor to a node that has left."""
        for station in self.stations.values():
            if isinstance(station, RingStation):
                station.virtual.check()
                assert not station.stale, f"{self.me} was told {station.stale} words too late"

    # --- what comes in ----------------------------------------------------------------------------

    def _received(
        self, source: NodeId, message: messages.Message
    ) -> tuple[list[messages.Outcome], Effects]:
        match message:
            case messages.Word(target=target):
                return self._told(message, Kind(target.index)), []
            case messages.Ask():
                return self._ask(source, message), []
            case messages.Elsewhere(node):
                return [messages.Mail(node, messages.Ask(self.three))], []
            case messages.Hosted():
                return self._hosted(message)
            case messages.Refused():
                return [], [Announce(JoinRefused(self.me))]
            case messages.Kept(ticket):
                self.family.kept(ticket)
            case messages.Got(ticket, element):
                self.family.got(ticket, element)
            case messages.Told(body):
                return self._do(self.family.told(body)), []
        return [], []

    def _told(self, word: messages.Word, kind: Kind) -> list[messages.Outcome]:
        assert not self.standing.gone, f"{self.me} has left and is told {word}"
        station = self.stations[kind]
        outcomes = station.take(word)
        if isinstance(station, GuestStation) and station.placed is not None:
            self.stations[kind] = station.spliced_in(station.placed)
        return outcomes

    def _ask(self, source: NodeId, ask: messages.Ask) -> list[messages.Outcome]:
        station = self.stations[Kind.MIDDLE]
        if isinstance(station, GuestStation):
            self._held += [messages.Find(one, source) for one in ask.newcomers]
            return []
        if station.heir is not None:
            return [messages.Mail(source, messages.Elsewhere(station.heir))]
        finds = [messages.Find(one, source) for one in ask.newcomers]
        return [each for find in finds for each in station.virtual.begin(find)]

    def _hosted(self, hosted: messages.Hosted) -> tuple[list[messages.Outcome], Effects]:
        station = self.stations[hosted.kind]
        if isinstance(station, RingStation):  # told late, and spliced in since
            return [], []
        first = hosted.kind is Kind.LEFT and station.host is None
        return station.hosted(hosted), [Announce(Served())] if first else []

    # --- what is done about it --------------------------------------------------------------------

    def _run(self, outcomes: list[messages.Outcome]) -> Effects:
        """Words to places of this node are taken at once: they cost nothing."""
        effects: Effects = []
        while True:
            while outcomes:
                outcome = outcomes.pop(0)
                effects += self._carry_out(outcome, outcomes)
            for kind in self.stations:
                outcomes += self._settle(kind)
            outcomes += self._release()
            if not outcomes:
                return effects + self._turns()

    def _carry_out(self, outcome: messages.Outcome, more: list[messages.Outcome]) -> Effects:
        match outcome:
            case messages.Word(target=target) if target.node == self.me:
                more += self._told(outcome, Kind(target.index))
            case messages.Word(target=target):
                return [Send(target.node, outcome)]
            case messages.Mail(to, letter) if to == self.me:
                outcomes, effects = self._received(to, letter)
                more += outcomes
                return effects
            case messages.Mail(to, letter):
                return [Send(to, letter)]
            case messages.Share(grant) if grant is not None:
                more += self._do(self.family.granted(grant))
            case messages.Visited(at, body):
                more += self._do(self.family.visited(at, body))
            case messages.TakenBack() if self._asked:
                self.family.taken_back()
        return []

    def _do(self, wishes: Sequence[Wish]) -> list[messages.Outcome]:
        outcomes: list[messages.Outcome] = []
        for wish in wishes:
            match wish:
                case Tell(node, body):
                    outcomes.append(messages.Mail(node, messages.Told(body)))
                case Carry(at, body, origin):
                    outcomes += self._begin(messages.Visit(at, body, origin), self._keeper(origin))
                case Store(ticket, slot, element):
                    outcomes += self._begin(messages.Put(slot, element, Getter(self.me, ticket)))
                case Fetch(ticket, slot):
                    outcomes += self._begin(messages.Get(slot, Getter(self.me, ticket)))
        return outcomes

    def _begin(self, errand: messages.Errand, kind: Kind = Kind.MIDDLE) -> list[messages.Outcome]:
        station = self.stations[kind]
        if isinstance(station, RingStation):
            return station.virtual.begin(errand)
        self._held.append(errand)
        return []

    def _keeper(self, origin: int | None) -> Kind:
        """Which of the three keeps a point of this node; the middle one for what starts anew."""
        if origin is not None:
            for kind, station in self.stations.items():
                if isinstance(station, RingStation):
                    v = station.virtual
                    if keeps(v.me, v.succ, point(origin)):
                        return kind
        return Kind.MIDDLE

    def _settle(self, kind: Kind) -> list[messages.Outcome]:
        station = self.stations[kind]
        own = None
        if station.running and kind is Kind.LEFT:
            if isinstance(station, RingStation):
                station.virtual.climbing.ready = self.family.ready
            own = self._own(station)
        elif station.running:
            own = self._empty
        return station.settle(own)

    @property
    def _empty(self) -> messages.Wave | None:
        """What goes up when there is nothing to say (rule 11)."""
        return messages.Wave() if self.standing.synchronous else None

    def _own(self, station: RingStation | GuestStation) -> messages.Wave | None:
        """What this node has to say, when a batch may leave its entry."""
        climbing = (
            station.virtual.climbing if isinstance(station, RingStation) else station.climbing
        )
        if climbing is None or not climbing.idle:
            return None
        joins, leaves = int(self._comes(station)), int(self._goes(station))
        if joins or leaves:
            self._counted = station.epoch
        batch = self.family.snapshot()
        self._asked = batch is not None
        if batch is None and not joins and not leaves:
            return self._empty
        return messages.Wave(batch, joins, leaves)

    def _comes(self, station: RingStation | GuestStation) -> bool:
        return self.standing.ripe and self._counted < station.epoch

    def _goes(self, station: RingStation | GuestStation) -> bool:
        if not isinstance(station, RingStation) or station.virtual.nodes < 2:
            return False  # the last one has nobody to give anything to
        return self.standing.ready_to_leave and self._counted < station.epoch

    def _release(self) -> list[messages.Outcome]:
        """A guest's errands, once there is somebody to take them."""
        station, middle = self.stations[Kind.LEFT], self.stations[Kind.MIDDLE]
        outcomes: list[messages.Outcome] = []
        if isinstance(middle, RingStation):
            errands, self._held = self._held, []
            for errand in errands:
                outcomes += middle.virtual.begin(errand)
        elif isinstance(station, GuestStation) and station.running:
            errands, self._held = self._held, []
            for errand in errands:
                outcomes += station.relay(errand)
        return outcomes

    def _turns(self) -> Effects:
        """Tells when this node has come to be on the ring, or has left it."""
        stations = self.stations.values()
        on_ring = [one for one in stations if isinstance(one, RingStation)]
        if len(on_ring) < len(Kind) or self.standing.gone:
            return []
        if all(one.left for one in on_ring):
            self.standing.gone = True
            return [Announce(Left())]
        if not self._told_joined and all(one.running for one in on_ring):
            self._told_joined = True
            return [Announce(Joined())]
        return []


def settled(nodes: Iterable[OverlayNode]) -> bool:
    """Whether every node that has not left is on the ring and works, all in one epoch."""
    stations = [
        station for node in nodes if not node.standing.gone for station in node.stations.values()
    ]
    return all(one.running and isinstance(one, RingStation) for one in stations) and (
        len({one.epoch for one in stations}) == 1
    )
