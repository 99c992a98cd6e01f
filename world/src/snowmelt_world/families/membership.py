"""Membership's life: nodes come, crash, sleep, leave and return; views stay one history."""

from random import Random
from typing import Any, Final

import msgspec

from snowmelt.core.instant import Duration, Instant, later, seconds
from snowmelt.core.names import Address, NodeId, OperationId, contact
from snowmelt.core.node import Announce, Effect, Event, Node, Reply, Started
from snowmelt.core.record import Record, Write
from snowmelt.protocols.etcd import ETCD
from snowmelt.protocols.host import Family, Host
from snowmelt.protocols.membership import (
    HEARD,
    CutOff,
    Depart,
    Departed,
    GetStatus,
    Identity,
    MembershipNode,
    MembershipSettings,
    View,
)
from snowmelt.protocols.membership.disk import VIEW, Unreadable, kept
from snowmelt.protocols.membership.founding import on_disk
from snowmelt_world.check.history import History, Kind, Operation
from snowmelt_world.check.verdict import Invalid, combine
from snowmelt_world.check.views import check_view_agreement, check_view_monotony
from snowmelt_world.etcd import NAME
from snowmelt_world.families.load import Clients
from snowmelt_world.families.relying import Relied, ReliedLead, relying
from snowmelt_world.faults import ClockJump, LeaderParted, LeaderPause, Pause, Suspend
from snowmelt_world.life import FamilyLife
from snowmelt_world.planted import Bug, planted
from snowmelt_world.scenario import DISK, Scenario
from snowmelt_world.world import Broken, World

SETTINGS: Final = MembershipSettings(interval=seconds(3), misses=3, grace=seconds(1))
"""Those of the paper, in which all kept lives are told; slower than what ships."""
IMPOLITE: Final = (Pause, LeaderPause, LeaderParted, ClockJump)
CALLS: Final = 40


def address(node: NodeId) -> Address:
    return Address(node, 4410)


class Founder(MembershipNode):
    """The first of a cluster: its operator founds one on its empty disk before it begins."""

    def handle(self, event: Event[Any], now: Instant) -> list[Effect[Any]]:
        if type(event) is Started and self._is_empty(event):
            changes = on_disk(1 + self._chance.getrandbits(62), self._follower.identity.id)
            made = [Record(one.key, one.value) for one in changes if isinstance(one, Write)]
            event = msgspec.structs.replace(event, records=(*event.records, *made))
        return super().handle(event, now)

    def _is_empty(self, event: Started) -> bool:
        try:
            found = kept(event)
        except Unreadable:
            return False
        return not (found.ledger or found.view or found.moved or VIEW in event.damaged)


def member(
    node: NodeId,
    contacts: tuple[NodeId, ...],
    chance: Random,
    *families: Family,
    coordinator: str = DISK,
    hands_over: bool = False,
) -> Node[Any]:
    """One process of a simulated cluster; its families stand on the membership."""
    identity = Identity(
        id=node,
        address=address(node),
        contacts=tuple(contact(address(one)) for one in contacts),
    )
    if coordinator != DISK:
        machine = MembershipNode(identity, SETTINGS, chance, NAME, hands_over=hands_over)
    else:
        founds = MembershipNode if contacts else Founder
        machine = founds(identity, SETTINGS, chance, hands_over=hands_over)
    return Host(node, [Family("membership", machine, HEARD), *families])


class Sighting(msgspec.Struct, frozen=True):
    at: Instant
    node: NodeId
    view: View


