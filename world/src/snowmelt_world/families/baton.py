"""The baton family's life: locks that are fought for, while nodes, links and holders fail.

Each node is a whole process: membership, and the tree and the batons on it. What those who want the
batons do stands in `baton_users.py`, what may never be seen in `baton_ledger.py`. At the end an
inspector asks every node what it has, until there is one token of each baton.
"""

from collections.abc import Sequence
from functools import partial
from random import Random
from typing import Any, Final

import msgspec

from snowmelt.client.baton.steps import MemberAnswer, sights
from snowmelt.client.counter.state import counter_baton
from snowmelt.core.errors import SnowmeltError
from snowmelt.core.instant import Duration, Instant, later, milliseconds, seconds
from snowmelt.core.names import NodeId, OperationId, contact
from snowmelt.core.node import Announce, Announced, Effect, Event, Node, Received, Reply, Send
from snowmelt.protocols import baton
from snowmelt.protocols.baton import calls
from snowmelt.protocols.baton.settings import BatonSettings
from snowmelt.protocols.calling import Answer, Call, Gone
from snowmelt.protocols.membership import CutOff, Depart, Departed
from snowmelt_world.families.baton_callers import Carrier, Counting
from snowmelt_world.families.baton_excuses import AllowedLosses
from snowmelt_world.families.baton_ledger import Ledger
from snowmelt_world.families.baton_load import USERS_MAX, load_of
from snowmelt_world.families.baton_numbers import Numbers
from snowmelt_world.families.baton_users import Caller, Client, Stage
from snowmelt_world.families.membership import SETTINGS, address, member
from snowmelt_world.families.operators import Operators
from snowmelt_world.faults import Partition
from snowmelt_world.life import FamilyLife, Tally
from snowmelt_world.planted import planted
from snowmelt_world.scenario import ETCD_DECIDES, Scenario
from snowmelt_world.world import World

BATON: Final = BatonSettings()
CALM_AFTER: Final = seconds(12)
"""When everybody has joined, and the tree has grown."""
TOLD: Final = 0.7
"""How likely a node is to see that the connection of a process that died has ended."""
LEAVERS: Final = 0.2
"""In so many lives a node leaves in order."""
LEAVE: Final = seconds(20)
HERE: Final = ("held", "idle", "moving")


