"""The life of queues: queues of all kinds under load, every fault there is, and lost disks.

Each node is a whole process, as `runtime/server.py` makes it: membership and queues in one host.
How much is asked is in `fifo_load.py`; what those do who put and get, by the steps that ship, in
`fifo_programs.py`, `fifo_clients.py`, `fifo_pouring.py`, `fifo_together.py` and `fifo_groups.py`
(and `programs.py`, `consumers.py`, `loops.py`, which priority queues have, too); who looks, and who
ends it all, in `fifo_steward.py`, when nodes were lost once more, in `fifo_exam.py`; what may never
be seen, and what is excused, in `snowmelt_world/judge`, told in the words of `fifo_words.py`.
"""

from functools import partial
from random import Random
from typing import Any, ClassVar, Final

from msgspec.structs import replace

from snowmelt.core.instant import Duration, Instant, later, milliseconds, seconds
from snowmelt.core.names import NodeId, contact
from snowmelt.core.node import Announce, Node, Reply
from snowmelt.core.outcome import Outcome, Succeeded
from snowmelt.core.record import BULK, Damaged
from snowmelt.protocols.host import Family
from snowmelt.protocols.membership import Departed, Forget, View
from snowmelt.protocols.queue.api.drains import Drained
from snowmelt.protocols.queue.api.settings import ANY, REPLICAS_USUAL, QueueSettings
from snowmelt.protocols.queue.limits import LIMITS, QueueLimits
from snowmelt_world.families.fifo_actors import PATIENCE, Actor, Listened, Stage
from snowmelt_world.families.fifo_clients import Burster, Consumer, Looper, Producer, Putter
from snowmelt_world.families.fifo_engine import BYTES_MAX, FIFO, Engine, Role
from snowmelt_world.families.fifo_exam import Exam, Examiner
from snowmelt_world.families.fifo_groups import Reader, Stager
from snowmelt_world.families.fifo_load import load_of, settings_of
from snowmelt_world.families.fifo_moves import Moves
from snowmelt_world.families.fifo_pouring import Pourer
from snowmelt_world.families.fifo_programs import Program
from snowmelt_world.families.fifo_steward import Looker, Steward
from snowmelt_world.families.fifo_together import SharingConsumer, SharingProducer
from snowmelt_world.families.fifo_words import Ledger
from snowmelt_world.families.membership import SETTINGS, address, member
from snowmelt_world.families.operators import LAST_BACK
from snowmelt_world.families.programs import in_reach
from snowmelt_world.families.queue_altering import ALTERED_SHARE, Alterer, may_grow
from snowmelt_world.families.queue_backups import Backups
from snowmelt_world.families.queue_deleted import Names
from snowmelt_world.families.queue_rivals import Rivals
from snowmelt_world.families.queue_schedules import Schedulers
from snowmelt_world.families.queue_staging import Planner
from snowmelt_world.faults import (
    ClockJump,
    CutLinks,
    Duplication,
    FlippedBit,
    LostDisk,
    OlderDisk,
    PowerCut,
    TornRecord,
    WallClock,
)
from snowmelt_world.judge.backups import BackupLedger
from snowmelt_world.judge.deleted import DeletedLedger
from snowmelt_world.judge.lapses import NEWS, Reads, lingering
from snowmelt_world.judge.positions_end import judge
from snowmelt_world.judge.schedules import ScheduleLedger
from snowmelt_world.life import FamilyLife, Tally
from snowmelt_world.planted import Bug, planted
from snowmelt_world.scenario import DISK, Scenario
from snowmelt_world.world import World

