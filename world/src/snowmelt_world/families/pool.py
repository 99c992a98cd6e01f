"""The pool family's life: processes that come and go, and the nodes that introduce them.

The first slots of the world are the cluster, each with membership and an introducer; all others are
processes of one pool, so that every fault meets both kinds. A process lives many lives under its
slot's name, each with its own settings and roles; besides the faults it is killed, or leaves in
order, of its own accord. What its program does stands in `pool_users.py`, what may never be seen in
`pool_ledger.py`, and what whoever runs it tells it in `pool_ways.py`.
"""

from functools import partial
from random import Random
from typing import Any, Final

from msgspec import structs

from snowmelt.core.instant import Duration, Instant, later, seconds, spelled
from snowmelt.core.names import NodeId, contact
from snowmelt.core.node import Announce, Announced, Node, Reply
from snowmelt.core.record import Damaged
from snowmelt.protocols.host import Family, Host
from snowmelt.protocols.pool import introductions
from snowmelt.protocols.pool.calls import Acquaintances, Ahead, ListensAt
from snowmelt.protocols.pool.introducer import Introducer
from snowmelt.protocols.pool.messages import ObjectsLent, Request
from snowmelt.protocols.pool.peer import TAKEN, PoolPeer
from snowmelt.protocols.pool.settings import Delivery, PoolSettings
from snowmelt_world.disk import Ending
from snowmelt_world.families.membership import SETTINGS, address, member
from snowmelt_world.families.pool_excuses import AllowedLosses
from snowmelt_world.families.pool_idling import LOOK_EVERY as IDLING_EVERY
from snowmelt_world.families.pool_idling import Idling, slow_of, stops_of
from snowmelt_world.families.pool_ledger import Ledger, Part
from snowmelt_world.families.pool_links import Links
from snowmelt_world.families.pool_load import LEASE_MAX, LEAVING, load_of, settings_of
from snowmelt_world.families.pool_releasing import Releasing
from snowmelt_world.families.pool_users import IDLE, LOOK_EVERY, PACE, POOL, Program, Stage
from snowmelt_world.families.pool_ways import Herald, Ways
from snowmelt_world.faults import TornRecord
from snowmelt_world.injuries import schedule
from snowmelt_world.life import FamilyLife, Tally
from snowmelt_world.planted import planted
from snowmelt_world.scenario import Scenario
from snowmelt_world.world import Broken, World

TOGETHER: Final = seconds(12)
LINGERS: Final = seconds(5)
"""The longest that a process goes on that has left."""
CALM_SHARE: Final = 0.7
"""Of the lives without faults, so many are wholly calm."""
UNUSED: Final = (None, None, seconds(1), seconds(3))
"""After how long a link that nobody needs ends, where it does."""
SLOW_PACE: Final = seconds(15)
CALM_AFTER: Final = Instant(seconds(12))
"""When everybody has been introduced to everybody."""
BYTES_MAX: Final = 1 << 40
ROLES: Final = ((True, 0), (True, 0), (False, 1), (False, 2), (True, 1))
"""Whether a process makes objects, and how many gets at a time it has open."""
ROLES_WHEN_CALM: Final = ((True, 0), (True, 0), (True, 0), (False, 1))
ROLES_OF_IDLERS: Final = ((True, 0), (False, 1))