class BatonLife(FamilyLife):
    """Three to seven nodes, one to three batons, and four to ten users."""

    name = "baton"

    def __init__(self, scenario: Scenario, chance: Random) -> None:
        super().__init__(scenario, chance)
        self._etcd = scenario.coordinator == ETCD_DECIDES
        self._breaks = chance.choice((0, 0, 0, 8))
        self._leavers = chance.sample(scenario.nodes[1:], int(chance.random() < LEAVERS))
        self._excuses = AllowedLosses((*scenario.faults, *scenario.weather))
        self._load = load_of(self._dice("awake"), scenario.theme)
        self._ledgers = {
            f"b{number}": Ledger(f"b{number}", self._excuses)
            for number in range(1, chance.choice(self._load.batons) + 1)
        }
        self._counts: dict[int, bool] = {}
        """Which seats are taken by those who come besides, and whether they count."""
        self._numbers: dict[str, Numbers] = {}
        self._users: dict[NodeId, Caller] = {}
        """Whoever lives."""
        self._lives = 0
        self._settings = msgspec.structs.replace(BATON, awake=self._load.awake)

    @property
    def bound(self) -> Duration:
        """How long after the last fault it may take; `lives.md` says what adds up to it."""
        members = SETTINGS.patience + SETTINGS.lease
        return Duration(members + 3 * BATON.lease + seconds(USERS_MAX + self._load.callers[1]))

    # --- who is there -----------------------------------------------------------------------------

    def populate(self, world: World) -> None:
        self._world = world
        chance, nodes, end = self._chance, self._scenario.nodes, self._scenario.faults_end
        self._stage = Stage(world, self._ledgers, self._died, self._load)
        self._operators = Operators(world, nodes, None if self._etcd else nodes[0])
        for node in nodes:
            world.add(node, partial(self._node, node), address(node))
            begin = 0 if node == nodes[0] else chance.randrange(seconds(2))
            world.at(Instant(begin), world.start, node)
        self._inspector = Inspector(self._stage, nodes, Random(f"{self._scenario.seed}/inspector"))
        users = chance.randint(*self._load.users)
        for number in range(users):
            world.at(self._sometime(seconds(5)), self._sit, number)
        dice = self._dice("callers")
        callers = dice.randint(*self._load.callers)
        for number in range(users, users + callers):
            self._counts[number] = dice.random() < self._load.counts
            world.at(Instant(dice.randrange(seconds(5))), self._sit, number)
        self._seats = users + callers
        for _ in range(self._breaks):
            world.at(self._sometime(end), self._break)
        for fault in self._scenario.faults:
            if isinstance(fault, Partition):
                world.at(later(fault.at, Duration(1)), self._widen, fault)
        world.at(end, self._drain)
        for node in self._leavers:
            world.request(node, OperationId(node, 1), Depart(), self._sometime(end))
        # A find that is overtaken falls, and its place is asked for anew: then it stands later.
        calm = not (
            self._leavers or self._scenario.faults or self._scenario.weather or self._breaks
        )
        if calm and self._scenario.style.in_order:
            for ledger in self._ledgers.values():
                ledger.ordered_from = Instant(CALM_AFTER)

    def _node(self, node: NodeId, chance: Random) -> Node[Any]:
        founder = self._scenario.nodes[0]
        families = baton.families(node, self._settings, chance, etcd=self._etcd)
        contacts = () if node == founder else (founder,)
        decided_by = self._scenario.coordinator
        process = member(node, contacts, chance, *families, coordinator=decided_by)
        return Witness(planted(self._scenario.bug, process), self._stage)

    def _sit(self, number: int) -> None:
        self._lives += 1
        names = [name for name in sorted(self._ledgers) if name not in self._numbers]
        ledger = self._ledgers[names[number % len(names)]]
        name = f"u{number + 1}.{self._lives}"
        dice, will = self._dice(name), self._dice(f"{name}/will")
        nodes = dice.sample(self._scenario.nodes, dice.randint(1, 3))
        user: Caller
        if self._counts.get(number):
            user = Counting(self._stage, name, nodes, will, self._counter("c1"))
        else:
            user = Carrier(self._stage, name, nodes, will, ledger)
        self._users[user.name] = user

    def _counter(self, name: str) -> Numbers:
        baton = counter_baton(name)
        if baton not in self._numbers:
            ledger = self._ledgers[baton] = Ledger(baton, self._excuses)
            self._numbers[baton] = Numbers(ledger)
        return self._numbers[baton]

    # --- processes die, connections break ---------------------------------------------------------

    def _died(self, user: Client) -> None:
        """Its connections end, which most nodes see; and somebody else takes its seat."""
        del self._users[user.name]
        for node in self._scenario.nodes:
            if self._chance.random() < TOLD:
                wait = Duration(self._chance.randrange(milliseconds(200)))
                self._world.at(later(self._world.now, wait), self._tell_gone, node, user.name)
        number = int(user.name[1:].split(".")[0]) - 1
        wait = Duration(self._chance.randrange(seconds(4)))
        self._world.at(later(self._world.now, wait), self._sit, number)

    def _break(self) -> None:
        holders = [user for user in self._users.values() if user.place is not None]
        if not holders:
            return
        user = self._chance.choice(holders)
        place = user.place
        assert place is not None
        node = next(one for one in self._scenario.nodes if contact(address(one)) == place)
        self._tell_gone(node, user.name)
        user.lose(place)

    def _widen(self, cut: Partition) -> None:
        """Users stand on both sides of a cut: each where it asks first."""
        network = self._world.network
        there = [user.name for user in self._users.values() if user.nodes[0] in cut.side]
        wide = msgspec.structs.replace(cut, side=(*cut.side, *there))
        network.end(cut)
        network.begin(wide)
        self._world.at(cut.until, network.end, wide)

    def _tell_gone(self, node: NodeId, client: NodeId) -> None:
        if self._world.slots[node].node is not None:
            self._world.give(node, Announced(Gone(client)))

    def _drain(self) -> None:
        self._stage.draining = True

    # --- what is seen -----------------------------------------------------------------------------

    def replied(self, at: Instant, node: NodeId, effect: Reply[Any]) -> None:
        """A client has an outcome; or a node has left: its operator stops and restarts it."""
        if self._operators.over or self._operators.answered(node, effect.message):
            return
        if isinstance(effect.message, Departed):
            world = self._world
            world.at(at, world.stop, node)
            world.at(later(at, Duration(self._chance.randrange(LEAVE))), world.start, node)
            return
        client = self._users.get(node)
        if client is not None:
            client.answered(effect.operation, effect.message, at)
        elif node == self._inspector.name:
            self._inspector.answered(effect.operation, effect.message, at)

    def announced(self, at: Instant, node: NodeId, effect: Announce) -> None:
        """A node that is cut off lets its tokens fall."""
        del node
        if isinstance(effect.fact, CutOff):
            self._excuses.shakes(at)

    def ended(self, at: Instant, node: NodeId) -> None:
        del node
        self._excuses.shakes(at)

    def started(self, at: Instant, node: NodeId) -> None:
        if node in self._scenario.nodes:
            self._excuses.begins(at)

    def halted(self, at: Instant, node: NodeId, reason: str) -> None:
        del at
        self._operators.halted(node, reason)

    def disk_lost(self, at: Instant, node: NodeId) -> None:
        self._operators.disk_lost(at, node)

    def set_back(self, at: Instant, node: NodeId, taken: Instant) -> None:
        if self._operators.set_back(at, node, taken):
            self._excuses.set_back(taken, at)

    # --- at the end -------------------------------------------------------------------------------

    def unsettled(self, world: World) -> str:
        """At rest when all run, everybody has had its turn, and there is one of each baton."""
        if self._operators.over:
            return ""
        if down := self._down(world):
            return down
        if len(self._users) < self._seats:
            return "somebody is not there again"
        for user in self._users.values():
            if user.busy:
                return user.busy
        wrong = self._inspector.findings()
        for name in self._inspector.nowhere:
            next(user for user in self._users.values() if user.ledger.name == name).again()
        return wrong

    @property
    def tally(self) -> Tally:
        return Tally.of(self._ledgers.values())

    def judge(self, world: World) -> None:
        for ledger in self._ledgers.values():
            ledger.judge()
            if self._load.brisk and not self._breaks:
                ledger.judge_waits(world.now)
        for numbers in self._numbers.values():
            numbers.judge()


