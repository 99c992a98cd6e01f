"""One virtual node while it works: climbing, routing, its part of the table, its guests.

What it does while the ring changes is in `joining.py`.
"""

from enum import Enum
from typing import Any, Final

import msgspec

from snowmelt_lab.machines.overlay import messages
from snowmelt_lab.machines.overlay.climbing import Arrival, Back, Climbing, Down, Own, Up
from snowmelt_lab.machines.overlay.labels import Kind, Place, Virtual
from snowmelt_lab.machines.overlay.routing import Route, begin, edge, point, step
from snowmelt_lab.machines.overlay.standing import Standing
from snowmelt_lab.machines.overlay.table import Met, Table
from snowmelt_lab.machines.overlay.tree import local_children, local_parent

Outcomes = list[messages.Outcome]


class Phase(Enum):
    """Where a virtual node stands between two epochs."""

    RUNNING = "running"
    PAUSED = "paused"
    SPLICING = "splicing"


class Traffic:
    """How much was routed over each link in this epoch (rule 17)."""

    def __init__(self) -> None:
        self.sent: Final[dict[Place, int]] = {}
        self.received: Final[dict[Place, int]] = {}

    def send(self, to: Place) -> None:
        self.sent[to] = self.sent.get(to, 0) + 1

    def receive(self, source: Place) -> None:
        self.received[source] = self.received.get(source, 0) + 1


class Anchor(msgspec.Struct):
    """What the root alone has."""

    state: Any
    changes: int = 0
    """Joins and leaves that no update has taken up yet."""