GROUPS_SHARE: Final = 0.4
STAGERS_SHARE: Final = 0.6
LOOPS_SHARE: Final = 0.4
POURING_SHARE: Final = 0.15
"""In how many lives half of those who put do it by several calls at once."""
DELETED_SHARE: Final = 0.3
"""In how many lives there are queues, besides, that are deleted and made again."""
GRAVES: Final = (1, 3, 1_000)
RANKED_SHARE: Final = 0.25
"""In how many lives queues have several priorities."""
KEYED_SHARE: Final = 0.4
"""How many of those have no number of them: each item has a key."""
UNSAID_SHARE: Final = 0.4
"""Of how many queues nobody says how many copies there are, where no disk is hurt."""
SPREAD_SHARE: Final = 0.5
"""How many queues have bodies on data nodes, where there are more nodes than copies."""
SPREAD_FEW_COPIES: Final = 0.5
HURTS: Final = (FlippedBit, LostDisk, OlderDisk, TornRecord)
"""What may take an item of one with as many copies as there must be."""
SHARING_SHARE: Final = 0.25
"""In how many lives half of those who put and get are several callers whose calls go together."""


def process(
    node: NodeId,
    founder: NodeId,
    chance: Random,
    limits: QueueLimits = LIMITS,
    bug: Bug | None = None,
    coordinator: str = DISK,
    engine: Engine = FIFO,
) -> Node[Any]:
    """One process of a simulated cluster with queues."""
    queues = engine.machine(bug, node, chance, limits, on_disk=coordinator == DISK)
    family = Family(engine.name, queues, engine.messages, fenced=True)
    contacts = () if node == founder else (founder,)
    moves = engine.moves
    return member(node, contacts, chance, family, coordinator=coordinator, hands_over=moves)


def unneeded(engine: Engine, scenario: Scenario, ledgers: list[Ledger], world: World) -> str:
    """Who keeps a copy that no home names; links that stay cut may leave somebody out."""
    faults, slots = (*scenario.faults, *scenario.weather), world.slots
    if any(isinstance(one, CutLinks) and one.stays for one in faults):
        return ""
    disks = {one: slots[one].disk for one in scenario.nodes if slots[one].node is not None}
    for ledger in ledgers:
        for node in () if ledger.excuses.gone else engine.unneeded(disks, ledger.queue):
            return f"{node} keeps a copy of {ledger.queue}, and no home names it"
    return ""