class Witness:
    """A node of the cluster, seen by whoever writes down what it hears and grants."""

    def __init__(self, node: Node[Any], stage: Stage) -> None:
        self._node = node
        self._stage = stage
        self._granting: list[tuple[OperationId, calls.Granted]] = []

    def handle(self, event: Event[Any], now: Instant) -> list[Effect[Any]]:
        match event:
            case Received(client, Call(number, calls.Acquire())):
                self._stage.came(OperationId(client, number))
            case _:
                pass
        effects = self._node.handle(event, now)
        for effect in effects:
            match effect:
                case Send(client, Answer(number, calls.Granted() as granted)):
                    self._granting.append((OperationId(client, number), granted))
                case _:
                    pass
        return effects

    def check(self) -> None:
        """The node's own invariants, and whether it might grant what it did."""
        self._node.check()
        granting, self._granting = self._granting, []
        for operation, granted in granting:
            self._stage.granted(operation, granted)


class Inspector(Client):
    """Asks every node about every baton, until each is in one place.

    "When somebody waits [...] his node tells the coordinator, [...] and when nobody has it, a new
    one is made." So a baton that is lost after all had their turn is in no place; then somebody has
    to want it once more, and is to get it.
    """

    def __init__(self, stage: Stage, nodes: Sequence[NodeId], chance: Random) -> None:
        super().__init__(stage, "inspector", nodes, chance)
        self.nowhere: list[str] = []
        """What the last findings say is at no node; they are forgotten, for it is to be wanted."""
        self._seen: dict[str, dict[NodeId, str]] = {}

    def findings(self) -> str:
        """What is wrong, in words; asks again when something is."""
        self.nowhere = []
        if self.waiting:
            return self.waiting
        wrong = ""
        for name in self._wanted:
            answers = self._seen.get(name, {})
            here = [f"{node} ({state})" for node, state in answers.items() if state in HERE]
            if len(answers) < len(self.nodes):
                wrong = wrong or f"{self.name} has not seen everybody's part of {name}"
            elif len(here) != 1:
                wrong = wrong or f"{name} is at {', '.join(here) or 'no node'}"
                self.nowhere += [] if here else [name]
        if self.nowhere:
            self._seen = {}
        elif wrong:
            self._look_round()
        return wrong

    @property
    def _wanted(self) -> list[str]:
        return [name for name, ledger in self.stage.ledgers.items() if ledger.wanted]

    def _look_round(self) -> None:
        self._seen = {}
        for name in self._wanted:
            self.run(sights(name), partial(self._told, name))

    def _told(self, name: str, seen: list[MemberAnswer] | SnowmeltError) -> None:
        if not isinstance(seen, SnowmeltError):
            told = [one.status for one in seen if one.status is not None]
            self._seen[name] = {status.node: status.state for status in told}