class VirtualNode:
    """Knows its two neighbours on the ring, and nothing else of it."""

    def __init__(
        self, me: Virtual, pred: Virtual, succ: Virtual, standing: Standing, epoch: int = 0
    ) -> None:
        self.me: Final = me
        self.pred = pred
        self.succ = succ
        self.standing: Final = standing
        self.epoch = epoch
        self.nodes = 1
        self.phase = Phase.RUNNING
        self.table: Table[Any] = Table()
        self.guests: dict[Place, messages.Guest] = {}
        self.held: list[messages.Errand] = []
        """What is to be routed when work goes on."""
        self.anchor: Anchor | None = None
        self.traffic = Traffic()
        self.climbing = self.new_climbing()

    def new_climbing(self) -> Climbing[messages.Wave, Any]:
        """For a new epoch: the tree as the neighbours have it, and guests as more children."""
        below = local_children(self.me, self.succ)
        guests = tuple(place for place in self.guests if place.index == Kind.LEFT)
        return Climbing(
            self.standing.waves,
            self.me.place,
            local_parent(self.me, self.pred),
            (*below, *guests),
            synchronous=self.standing.synchronous,
        )

    def tell(self, to: Place, body: messages.Body) -> messages.Word:
        return messages.Word(self.epoch, self.me.place, to, body)

    def check(self) -> None:
        """Neighbours are others, and all that is kept here belongs here while nothing changes."""
        assert self.pred != self.me != self.succ, f"{self.me} is its own neighbour"
        self.climbing.check()
        if self.phase is Phase.RUNNING:
            assert self.me.place.node == self.standing.node, f"{self.me} lives at another"
            assert not self.held, f"{self.me} works and holds {self.held}"

    # --- climbing ---------------------------------------------------------------------------------

    def climb(self, source: Place, climb: messages.Climb) -> Outcomes:
        downs = self.climbing.take(source, climb.number, climb.wave)
        backs = self.refuse() if self.phase is not Phase.RUNNING else []
        return [*(self._granted(down) for down in downs), *backs]

    def refuse(self) -> Outcomes:
        """What waits goes back to where it came from (rule 17)."""
        return [self._back(back) for back in self.climbing.refuse()]

    def refused(self, refusal: messages.Refusal) -> Outcomes:
        """The batch on its way has come back."""
        return [self._back(back) for back in self.climbing.refused(refusal.number)]

    def _back(self, back: Back) -> messages.Outcome:
        return (
            messages.TakenBack()
            if back.to is None
            else self.tell(back.to, messages.Refusal(back.number))
        )

    def granted(self, granted: messages.Granted) -> Outcomes:
        effects = self.climbing.granted(granted.number, granted.share)
        return [
            messages.Share(effect.grant) if isinstance(effect, Own) else self._granted(effect)
            for effect in effects
        ]

    def send(self, own: messages.Wave | None) -> Outcomes:
        """What has gathered goes up, if it may."""
        outcomes: Outcomes = []
        for effect in self.climbing.send(own):
            match effect:
                case Up(to, number, wave):
                    outcomes.append(self.tell(to, messages.Climb(number, wave)))
                case Arrival(number, wave):
                    outcomes += self._assign(number, wave)
        return outcomes

    def _assign(self, number: int, wave: messages.Wave) -> Outcomes:
        anchor, grant = self.anchor, None
        assert anchor is not None, f"{self.me} is the root without the anchor's state"
        anchor.changes += wave.joins + wave.leaves
        if wave.batch is not None:
            anchor.state, grant = self.standing.family.assign(anchor.state, wave.batch)
        return self.granted(messages.Granted(number, grant))

    def _granted(self, down: Down[Any]) -> messages.Word:
        return self.tell(down.to, messages.Granted(down.number, down.grant))

    # --- routing and the table --------------------------------------------------------------------

    def routed(self, source: Place, routed: messages.Routed) -> Outcomes:
        self.traffic.receive(source)
        if self.phase is not Phase.RUNNING:
            return self.hold(routed.errand)
        return self._forward(routed.route, routed.errand)

    def relay(self, source: Place, relay: messages.Relay) -> Outcomes:
        self.traffic.receive(source)
        return self.begin(relay.errand)

    def begin(self, errand: messages.Errand) -> Outcomes:
        """An errand begins here, now or when work goes on."""
        if self.phase is not Phase.RUNNING:
            return self.hold(errand)
        target = target_of(errand)
        if isinstance(errand, messages.Visit) and errand.origin is not None:
            return self._forward(edge(self.me, target, errand.origin, self.nodes), errand)
        return self._forward(begin(self.me, target, self.nodes), errand)

    def hold(self, errand: messages.Errand) -> Outcomes:
        self.held.append(errand)
        return []

    def _forward(self, route: Route, errand: messages.Errand) -> Outcomes:
        to, route = step(self.me, self.pred, self.succ, route)
        if to is None:
            return self._arrived(errand)
        place = Place(self.me.node, int(to)) if isinstance(to, Kind) else to.place
        self.traffic.send(place)
        return [self.tell(place, messages.Routed(route, errand))]

    def _arrived(self, errand: messages.Errand) -> Outcomes:
        match errand:
            case messages.Put(slot, element, putter):
                kept = messages.Mail(putter.node, messages.Kept(putter.ticket))
                return [kept, *answers(self.table.put(slot, element))]
            case messages.Get(slot, getter):
                return answers(self.table.get(slot, getter))
            case messages.Visit(at, body):
                return [messages.Visited(at, body)]
            case messages.Find(newcomer, asker) if newcomer == self.me:
                return [messages.Mail(asker, messages.Refused())]
            case messages.Find(newcomer):
                return [self._host(newcomer)]

    def _host(self, newcomer: Virtual) -> messages.Mail:
        """A newcomer is served at once, as one more child (rule 15)."""
        self.guests[newcomer.place] = messages.Guest(newcomer)
        if newcomer.kind is Kind.LEFT:
            self.climbing.children = (*self.climbing.children, newcomer.place)
        return self.hosted(newcomer)

    def hosted(self, guest: Virtual) -> messages.Mail:
        return messages.Mail(guest.node, messages.Hosted(guest.kind, self.me.place, self.epoch))


def target_of(errand: messages.Errand) -> Virtual:
    match errand:
        case messages.Find(newcomer):
            return newcomer
        case messages.Visit(at):
            return point(at)
        case messages.Put(slot) | messages.Get(slot):
            return point(slot.point)


def answers(met: list[Met[Any]]) -> Outcomes:
    return [
        messages.Mail(one.getter.node, messages.Got(one.getter.ticket, one.element)) for one in met
    ]
