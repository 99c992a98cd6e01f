"""The priority family's life: queues under load, every fault there is, joins, leaves, lost disks.

Each node is a whole process: membership and priority in one host. How much is asked is in
`priority_load.py`; what those do who put and get, by the steps that ship, in `priority_programs.py`
and `priority_clients.py` (and `programs.py`, `consumers.py`, `loops.py`, which fifos have, too);
who looks, and who ends it all, in `priority_steward.py`, when nodes were lost once more, in
`priority_exam.py`; what may never be seen, and what is excused, in `sim/judge`, told in the words
of `priority_words.py`.
"""

from random import Random
from typing import Any, Final

from msgspec.structs import replace

from snowmelt.core.instant import Duration, Instant, seconds
from snowmelt.core.names import NodeId, contact
from snowmelt.core.node import Announce, Announced, Node, Reply
from snowmelt.protocols import priority
from snowmelt.protocols.calling import Gone
from snowmelt.protocols.host import Family
from snowmelt.protocols.membership import Departed, View
from snowmelt.protocols.priority import PriorityNode
from snowmelt.sim.families.fifo_actors import PATIENCE, Phase, Stage
from snowmelt.sim.families.membership import SETTINGS, address, member
from snowmelt.sim.families.operators import Departures, Operators
from snowmelt.sim.families.priority_clients import Consumer, Looper, Producer
from snowmelt.sim.families.priority_exam import Exam
from snowmelt.sim.families.priority_load import any_priorities, load_of, settings_of
from snowmelt.sim.families.priority_planted import machine
from snowmelt.sim.families.priority_programs import Program
from snowmelt.sim.families.priority_steward import Looker, Steward
from snowmelt.sim.families.priority_words import Ledger
from snowmelt.sim.families.programs import in_reach
from snowmelt.sim.faults import (
    ClockJump,
    Duplication,
    FlippedBit,
    LostDisk,
    OlderDisk,
    Suspend,
    TornRecord,
    WallClock,
)
from snowmelt.sim.judge.copies import Excuses
from snowmelt.sim.judge.urgency import Lost
from snowmelt.sim.judge.urgency_end import judge
from snowmelt.sim.life import FamilyLife, Tally
from snowmelt.sim.planted import Bug, planted
from snowmelt.sim.scenario import DISK, Scenario
from snowmelt.sim.world import World

OTHERS_SHARE: Final = 0.25
"""In how many lives some who use a queue want another lease than the others."""
EMBEDDED_SHARE: Final = 0.5
"""In how many lives of one node all who use it are in its own process."""
LOOPS_SHARE: Final = 0.4
"""How many consumers loop."""


def process(
    node: NodeId,
    founder: NodeId,
    chance: Random,
    queues: PriorityNode,
    coordinator: str = DISK,
    *,
    believed: bool = False,
) -> Node[Any]:
    """One process of a simulated cluster with priority queues."""
    family = Family("priority", queues, priority.MESSAGES, fenced=believed)
    contacts = () if node == founder else (founder,)
    return member(node, contacts, chance, family, coordinator=coordinator)