class MembershipLife(FamilyLife):
    """Three to seven nodes, the first of them the coordinator, and two clients who ask."""

    def __init__(self, scenario: Scenario, chance: Random) -> None:
        super().__init__(scenario, chance)
        self._clients = Clients()
        self._sightings: list[Sighting] = []
        self._contents: dict[int, Sighting] = {}
        self._newest: dict[NodeId, int] = {}
        self._current: dict[NodeId, View] = {}
        self._leading: dict[NodeId, None] = {}
        # Rule 8 promises politeness only to nodes whose clocks run and who run themselves, and
        # rules 25 and 26 to who leads, whatever becomes of etcd's clock and of others' sleep.
        hurt = (*scenario.faults, *scenario.weather)
        self._polite = not any(isinstance(one, IMPOLITE) for one in hurt)
        self._polite_to_leaders = scenario.coordinator != DISK and not any(
            isinstance(one, ClockJump | Suspend) and one.node != ETCD for one in hurt
        )

    @property
    def bound(self) -> Duration:
        """A silent member must be missed, everybody asked again, and the last client answered."""
        return Duration(SETTINGS.patience + SETTINGS.lease + seconds(20))

    def populate(self, world: World) -> None:
        """The founder first; the others join through anybody, at their own time."""
        self._world = world
        nodes = self._scenario.nodes
        for node in nodes:
            contacts = self._contacts(node)
            self._add_node(world, node, contacts)
            begin = 0 if node == nodes[0] else self._chance.randrange(seconds(10))
            world.at(Instant(begin), world.start, node)
        for name in ("c1", "c2"):
            client = NodeId(name)
            self._clients.add(world, client, self._chance.sample(nodes, 2))
            for _ in range(CALLS):
                at = self._sometime(self._scenario.faults_end)
                self._clients.call(world, client, GetStatus(), at)
        if self._chance.random() < 0.4:
            leaver = self._chance.choice(nodes[1:])
            at = self._sometime(self._scenario.faults_end)
            world.request(leaver, OperationId(leaver, 1), Depart(), at)

    def _contacts(self, node: NodeId) -> tuple[NodeId, ...]:
        nodes = self._scenario.nodes
        if node == nodes[0]:
            return ()
        others = [one for one in nodes if one != node]
        asked = self._chance.sample(others, self._chance.randrange(1, len(others) + 1))
        # Through any node; but somebody among them must at last know the founder.
        return tuple(dict.fromkeys([*asked, nodes[0]]))

    def _add_node(self, world: World, node: NodeId, contacts: tuple[NodeId, ...]) -> None:
        def build(chance: Random) -> Node[Any]:
            believed = self._scenario.bug == Bug.HINT_BELIEVED
            witness = relying(fenced=believed)
            decider = self._scenario.coordinator
            process = member(node, contacts, chance, witness, coordinator=decider)
            return planted(self._scenario.bug, process)

        world.add(node, build, address(node))

    # --- what is seen -----------------------------------------------------------------------------

    def announced(self, at: Instant, node: NodeId, effect: Announce) -> None:
        match effect.fact:
            case View() as view:
                self._saw(Sighting(at, node, view))
                self._current[node] = view
            case Relied(view):
                self._check_politeness(Sighting(at, node, view))
            case ReliedLead(leads):
                self._check_lead(at, node, leads=leads)
            case CutOff():
                self._current.pop(node, None)
            case _:
                pass

    def ended(self, at: Instant, node: NodeId) -> None:
        del at
        self._current.pop(node, None)
        self._leading.pop(node, None)

    def replied(self, at: Instant, node: NodeId, effect: Reply[Any]) -> None:
        """A client was answered, or a node has left: its operator stops it, and brings it back."""
        if node.startswith("c"):
            self._clients.answered(effect.operation)
        elif isinstance(effect.message, Departed):
            world = self._world
            world.at(at, world.stop, node)
            world.at(later(at, seconds(self._chance.randrange(1, 20))), world.start, node)

    def _saw(self, sighting: Sighting) -> None:
        view, node = sighting.view, sighting.node
        self._sightings.append(sighting)
        first = self._contents.get(view.epoch)
        if first is None:
            self._contents[view.epoch] = sighting
        elif first.view != view:
            text = f"{node} saw {view}, but {first.node} had seen {first.view}"
            raise Broken(f"{text} under the same number", node)
        if self._newest.get(node, 0) > view.epoch:
            raise Broken(f"{node} went back from view {self._newest[node]} to {view.epoch}", node)
        self._newest[node] = view.epoch

    def _check_politeness(self, sighting: Sighting) -> None:
        for node, held in self._current.items():
            newer = sighting.view.epoch > held.epoch
            awake = self._world.slots[node].paused_until <= sighting.at
            led = held.coordinator == node and awake and self._polite_to_leaders
            judged = self._polite or led
            if judged and newer and sighting.view.member(node) != held.member(node):
                text = f"{node} is current in view {held.epoch} while {sighting.view} is without it"
                raise Broken(text, node)

    def _check_lead(self, at: Instant, node: NodeId, *, leads: bool) -> None:
        if not leads:
            self._leading.pop(node, None)
            return
        for other in self._leading:
            awake = self._world.slots[other].paused_until <= at
            if other != node and awake and self._polite_to_leaders:
                raise Broken(f"{node} leads while {other} goes by it that it does", node)
        self._leading[node] = None

    # --- at the end -------------------------------------------------------------------------------

    def unsettled(self, world: World) -> str:
        """At rest when all are current in one view of exactly them, and all calls answered."""
        views = []
        for node in self._scenario.nodes:
            if world.slots[node].node is None:
                return f"{node} does not run"
            if node not in self._current:
                return f"{node} is not current"
            views.append(self._current[node])
        if any(view != views[0] for view in views):
            return f"{self._scenario.nodes[0]} and others are current in different views"
        names = tuple(one.id for one in views[0].members)
        if names != tuple(sorted(self._scenario.nodes)):
            return f"{self._scenario.nodes[0]} sees {views[0]}"
        return self._clients.waiting()

    def judge(self, world: World) -> None:
        """The same again from the recorded history alone, by those who judge any history."""
        del world
        history = History.of(
            Operation(
                process=seen.node,
                kind=Kind.VIEW,
                values=(str(seen.view),),
                called=seen.at,
                returned=seen.at,
                position=seen.view.epoch,
            )
            for seen in self._sightings
        )
        verdict = combine([check_view_agreement(history), check_view_monotony(history)])
        if isinstance(verdict, Invalid):
            raise Broken(str(verdict), verdict.example[-1].process)
