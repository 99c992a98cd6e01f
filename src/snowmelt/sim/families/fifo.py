"""The fifo family's life: queues of all kinds under load, every fault there is, and lost disks.

Each node is a whole process, as `runtime/server.py` makes it: membership and fifo in one host. What
producers, consumers and the steward do stands in `fifo_clients.py`, what may never be seen in
`fifo_ledger.py`.
"""

from random import Random
from typing import Any, Final

from snowmelt.core.instant import Duration, Instant, milliseconds, seconds
from snowmelt.core.names import NodeId, contact
from snowmelt.core.node import Node, Reply
from snowmelt.core.outcome import Outcome, Succeeded
from snowmelt.core.record import Damaged
from snowmelt.protocols import fifo
from snowmelt.protocols import membership as membership_
from snowmelt.protocols.fifo.settings import QueueSettings
from snowmelt.protocols.host import Family, Host
from snowmelt.protocols.membership import Forget, Identity, MembershipNode
from snowmelt.sim.disk import Disk
from snowmelt.sim.families.fifo_clients import (
    DELAY,
    PATIENCE,
    Actor,
    Consumer,
    Producer,
    Putter,
    Stage,
    Steward,
)
from snowmelt.sim.families.fifo_groups import Reader, Stager
from snowmelt.sim.families.fifo_ledger import Ledger
from snowmelt.sim.families.membership import SETTINGS, address
from snowmelt.sim.faults import ClockJump, Duplication, FullDisk, TornRecord
from snowmelt.sim.life import FamilyLife
from snowmelt.sim.planted import planted
from snowmelt.sim.scenario import Scenario
from snowmelt.sim.world import World

BATCHES_MAX: Final = 16
BYTES_MAX: Final = 1 << 40
GROUPS_SHARE: Final = 0.4


def process(node: NodeId, founder: NodeId, chance: Random) -> Node[Any]:
    """One process of a simulated cluster with queues."""
    contacts = () if node == founder else (contact(address(founder)),)
    identity = Identity(id=node, address=address(node), contacts=contacts)
    member = MembershipNode(identity, SETTINGS, chance)
    return Host(
        node,
        [
            Family("membership", member, membership_.MESSAGES),
            Family("fifo", fifo.FifoNode(node, chance), fifo.MESSAGES),
        ],
    )