class PriorityLife(FamilyLife):
    """One to nine nodes, one or two queues, and those who use them."""

    name = "priority"

    def __init__(self, scenario: Scenario, chance: Random) -> None:
        super().__init__(scenario, chance)
        faults = scenario.faults
        self._load = load_of(chance, scenario.theme)
        self._excuses = Excuses(scenario.nodes)
        leaps = tuple(one.at for one in faults if isinstance(one, ClockJump))
        early = sum(abs(one.by) for one in faults if isinstance(one, ClockJump | WallClock))
        early += sum(one.until - one.at for one in faults if isinstance(one, Suspend))
        hurt = {one.node for one in faults if isinstance(one, OlderDisk | LostDisk)}
        hurt |= {one.node for one in faults if isinstance(one, FlippedBit | TornRecord)}
        self._wrong_dates = any(isinstance(one, WallClock) for one in faults)
        self._ledgers: list[Ledger] = []
        for number in range(1, self._load.queues + 1):
            name = f"q{number}"
            settings = settings_of(chance, self._load, name, len(scenario.nodes), len(hurt))
            settings = in_reach(settings, scenario.style, 16)
            if scenario.protocol == "seap":
                settings = any_priorities(chance, self._load, settings)
            ledger = Ledger(settings, self._excuses, self._load.limits.block, early=early)
            ledger.leaps = leaps
            if Random(f"{scenario.seed}/{name}/others").random() < OTHERS_SHARE:
                ledger.others = (replace(settings, lease=Duration(settings.lease * 3 // 2)),)
            self._ledgers.append(ledger)
        for ledger in self._ledgers:
            ledger.narrow = self._load.narrow
        one = self._load.theme == "alone" and scenario.coordinator == DISK
        self._embedded = one and self._dice("embedded").random() < EMBEDDED_SHARE
        self._exam = Exam(scenario, self._excuses, self._ledgers)

    @property
    def bound(self) -> Duration:
        """What membership takes, twice; what clients wait; and to drain what is leased and held.

        Where all that is got is selected, from samples as small as can be, that takes longer.
        """
        members = SETTINGS.patience + SETTINGS.lease
        lease = max(each.lease for one in self._ledgers for each in (one.settings, *one.others))
        slow = seconds(120) if self._scenario.protocol == "seap" else 0
        slow += self._exam.losses.bound
        return Duration(
            2 * members + 2 * (PATIENCE + self._load.patience) + 6 * lease + seconds(30) + slow
        )

    # --- who is there -----------------------------------------------------------------------------

    def populate(self, world: World) -> None:
        """The founder first, most of the others soon after; then who uses the queues."""
        self._world = world
        scenario, chance, nodes = self._scenario, self._chance, self._scenario.nodes
        duplicates = any(isinstance(one, Duplication) for one in scenario.faults)
        targets = [contact(address(node)) for node in nodes]
        self._stage = Stage(world, targets, duplicates, actors={})
        disk = scenario.coordinator == DISK
        end = scenario.faults_end
        self._departures = Departures(world, chance, self._load.away, end)
        self._operators = Operators(world, nodes, nodes[0] if disk else None)
        for node in nodes:
            self._add_node(world, node)
            late = chance.random() < self._load.newcomers
            begin = chance.randrange(scenario.faults_end if late else seconds(2))
            world.at(Instant(0 if node == nodes[0] else begin), world.start, node)
        for _ in range(self._load.leaves if len(nodes) > 1 else 0):
            world.at(self._sometime(end), self._departures.leave, chance.choice(nodes[1:]))
        self._producers = [self._producer(number) for number in range(self._load.producers)]
        for number in range(self._load.consumers):
            ledger = self._ledgers[number % len(self._ledgers)]
            name = f"k{number + 1}"
            kind = Looper if self._dice(f"kind {name}").random() < LOOPS_SHARE else Consumer
            consumer = kind(self._stage, name, self._dice(name), ledger, self._load)
            consumer.delays = not self._wrong_dates
            world.at(self._sometime(self._load.idle), consumer.begin)
        if scenario.protocol == "seap":
            self._breaks(Random(f"{scenario.seed}/breaks"))
        self._stewards: list[Steward] = []
        for number, ledger in enumerate(self._ledgers, start=1):
            dice = self._dice(f"l{number}")
            looker = Looker(self._stage, f"l{number}", dice, ledger, self._load)
            looker.begin([self._sometime(scenario.faults_end) for _ in range(8)])
            steward = Steward(self._stage, f"s{number}", dice, ledger, self._load)
            steward.exam = self._exam
            self._stewards.append(steward)
            world.at(scenario.faults_end, steward.rest)
            steward.producers = self._producers

    def _add_node(self, world: World, node: NodeId) -> None:
        founder, bug = self._scenario.nodes[0], self._scenario.bug
        limits, decided_by = self._load.limits, self._scenario.coordinator

        def build(chance: Random) -> Node[Any]:
            disk, believed = decided_by == DISK, bug is Bug.HINT_BELIEVED
            queues = machine(bug, node, chance, limits, alone=self._embedded, on_disk=disk)
            whole = process(node, founder, chance, queues, decided_by, believed=believed)
            return planted(bug, whole)

        world.add(node, build, address(node))

    def _producer(self, number: int) -> Producer:
        ledger = self._ledgers[number % len(self._ledgers)]
        most = self._chance.randint(2, self._load.puts)
        times = sorted(self._sometime(self._scenario.faults_end) for _ in range(most))
        name = f"p{number + 1}"
        producer = Producer(self._stage, name, self._dice(name), ledger, self._load, times)
        producer.delays = not self._wrong_dates
        self._world.at(self._sometime(seconds(5)), producer.begin)
        return producer

    def _breaks(self, dice: Random) -> None:
        """In some lives connections of consumers end: a node hears that one is gone."""
        if dice.random() < 0.15:
            for _ in range(6):
                node = dice.choice(self._scenario.nodes)
                client = NodeId(f"k{1 + dice.randrange(self._load.consumers)}")
                at = Instant(dice.randrange(self._scenario.faults_end))
                self._world.at(at, self._gone, node, client)

    def _gone(self, node: NodeId, client: NodeId) -> None:
        """It gives back what it got for it, though that may ask for it again."""
        if self._world.slots[node].node is not None:
            now = self._world.now
            begun = Instant(max(0, now - PATIENCE - self._load.patience))
            for ledger in self._ledgers:
                ledger.lost_gets.append(Lost(client, begun, now, light=True))
            self._world.give(node, Announced(Gone(client)))

    # --- what happens -----------------------------------------------------------------------------

    def announced(self, at: Instant, node: NodeId, effect: Announce) -> None:
        if isinstance(effect.fact, View):
            view = effect.fact
            members = tuple([one.id for one in view.members])
            self._excuses.viewed(at, node, view.epoch, members, view.mark)

    def replied(self, at: Instant, node: NodeId, effect: Reply[Any]) -> None:
        """A client has an outcome; or a node has left, or its id is free."""
        if self._operators.answered(node, effect.message):
            return
        actor = self._stage.actors.get(node)
        if actor is not None:
            if self._excuses.over is None:
                actor.answered(effect.operation, effect.message, at)
        elif isinstance(effect.message, Departed):
            self._departures.left(at, node)

    def ended(self, at: Instant, node: NodeId) -> None:
        """With a process those end who are in it."""
        del at
        if self._embedded and node in self._scenario.nodes:
            for actor in self._stage.actors.values():
                if isinstance(actor, Program):
                    actor.fall()

    def disk_lost(self, at: Instant, node: NodeId) -> None:
        """What it kept is gone; its operator frees its id."""
        whole = self._stage.phase is not Phase.LOAD
        self._excuses.hurt(node, at, "disk lost", whole=whole)
        if node in self._exam.losses.gone:
            self._excuses.gone(node)
            self._operators.gone(node)
            return
        self._operators.disk_lost(at, node)
        if self._operators.over:
            self._excuses.over = at

    def set_back(self, at: Instant, node: NodeId, taken: Instant) -> None:
        self._excuses.hurt(node, at, "older disk", taken)
        if self._operators.set_back(at, node, taken):
            self._excuses.renumbered(at, taken, node)
        if self._operators.over:
            self._excuses.over = at

    def halted(self, at: Instant, node: NodeId, reason: str) -> None:
        del at
        self._operators.halted(node, reason)

    def damaged(self, at: Instant, node: NodeId, key: bytes) -> None:
        if b"priority/" in key:
            self._excuses.hurt(node, at, "record damaged")

    def started(self, at: Instant, node: NodeId) -> None:
        """A process begins; what it can't read now it does not know from here on."""
        if node in self._scenario.nodes:
            for key in self._world.slots[node].disk.start().damaged:
                self.damaged(at, node, key)

    # --- at the end -------------------------------------------------------------------------------

    @property
    def tally(self) -> Tally:
        tally = Tally.of(self._ledgers)
        if self._excuses.over is None:
            return tally
        return Tally(tally.calls, {"coordinator's disk lost": tally.calls})

    def unsettled(self, world: World) -> str:
        """At rest when all run, every queue is drained, and all are answered."""
        if self._excuses.over is not None:
            return ""
        if down := self._down(world, self._exam.losses.gone):
            return down
        for ledger in self._ledgers:
            if ledger.drained is None:
                return f"{ledger.queue} is not empty yet"
        return next((one.waiting for one in self._stage.actors.values() if one.waiting), "")

    def judge(self, world: World) -> None:
        del world
        for ledger in self._ledgers:
            judge(ledger)