class PoolLife(FamilyLife):
    """One to three nodes that introduce, and two to eight processes."""

    name = "pool"

    def __init__(self, scenario: Scenario, chance: Random) -> None:
        super().__init__(scenario, chance)
        count = min(chance.choice((1, 1, 2, 3)), len(scenario.nodes) - 2)
        self._nodes, self._peers = scenario.nodes[:count], scenario.nodes[count:]
        self._torn = [one.node for one in scenario.faults if isinstance(one, TornRecord)]
        self._deliveries = chance.choice(
            (
                (Delivery.AT_LEAST_ONCE,),
                (Delivery.AT_LEAST_ONCE,),
                (Delivery.AT_LEAST_ONCE,),
                (Delivery.AT_MOST_ONCE,),
                tuple(Delivery),
            )
        )
        self._spills = {one: chance.random() < 0.35 for one in self._peers}
        self._restless = chance.choice((0.0, 0.4, 0.8))
        """How likely it is that a process ends of its own accord."""
        self._leavers = chance.choice((0.0, 0.5, 1.0))
        """How likely it is that one that does so leaves in order."""
        self._drawn: dict[NodeId, PoolSettings] = {}
        self._programs: dict[NodeId, Program] = {}
        load = self._load = load_of(self._dice("load"), scenario.theme)
        self._deliveries = load.deliveries or self._deliveries
        self._restless = self._restless if load.restless is None else load.restless
        self._leavers = self._leavers if load.leavers is None else load.leavers
        faults = (*scenario.faults, *scenario.weather)
        who = self._dice("stops"), self._nodes, self._peers
        only = load.stops and not faults
        self._stops = stops_of(*who, CALM_AFTER, scenario.faults_end) if only else ()
        faults += self._stops
        self._excuses = AllowedLosses(faults, Duration(load.lease + load.slow))
        self._ledger = Ledger(self._excuses)
        self._slow = slow_of(self._dice("slow"), self._peers) if only else {}
        slow = tuple(self._slow.values())
        self._idling = Idling(self._stops, slow, scenario.style, self._ledger)

    @property
    def bound(self) -> Duration:
        """How long after the last fault it may take; `lives.md` says what adds up to it."""
        members = SETTINGS.patience + SETTINGS.lease
        return Duration(members + LEAVING + 4 * LEASE_MAX + seconds(21))

    # --- who is there -----------------------------------------------------------------------------

    def populate(self, world: World) -> None:
        """The nodes first, the processes at their own time."""
        self._world = world
        dice = self._dice("calm")
        none = not (self._scenario.faults or self._scenario.weather)
        calm = bool(self._stops) or (none and dice.random() < CALM_SHARE)
        breaks = self._chance.choice((0, 0, 3, 10))
        if calm:
            breaks, self._restless = 0, 0.0
        if calm:  # whom the network keeps apart do not find each other's objects
            self._load = structs.replace(self._load, apart=0.0, failing=0.0)
        pace = dice.choice((PACE, SLOW_PACE)) if calm else PACE
        self._stage = Stage(world, self._ledger, self._left, calm, pace, self._load)
        self._ledger.calm = calm and not self._stops
        who = world, self._peers, self._nodes, self._dice("ways")
        end, unused = self._scenario.faults_end, self._dice("unused").choice(UNUSED)
        if not self._load.links:
            self._ways = Ways(*who)
        elif unused:
            self._ways = Releasing(*who, self._load, end, unused)
        else:
            self._ways = Links(*who, self._load, end)
        self._excuses.breaks = self._ways.breaks
        for node in self._nodes:
            world.add(node, partial(self._node, node), address(node))
            world.start(node)
        for peer in self._peers:
            slot = world.add(peer, partial(self._peer, peer), address(peer))
            slot.slowness = self._slow.get(peer, Duration(0))
            world.at(self._sometime(seconds(5)), world.start, peer)
        for _ in range(breaks):
            world.at(self._sometime(self._scenario.faults_end), self._ways.break_some)
        for _ in range(20):
            world.at(self._sometime(self._scenario.faults_end), self._meddle)
        world.at(self._scenario.faults_end, self._drain)
        schedule(world, self._stops)
        idlers = self._look_at_idlers, IDLING_EVERY
        look, every = idlers if self._stops else (self._look_round, LOOK_EVERY)
        if calm:
            for at in range(CALM_AFTER, self._scenario.faults_end, every):
                world.at(Instant(at), look)

    def _node(self, node: NodeId, chance: Random) -> Node[Any]:
        founder = self._nodes[0]
        introducer = Family("pool", Introducer(node, chance), introductions.MESSAGES, fenced=True)
        contacts = () if node == founder else (founder,)
        decided_by = self._scenario.coordinator
        process = member(node, contacts, chance, introducer, coordinator=decided_by)
        return planted(self._scenario.bug, process)

    def _peer(self, peer: NodeId, chance: Random) -> Node[Any]:
        dice = self._dice(f"settings/{peer}/{self._world.slots[peer].life}")
        for_ever = dice.random() < self._load.for_ever
        deliveries = () if self._spills[peer] else self._deliveries
        settings = settings_of(self._chance, peer, self._peers, deliveries, for_ever=for_ever)
        self._drawn[peer] = settings
        contacts = tuple(contact(address(one)) for one in self._nodes)
        machine = PoolPeer(peer, POOL, settings, chance, contacts, str(peer))
        host = Host(peer, [Family("pool", machine, TAKEN)])
        losses = 0.0 if self._stage.calm else self._load.losses
        dice = self._dice(f"herald/{peer}")
        herald = Herald(host, peer, self._ways, losses, self._load.slow, self._sent, dice)
        return planted(self._scenario.bug, herald)

    # --- lives begin and end ----------------------------------------------------------------------

    def started(self, at: Instant, node: NodeId) -> None:
        """A process begins, and its program with it."""
        if node not in self._peers:
            return
        self._look_at_disk(node)
        life = self._world.slots[node].life
        part = Part(f"{node}.{life}", node, self._drawn[node])
        self._ledger.began(part)
        chance = self._dice(f"{node}/{life}")
        # In calm lives many make and few take: so it is seen when one who takes is idle.
        roles = ROLES_WHEN_CALM if self._stage.calm else ROLES
        makes, takers = chance.choice(ROLES_OF_IDLERS if self._stops else roles)
        program = Program(self._stage, part, chance, makes=makes, takers=takers)
        self._programs[node] = program
        self._world.at(at, self._listens, program, life)
        if chance.random() < self._restless and not self._stage.draining:
            wait = Duration(chance.randrange(seconds(1), seconds(30)))
            if self._load.together:
                soon = -(at + wait) % TOGETHER
                wait = Duration(wait + soon + chance.randrange(seconds(2)))
            self._world.at(later(at, wait), self._ends, program, chance)

    def _listens(self, program: Program, life: int) -> None:
        node = program.part.node
        if self._world.slots[node].life == life and program.part.ended_at is None:
            self._world.give(node, Announced(ListensAt(address(node))))
            self._ways.began(node)
            program.begin()

    def _ends(self, program: Program, chance: Random) -> None:
        if program.part.ended_at is not None or self._stage.draining:
            return
        if chance.random() < self._leavers:
            program.leave_soon()
        else:
            self._stop(program.part.node, chance.choice(tuple(Ending)))

    def _left(self, part: Part) -> None:
        """It has left in order, and its process ends; another begins there."""
        at = self._world.now
        if self._load.lingers:  # what it has said is not sent yet, or so its runtime believes
            dice = self._dice(f"lingers/{part.name}")
            at = later(at, Duration(dice.randrange(LINGERS)))
        self._world.at(at, self._stop_if, part)

    def _stop_if(self, part: Part) -> None:
        if part.ended_at is None:
            self._stop(part.node, Ending.CRASH)

    def _stop(self, node: NodeId, ending: Ending) -> None:
        """The process ends, and some time later another begins there."""
        world, slot = self._world, self._world.slots[node]
        slot.wanted = False
        world.stop(node, ending)

        def begin() -> None:
            slot.wanted = True
            world.start(node)

        wait = seconds(1) if self._stage.draining else Duration(self._chance.randrange(seconds(8)))
        world.at(later(world.now, wait), begin)

    def ended(self, at: Instant, node: NodeId) -> None:
        program = self._programs.get(node)
        if program is not None and program.part.ended_at is None:
            program.part.ended_at = at
            program.end()
            self._ways.ended(node)

    def _sent(self, by: NodeId, to: NodeId, message: ObjectsLent | Request) -> None:
        receiver = self._programs.get(to)
        if isinstance(message, Request):
            self._ledger.asks(message)
        elif receiver is not None:
            self._ledger.gives(self._programs[by].part, receiver.part, message, self._world.now)

    # --- what is seen -----------------------------------------------------------------------------

    def replied(self, at: Instant, node: NodeId, effect: Reply[Any]) -> None:
        del at
        program = self._programs.get(node)
        if program is not None:
            program.engine.answered(effect.operation, effect.message)

    def damaged(self, at: Instant, node: NodeId, key: bytes) -> None:
        del at, key
        self._ledger.hurt[node] = None

    def _look_at_disk(self, node: NodeId) -> None:
        """A write that was torn may have hurt a record that was good."""
        disk = self._world.slots[node].disk
        if node in self._torn or self._spills[node]:
            bulk = disk.scan(b"~pool/", b"~pool0", BYTES_MAX)
            if disk.start().damaged or any(isinstance(one, Damaged) for one in bulk):
                self._ledger.hurt[node] = None

    # --- at the end -------------------------------------------------------------------------------

    def _meddle(self) -> None:
        program = self._programs.get(self._chance.choice(self._peers))
        if program is not None and program.part.ended_at is None:
            if self._chance.random() < 0.5:
                program.interrupt()
            elif not program.leaving:
                program.look_once()

    def announced(self, at: Instant, node: NodeId, effect: Announce) -> None:
        """A process hears whom it may probe, and of places for what it puts next."""
        if isinstance(effect.fact, Acquaintances):
            self._idling.acquainted(node, effect.fact.wanted, at)
        program = self._programs.get(node)
        if isinstance(effect.fact, Ahead) and program is not None:
            program.engine.places.told(effect.fact)

    def _look_at_idlers(self) -> None:
        self._idling.look(self._running(), self._world.now)

    def _look_round(self) -> None:
        """In calm times nobody is idle beside a producer that has objects."""
        now, running = self._world.now, self._running()
        full = next((one for one in running if one.has_long_had(now)), None)
        idle = next((one for one in running if one.waits_long(now)), None)
        long_ago = Instant(now - 2 * IDLE)
        late = self._ledger.idle_since(long_ago, self._load.slow) if idle is not None else None
        if idle is not None and late is not None:
            text = f"{idle.part.name} is idle, and for {spelled(Duration(2 * IDLE))} nobody got"
            raise Broken(f"{text} {late.value.rstrip('.')}", idle.part.node)
        if full is not None and idle is not None:
            text = f"{idle.part.name} is idle, and {full.part.name} has objects"
            raise Broken(text, idle.part.node)

    def _drain(self) -> None:
        self._stage.draining = True
        for program in self._running():
            program.drain()

    def _running(self) -> list[Program]:
        return [one for one in self._programs.values() if one.part.ended_at is None]

    def unsettled(self, world: World) -> str:
        """At rest when all run, nobody has anything left, and all calls are answered."""
        if down := self._down(world):
            return down
        running = self._running()
        for program in running:
            if program.leaving:
                return f"{program.part.node} still leaves"
            if program.empty_looks < 2:
                return f"{program.part.node} has objects still"
        self._stage.over = True
        return next((one.waiting for one in running if one.waiting), "")

    @property
    def tally(self) -> Tally:
        return Tally(self._ledger.calls, self._ledger.excused)

    def judge(self, world: World) -> None:
        del world
        self._ledger.judge()