class FifoLife(FamilyLife):
    """One to five nodes, one to three queues, and six to ten clients."""

    def __init__(self, scenario: Scenario, chance: Random) -> None:
        self._scenario = scenario
        self._chance = chance
        faults = scenario.faults
        leap = any(isinstance(one, ClockJump) for one in faults)
        self._torn = [one for one in faults if isinstance(one, TornRecord)]
        self._full = [one.node for one in faults if isinstance(one, FullDisk)]
        self._loses_disk = len(scenario.nodes) > 1 and chance.random() < 0.25
        self._ledgers = [
            Ledger(f"q{number}", self._settings(), clocks_leap=leap)
            for number in range(1, chance.randint(1, 3) + 1)
        ]

    def _settings(self) -> QueueSettings:
        chance = self._chance
        # Whose only keeper's disk is lost for ever is lost for ever, and that is no fault to find.
        least = 2 if self._loses_disk else 1
        replicas = chance.randint(least, min(3, len(self._scenario.nodes)))
        return QueueSettings(
            replicas=replicas,
            durable_copies=chance.choice((0, 0, chance.randint(1, replicas))),
            linger=chance.choice((Duration(0), Duration(0), milliseconds(50))),
            lease=Duration(chance.randrange(seconds(2), seconds(6))),
            deliveries_max=chance.choice((1_000, 1_000, 1_000, chance.randint(2, 3))),
            items_max=chance.choice((0, 0, 0, chance.randint(20, 60))),
            bytes_max=chance.choice((0, 0, 0, chance.randint(400, 2_000))),
        )

    @property
    def bound(self) -> Duration:
        """How long after the last fault it may take; docs/simulation.md says what adds up to it."""
        members = SETTINGS.patience + SETTINGS.lease
        clients = PATIENCE + DELAY
        return Duration(members + 2 * clients + seconds(16))

    # --- who is there -----------------------------------------------------------------------------

    def populate(self, world: World) -> None:
        """The founder first, the others soon after; then who uses the queues."""
        self._world = world
        scenario, chance, nodes = self._scenario, self._chance, self._scenario.nodes
        for node in nodes:
            self._add_node(world, node)
            begin = 0 if node == nodes[0] else chance.randrange(seconds(2))
            world.at(Instant(begin), world.start, node)
        duplicates = any(isinstance(one, Duplication) for one in scenario.faults)
        targets = [contact(address(node)) for node in nodes]
        self._stage = Stage(world, targets, duplicates, actors={})
        self._producers = [self._producer(number) for number in range(chance.randint(2, 4))]
        consumers = max(len(self._ledgers), chance.randint(2, 4))
        for number in range(consumers):
            ledger = self._ledgers[number % len(self._ledgers)]
            consumer = Consumer(self._stage, f"k{number + 1}", self._dice(f"k{number}"), ledger)
            world.at(self._sometime(seconds(5)), consumer.begin)
        putters: list[Putter] = [*self._producers, *self._add_groups(world)]
        self._steward = Steward(self._stage, self._dice("s"), self._ledgers, putters)
        self._steward.begin([self._sometime(scenario.faults_end) for _ in range(12)])
        world.at(scenario.faults_end, self._steward.rest)
        if self._loses_disk:
            self._lose_disk(chance.choice(nodes[1:]), self._sometime(scenario.faults_end))

    def _add_node(self, world: World, node: NodeId) -> None:
        founder = self._scenario.nodes[0]

        def build(chance: Random) -> Node[Any]:
            return planted(self._scenario.bug, process(node, founder, chance))

        world.add(node, build, address(node))

    def _producer(self, number: int) -> Producer:
        ledger = self._ledgers[number % len(self._ledgers)]
        end = self._scenario.faults_end
        times = sorted(self._sometime(end) for _ in range(self._chance.randint(2, BATCHES_MAX)))
        name = f"p{number + 1}"
        producer = Producer(self._stage, name, self._dice(name), ledger, times)
        self._world.at(self._sometime(seconds(5)), producer.begin)
        return producer

    def _add_groups(self, world: World) -> list[Stager]:
        """In some lives there are groups as well, and who stages and publishes."""
        dice = self._dice("groups")
        stagers: list[Stager] = []
        if dice.random() > GROUPS_SHARE:
            return stagers
        end = self._scenario.faults_end
        for number, ledger in enumerate(self._ledgers, start=1):
            for name in [f"g{number}", f"h{number}"][: dice.randint(0, 2)]:
                reader = Reader(self._stage, name, self._dice(name), ledger)
                world.at(Instant(dice.randrange(seconds(5))), reader.begin)
            if dice.random() < 0.6:
                times = sorted(Instant(dice.randrange(end)) for _ in range(dice.randint(1, 8)))
                name = f"t{number}"
                stager = Stager(self._stage, name, self._dice(name), ledger, times)
                world.at(Instant(dice.randrange(seconds(5))), stager.begin)
                stagers.append(stager)
        return stagers

    def _sometime(self, end: int) -> Instant:
        return Instant(self._chance.randrange(end))

    def _dice(self, name: str) -> Random:
        return Random(f"{self._scenario.seed}/fifo/{name}")

    # --- a disk is lost ---------------------------------------------------------------------------

    def _lose_disk(self, node: NodeId, at: Instant) -> None:
        """The machine is replaced: its operator frees the id, and starts it with an empty disk."""
        operator = Actor(self._stage, "operator", self._dice("operator"))
        slot = self._world.slots[node]

        def lose() -> None:
            slot.wanted = False
            self._world.stop(node)
            full, slot.disk = slot.disk.full, Disk(self._dice("new disk"))
            slot.disk.full = full
            self._hurt(node)
            forget()

        def forget() -> None:
            operator.ask(Forget(node), told)

        def told(outcome: Outcome[Any], _: Instant) -> None:
            if isinstance(outcome, Succeeded):
                slot.wanted = True
                self._world.start(node)
            else:  # it is not missed yet, or nobody who decides can be reached
                operator.after(seconds(1), forget)

        self._world.at(at, lose)

    # --- what is seen -----------------------------------------------------------------------------

    def replied(self, at: Instant, node: NodeId, effect: Reply[Any]) -> None:
        """A client has an outcome."""
        actor = self._stage.actors.get(node)
        if actor is not None:
            actor.answered(effect.operation, effect.message, at)

    def damaged(self, at: Instant, node: NodeId, key: bytes) -> None:
        """A bit turned in a record: of one queue, or of the node itself."""
        del at
        for ledger in self._ledgers:
            name = ledger.queue.encode()
            if key.startswith((b"fifo/m" + name, b"fifo/k" + name, b"~fifo/\0j" + name)):
                ledger.excuses.hurt(node)
            elif key.startswith(b"~fifo/" + name):
                ledger.excuses.hurt_body(node)

    def ended(self, at: Instant, node: NodeId) -> None:
        """A process is gone, with what lingered."""
        # What may linger for 50 ms does so, with a slow disk; with a full one until there is room.
        lingering = Duration(at) if node in self._full else seconds(2)
        for ledger in self._ledgers:
            ledger.excuses.died(node, at, lingering)

    def started(self, at: Instant, node: NodeId) -> None:
        """A process begins; if its last write was torn, a record may be damaged that was good."""
        if any(one.node == node for one in self._torn):
            disk = self._world.slots[node].disk
            small = disk.start().damaged
            bulk = disk.scan(b"~fifo/", b"~fifo0", BYTES_MAX)
            for key in (*small, *(one.key for one in bulk if isinstance(one, Damaged))):
                self.damaged(at, node, key)

    def _hurt(self, node: NodeId) -> None:
        for ledger in self._ledgers:
            ledger.excuses.hurt(node)

    # --- at the end -------------------------------------------------------------------------------

    def unsettled(self, world: World) -> str:
        """At rest when all run, every queue was whole and is drained, and all are answered."""
        for node in self._scenario.nodes:
            if world.slots[node].node is None:
                return f"{node} does not run"
        if self._steward.unfinished:
            return self._steward.unfinished
        waiting = (actor.waiting for actor in self._stage.actors.values())
        return next((words for words in waiting if words), "")

    def judge(self, world: World) -> None:
        """Each queue's history."""
        del world
        for ledger in self._ledgers:
            ledger.judge()