class QueueLife(FamilyLife):
    """One to seven nodes, one to ten queues, and those who use them."""

    name = "queue"
    engine: Engine = FIFO
    backed_up: ClassVar[bool] = False
    """Whether there is a queue, besides, that is backed up and restored."""
    scheduled: ClassVar[bool] = False
    """Whether there is one with schedules."""

    def __init__(self, scenario: Scenario, chance: Random) -> None:
        super().__init__(scenario, chance)
        faults = scenario.faults
        self._load = load_of(chance, scenario.theme)
        often = self._dice("spares").choice((milliseconds(100), seconds(1), LIMITS.spare_every))
        self._load.limits = replace(self._load.limits, spare_every=often)
        self._torn = {one.node for one in faults if isinstance(one, TornRecord)}
        self._lost: dict[NodeId, Instant] = {}
        self._moves = Moves(self._dice, scenario.faults_end, moves=self.engine.moves)
        self._decider = scenario.nodes[0] if scenario.coordinator == DISK else None
        """Whose disk the cluster can't go on without."""
        self._over = False
        """Whether the cluster can't go on: then there is nothing more to be seen."""
        leaps = [one for one in faults if isinstance(one, ClockJump)]
        early = sum(one.by for one in leaps) + sum(
            abs(one.by) for one in faults if isinstance(one, WallClock)
        )
        hurt = {one.node for one in faults if isinstance(one, OlderDisk | LostDisk)}
        hurt |= {one.node for one in faults if isinstance(one, FlippedBit | TornRecord)}
        cut = [one for one in faults if isinstance(one, CutLinks) and one.stays]
        # So many hear each other, whatever stays cut.
        together = len(scenario.nodes) - sum(len(one.links) for one in cut)
        self._wrong_dates = any(isinstance(one, WallClock) for one in faults)
        self._ranked = self._dice("ranked").random() < RANKED_SHARE
        self._ledgers = [
            Ledger(
                f"q{number}",
                self._drawn(chance, number, together, len(hurt)),
                leaps=[one.at for one in leaps],
                early=early,
            )
            for number in range(1, self._load.queues + 1)
        ]
        for ledger in self._ledgers:
            ledger.looks.quiet = self._quiet(bool(hurt))
            if ledger.settings.grows:
                may_grow(ledger)
        self._exam = Exam(scenario, self._ledgers, self.engine)
        dice = self._dice("deleted")
        some = dice.choice((1, 2)) if self.engine.moves and dice.random() < DELETED_SHARE else 0
        keeps = not any(isinstance(one, HURTS) for one in faults)
        older = any(isinstance(one, OlderDisk) and one.node == self._decider for one in faults)
        self._deleted = [
            DeletedLedger(f"d{at}", keeps=keeps, knows=not older) for at in range(some)
        ]
        if some:
            self._load.limits = replace(self._load.limits, graves=dice.choice(GRAVES))

    def _drawn(self, chance: Random, number: int, together: int, hurt: int) -> QueueSettings:
        """The settings of one, with as many priorities as are drawn in lives that have some.

        The bodies of some, or the large ones, lie on data nodes.
        """
        few = self._dice(f"priorities {number}").choice((2, 3, 3, 8, 256))
        if self._dice(f"keys {number}").random() < KEYED_SHARE:
            few = ANY
        settings = settings_of(chance, self._load, together, hurt)
        settings = replace(settings, priorities=few if self._ranked else 1)
        dice = self._dice(f"spread {number}")
        if self.engine.moves and dice.random() < SPREAD_SHARE:
            all_have = 1 + hurt < settings.replicas == together and self._load.theme != "few copies"
            fewer = dice.random() < SPREAD_FEW_COPIES and all_have
            settings = replace(
                settings,
                inline_max=dice.choice((0, 0, 100)),
                replicas=settings.replicas - fewer,
                durable_copies=0 if fewer else settings.durable_copies,
            )
        unsaid = self._dice(f"unsaid {number}").random() < UNSAID_SHARE
        if unsaid and self.engine.moves and not (hurt or settings.replicas > REPLICAS_USUAL):
            settings = replace(settings, replicas=1, durable_copies=0, grows=True)
        return in_reach(settings, self._scenario.style, 8)

    def _quiet(self, hurt: bool) -> Instant | None:
        """From when on no fault can take a copy away."""
        faults = (*self._scenario.faults, *self._scenario.weather)
        if hurt or any(isinstance(one, CutLinks) and one.stays for one in faults):
            return None
        if self.engine.moves:
            return later(self._scenario.faults_end, Duration(NEWS + LAST_BACK))
        return Instant(self._scenario.faults_end + NEWS) if faults else Instant(seconds(10))

    @property
    def bound(self) -> Duration:
        """How long after the last fault it may take; `lives.md` says what adds up to it."""
        members = SETTINGS.patience + SETTINGS.lease
        clients = PATIENCE + self._load.patience
        return Duration(members + 2 * clients + seconds(16) + self._exam.losses.bound)

    # --- who is there -----------------------------------------------------------------------------

    def populate(self, world: World) -> None:
        self._world = world
        scenario, nodes = self._scenario, self._scenario.nodes
        duplicates = any(isinstance(one, Duplication) for one in scenario.faults)
        targets = [contact(address(node)) for node in nodes]
        self._stage = Stage(world, targets, duplicates, actors={})
        for node in nodes:
            self._add_node(world, node)
            begin = 0 if node == nodes[0] else self._chance.randrange(seconds(2))
            begin = self._moves.begins(node, begin) if begin else 0
            world.at(Instant(begin), world.start, node)
        self._producers = [self._producer(number) for number in range(self._load.producers)]
        for number in range(self._load.consumers):
            ledger = self._ledgers[number % len(self._ledgers)]
            name = f"k{number + 1}"
            loops = self._dice(f"kind {name}").random() < LOOPS_SHARE
            kind: type[Consumer] = Looper if loops else Consumer
            if self._is_so("joined", SHARING_SHARE, f"sharing {name}"):
                kind = SharingConsumer
            consumer = kind(self._stage, name, self._dice(f"k{number}"), ledger, self._load)
            consumer.delays = not self._wrong_dates
            world.at(self._sometime(seconds(5)), consumer.begin)
        for number, ledger in enumerate(self._ledgers, start=1):
            self._add_looker(number, ledger)
        putters: list[Putter] = [*self._producers, *self._add_groups(world)]
        if self._exam.losses.left:
            load = replace(self._load, waits=0.0, sparse=False)
            self._exam.examiners = [
                Examiner(self._stage, f"x{at}", self._dice(f"x{at}"), ledger, [], load)
                for at, ledger in enumerate(self._ledgers, start=1)
            ]
        putters += self._exam.examiners
        self._steward = Steward(self._stage, self._dice("s"), self._ledgers, putters, self._exam)
        self._steward.nodes = nodes
        self._steward.begin([self._sometime(scenario.faults_end) for _ in range(12)])
        world.at(scenario.faults_end, self._steward.rest)
        self._names = Names(self._stage, self._deleted)
        for one in self._deleted:
            dice = self._dice(f"names {one.queue}")
            self._names.add(one, dice, len(nodes), scenario.faults_end)
        self._schedules: Schedulers | None = None
        self._backups = Backups(self._stage, [])
        dice = self._dice("backed up")
        if self.backed_up:
            keeps = not any(isinstance(one, HURTS) for one in scenario.faults)
            backed = BackupLedger("b0", keeps=keeps, now=lambda: world.now)
            self._backups.ledgers.append(backed)
            self._backups.add(world, backed, dice, len(nodes), scenario.faults_end)
        if self.scheduled:
            keeps = not any(isinstance(one, HURTS) for one in scenario.faults)
            self._schedules = Schedulers(self._stage, ScheduleLedger("s0", keeps=keeps))
            self._schedules.add(world, self._dice("scheduled"), len(nodes), scenario.faults_end)
        self._rivals = Rivals(self._stage, "r0", self._dice("rivals"), scenario)
        self._moves.plan(world, nodes, putters)
        dice = self._dice("altered")
        if self.engine.moves and dice.random() < ALTERED_SHARE:
            times = [
                Instant(dice.randrange(scenario.faults_end)) for _ in range(dice.randint(1, 9))
            ]
            Alterer(self._stage, dice, self._ledgers, sorted(times), scenario.style)

    def _add_node(self, world: World, node: NodeId) -> None:
        founder, said = self._scenario.nodes[0], self._stage.said

        def build(chance: Random) -> Node[Any]:
            bug, coordinator = self._scenario.bug, self._scenario.coordinator
            limits, engine = self._load.limits, self.engine
            whole = process(node, founder, chance, limits, bug, coordinator, engine)
            return planted(bug, Listened(whole, said, lambda: world.now))

        world.add(node, build, address(node))

    def _producer(self, number: int) -> Producer:
        ledger = self._ledgers[number % len(self._ledgers)]
        end = self._scenario.faults_end
        most = self._chance.randint(2, self._load.batches)
        times = sorted(self._pressed(self._sometime(end)) for _ in range(most))
        name = f"p{number + 1}"
        shares = self._is_so("joined", SHARING_SHARE, f"sharing {name}")
        pours = self._is_so("poured", POURING_SHARE, f"pouring {name}")
        kind: type[Producer] = Burster if self._load.theme == "bursts" else Producer
        if shares:
            kind = SharingProducer
        if pours and not (self._load.sparse or self._ranked):
            kind = Pourer
        producer = kind(self._stage, name, self._dice(name), ledger, times, self._load)
        producer.delays = not self._wrong_dates
        self._world.at(self._sometime(seconds(5)), producer.begin)
        return producer

    def _is_so(self, life: str, share: float, one: str) -> bool:
        """Whether this life is one of those that are so, and this one of the half that is."""
        return self._dice(life).random() < share and self._dice(one).random() < 0.5

    def _add_looker(self, number: int, ledger: Ledger) -> None:
        """It looks while there is load, and for a while after that."""
        dice, end = self._dice(f"l{number}"), self._scenario.faults_end
        times = [Instant(dice.randrange(end + seconds(8))) for _ in range(self._load.looks)]
        looker = Looker(self._stage, f"l{number}", dice, ledger, sorted(times), self._load)
        self._world.at(Instant(dice.randrange(seconds(5))), looker.begin)

    def _add_groups(self, world: World) -> list[Stager]:
        """In some lives there are groups as well, and who stages and publishes."""
        dice = self._dice("groups")
        stagers: list[Stager] = []
        if dice.random() > GROUPS_SHARE:
            return stagers
        end = self._scenario.faults_end
        for number, ledger in enumerate(self._ledgers[:3], start=1):
            for name in [f"g{number}", f"h{number}"][: dice.randint(0, 2)]:
                reader = Reader(self._stage, name, self._dice(name), ledger)
                world.at(Instant(dice.randrange(seconds(5))), reader.begin)
            if dice.random() < STAGERS_SHARE:
                times = sorted(Instant(dice.randrange(end)) for _ in range(dice.randint(1, 8)))
                name = f"t{number}"
                stager = Planner(self._stage, name, self._dice(name), ledger, times)
                stager.delays = not self._wrong_dates
                world.at(Instant(dice.randrange(seconds(5))), stager.begin)
                stagers.append(stager)
        return stagers

    def _pressed(self, at: Instant) -> Instant:
        """When to put instead: where power fails, mostly in the half second before that."""
        fails = [one.fails for one in self._scenario.faults if isinstance(one, PowerCut)]
        if not fails or self._chance.random() < 0.3:
            return at
        return Instant(self._chance.choice(fails) - self._chance.randrange(seconds(0.5)))

    # --- disks that are lost, or put back ---------------------------------------------------------

    def disk_lost(self, at: Instant, node: NodeId) -> None:
        """The machine is replaced: its operator frees the id, and starts it with an empty disk."""
        if self._moves.has_scrapped(node):
            self._set_free(node)
            return
        self._lost[node] = at
        for ledger in self._ledgers:
            ledger.excuses.hurt(node, at, "disk lost")
        if node == self._decider:
            self._over = True
            for ledger in self._ledgers:
                ledger.excuses.ends(at)
        elif node not in self._exam.losses.gone:
            self._set_free(node)

    def _set_free(self, node: NodeId) -> None:
        slot = self._world.slots[node]
        slot.wanted = False
        name = f"operator-{len(self._stage.actors)}"
        operator = Actor(self._stage, name, self._dice(name))

        def forget() -> None:
            operator.ask(Forget(node), told)

        def told(outcome: Outcome[Any], _: Instant) -> None:
            if isinstance(outcome, Succeeded):
                slot.wanted = True
                self._world.start(node)
            else:  # it is not missed yet, or nobody who decides can be reached
                operator.after(seconds(1), forget)

        forget()

    def halted(self, at: Instant, node: NodeId, reason: str) -> None:
        """What the process on its old disk had said came late, and bound the id again."""
        del at
        if "belongs to another disk" in reason:
            self._set_free(node)

    def set_back(self, at: Instant, node: NodeId, taken: Instant) -> None:
        """It has lost what came after the copy, and nobody knows.

        A copy of a disk that was lost since, or from before its first record, is another disk.
        """
        empty = not self._world.slots[node].disk.start().records
        if empty or taken < self._lost.get(node, Instant(0)):
            self.disk_lost(at, node)
            return
        if node == self._decider:  # it knows nothing of the new disks of others
            for other in self._lost:
                self._world.stop(other)
                self._set_free(other)
        for ledger in self._ledgers:
            linger = ledger.settings.linger  # what was told may not have been on the copied disk
            before = lingering(self._scenario.faults, node, taken, linger) if linger else 0
            ledger.excuses.set_back(at, Instant(max(0, taken - before)))

    # --- what is seen -----------------------------------------------------------------------------

    def announced(self, at: Instant, node: NodeId, effect: Announce) -> None:
        """A node is in a new view: some put before it has heard where their queue is at home."""
        del at, node
        if isinstance(effect.fact, View):
            for producer in self._producers:
                if isinstance(producer, Burster):
                    producer.hurry()

    def replied(self, at: Instant, node: NodeId, effect: Reply[Any]) -> None:
        actor = self._stage.actors.get(node)
        if actor is not None and not self._over:
            actor.answered(effect.operation, effect.message, at)
        elif isinstance(effect.message, Departed):
            self._moves.left(at, node)
        elif isinstance(effect.message, Drained):
            self._moves.drained(at, node, effect.message)

    def damaged(self, at: Instant, node: NodeId, key: bytes) -> None:
        """A bit turned in a record: what is small is read when the process begins, and not before.

        A body is read whenever it is wanted.
        """
        for ledger in self._ledgers:
            role, reads_not = self.engine.role(key, ledger.queue), self._reader(node, key)
            if role is Role.BODY:
                ledger.excuses.hurt_body(node, at, key, reads_not)

    def _reader(self, node: NodeId, key: bytes) -> Reads:
        disk = self._world.slots[node].disk
        return lambda: isinstance(disk.load((key,))[0], Damaged)

    def ended(self, at: Instant, node: NodeId) -> None:
        for ledger in self._ledgers:
            told = lingering(self._scenario.faults, node, at, ledger.settings.linger)
            ledger.excuses.died(node, at, told)

    def started(self, at: Instant, node: NodeId) -> None:
        """A process begins; what it can't read now it does not know from here on."""
        if node not in self._scenario.nodes:
            return
        disk = self._world.slots[node].disk
        for key in disk.start().damaged:
            for ledger in self._ledgers:
                if self.engine.role(key, ledger.queue) is Role.EARLY:
                    reads_not = self._reader(node, key)
                    ledger.excuses.hurt(node, at, "record damaged", reads_not)
        if node in self._torn:
            begin = BULK + self.engine.name.encode()
            for one in disk.scan(begin + b"/", begin + b"0", BYTES_MAX):
                if isinstance(one, Damaged):
                    self.damaged(at, node, one.key)
        for ledger in self._ledgers:
            ledger.excuses.back(node, at)

    # --- at the end -------------------------------------------------------------------------------

    @property
    def tally(self) -> Tally:
        ours = [] if self._schedules is None else self._schedules.ledgers
        return Tally.of([*self._ledgers, *self._deleted, *self._backups.ledgers, *ours])

    def unsettled(self, world: World) -> str:
        """At rest when all run, every queue was whole and is drained, and all are answered."""
        if self._over:
            return ""
        if down := self._down(world, self._exam.losses.gone):
            return down
        if self._steward.unfinished:
            return self._steward.unfinished
        for actor in self._stage.actors.values():
            in_vain = isinstance(actor, Program) and self._steward.left_out(actor.ledger)
            if actor.waiting and not in_vain:
                return actor.waiting
        if self._backups.unsettled or self._rivals.unsettled:
            return self._backups.unsettled or self._rivals.unsettled
        if self._schedules is not None and self._schedules.unsettled:
            return self._schedules.unsettled
        return self._names.unsettled(partial(self._left, world)) or unneeded(
            self.engine, self._scenario, self._ledgers, world
        )

    def _left(self, world: World, queue: str) -> list[str]:
        """Which nodes have something of a queue that was deleted."""
        nodes = [node for node in self._scenario.nodes if node not in self._exam.losses.gone]
        return [node for node in nodes if self.engine.has(world.slots[node].disk, queue)]

    def judge(self, world: World) -> None:
        del world
        for ledger in self._ledgers:
            judge(ledger)


class BackupLife(QueueLife):
    """The same, with a queue that is backed up and restored (`queue_backups.py`).

    Bodies are read from the disk each time: none is at hand.
    """

    backed_up = True

    def __init__(self, scenario: Scenario, chance: Random) -> None:
        super().__init__(scenario, chance)
        self._load.limits = replace(self._load.limits, recent_bytes=0)


class ScheduleLife(QueueLife):
    """The same, with a queue that has schedules (`queue_schedules.py`)."""

    scheduled = True
