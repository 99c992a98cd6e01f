"""The life of a queue with several partitions: what befalls the nodes of those who use it.

Each node is a whole process, as `runtime/server.py` makes it. Who uses it is in `parted_users.py`;
`judge/one_order.py` judges it.
"""

from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any, Final

from msgspec.structs import replace

from snowmelt.core.instant import Duration, Instant, milliseconds, seconds
from snowmelt.core.names import NodeId, OperationId, contact
from snowmelt.core.node import Announced, Effect, Event, Node, Reply, Send
from snowmelt.protocols.calling import Answer, Gone
from snowmelt.protocols.queue import QueueNode
from snowmelt.protocols.queue.api.gathered import Gathered
from snowmelt.protocols.queue.api.partition_names import part_names
from snowmelt.protocols.queue.api.settings import ANY, QueueSettings
from snowmelt.protocols.queue.limits import QueueLimits
from snowmelt.protocols.queue.messages.partition_words import (
    CancelPartedGet,
    NextPhase,
    PartialAnswer,
    Post,
)
from snowmelt_world.disk import Disk
from snowmelt_world.families.fifo_actors import Listened, Said, Stage
from snowmelt_world.families.fifo_engine import FIFO, Engine
from snowmelt_world.families.membership import SETTINGS, address
from snowmelt_world.families.operators import Operators
from snowmelt_world.families.parted_setting import CALL, QUEUE, Setting
from snowmelt_world.families.parted_users import Getter, Maker, Putter
from snowmelt_world.families.queue import process
from snowmelt_world.families.queue_deleted import Names
from snowmelt_world.faults import (
    ClockJump,
    Crash,
    Duplication,
    FailingDisk,
    FillingDisk,
    LostDisk,
    LostWrites,
    QuickRestarts,
    RollingRestart,
)
from snowmelt_world.judge.deleted import DeletedLedger
from snowmelt_world.judge.one_order import NEVER, SLACK, OneOrder
from snowmelt_world.life import FamilyLife, Tally
from snowmelt_world.planted import Bug, planted
from snowmelt_world.scenario import ETCD_DECIDES, Scenario
from snowmelt_world.world import World

VAIN: Final = milliseconds(300)
"""So long, and as long as some forty messages travel, a get may wait for what is ready."""
PARTITIONS: Final = 3
"""Of a queue that is deleted and made again."""
LEAVES_SHARE: Final = 0.5
"""In so many lives some gets are left."""
CLOSES_SHARE: Final = 0.25
"""In so many lives with faults connections of those who get close."""
ENDS: Final = (
    *(Crash, FailingDisk, FillingDisk, LostDisk, LostWrites, QuickRestarts, RollingRestart),
)
"""What may take with it what was told and lingers."""


class Heard(Listened):
    """A node of which it is noted what its partitions and its doors gave, when they did."""

    def __init__(
        self, node: Node[Any], said: Said, clock: Callable[[], Instant], setting: Setting
    ) -> None:
        super().__init__(node, said, clock)
        self._setting = setting

    def handle(self, event: Event[Any], now: Instant) -> list[Effect[Any]]:
        effects = super().handle(event, now)
        for effect in effects:
            if type(effect) is not Send:
                continue
            word = effect.message
            if type(word) is PartialAnswer:
                self._setting.gave(word, self._clock())
            elif type(word) is Answer and type(word.body) is Gathered:
                asked = OperationId(effect.target, word.number)
                self._setting.answered(asked, word.body, self._clock())
        return effects


class Watched(QueueNode):
    """The machine; what its parts say to each other is noted, too."""

    def watch(self, noted: Callable[[PartialAnswer | NextPhase | Post], None]) -> None:
        for kind in (PartialAnswer, NextPhase, Post):
            self._hears[kind] = partial(_first_noted, noted, self._hears[kind])


def _first_noted(
    noted: Callable[[Any], None], hears: Callable[[NodeId, Any], None], source: NodeId, word: Any
) -> None:
    noted(word)
    hears(source, word)


class Watching(Engine):
    """The queue's machines, watched."""

    def __init__(self, noted: Callable[[PartialAnswer | NextPhase | Post], None]) -> None:
        self._noted = noted

    def machine(
        self, bug: Bug | None, me: NodeId, chance: Random, limits: QueueLimits, *, on_disk: bool
    ) -> Node[Any]:
        """As it is: no bug is in one part of it."""
        del bug
        node = Watched(me, chance, limits=limits, on_disk=on_disk)
        node.watch(self._noted)
        return node


class PartedLife(FamilyLife):
    """One to six nodes, and one queue of two, three or eight partitions."""

    name = "parted"

    def __init__(self, scenario: Scenario, chance: Random) -> None:
        super().__init__(scenario, chance)
        nodes = len(scenario.nodes)
        settings = QueueSettings(
            partitions=chance.choice((2, 2, 3, 8)),
            priorities=chance.choice((1, 1, 3, ANY)),
            replicas=min(nodes, chance.choice((1, 2, 3, 3))),
            lease=chance.choice((seconds(1), seconds(4), seconds(20))),
            deliveries_max=1_000_000,
        )
        ways = self._dice("ways")
        bounded, lingers = ways.random() < 0.25, ways.random() < 0.3
        if bounded:
            settings = replace(settings, items_max=settings.partitions * 40)
        if lingers and not any(isinstance(one, ENDS) for one in scenario.faults):
            settings = replace(settings, linger=milliseconds(ways.choice((5, 50, 500))))
        hurt = {one.node for one in scenario.faults if isinstance(one, LostDisk)}
        if hurt:  # whatever is told is somewhere else, too
            durable = len(hurt) + 1
            fewest = max(settings.replicas, durable)
            settings = replace(settings, replicas=fewest, durable_copies=durable)
        if (
            scenario.theme == "data nodes" and settings.durable_copies < nodes
        ):  # they are those without a copy, and know no keys
            settings = replace(
                settings,
                inline_max=ways.choice((0, 0, 20)),
                priorities=max(settings.priorities, 1),
                replicas=min(settings.replicas, nodes - 1),
            )
        calm = not scenario.faults and not scenario.weather
        style = scenario.style
        vain = Duration(VAIN + 20 * style.delay_min + 40 * style.delay_mean)
        leaps = [one for one in scenario.faults if isinstance(one, ClockJump)]
        slack = Duration(SLACK + sum(one.by for one in leaps))
        ledger = OneOrder(QUEUE, settings.lease, vain if calm else None, slack)
        patient = self._dice("patient").random() < 0.4
        self._deleted = [
            DeletedLedger("d", keeps=not hurt, knows=True, partitions=PARTITIONS)
            for _ in range(scenario.theme == "names")
        ]
        end, times = scenario.faults_end, [one.at for one in leaps]
        self._setting = Setting(settings, ledger, end, self._disks, times, patient)

    def _disks(self) -> list[Disk]:
        return [self._stage.world.slots[node].disk for node in self._scenario.nodes]

    @property
    def bound(self) -> Duration:
        """How long after the last fault it may take."""
        members = SETTINGS.patience + SETTINGS.lease
        return Duration(members + 3 * CALL + 2 * self._setting.settings.lease + seconds(30))

    def populate(self, world: World) -> None:
        scenario, setting = self._scenario, self._setting
        targets = [contact(address(node)) for node in scenario.nodes]
        duplicates = any(isinstance(one, Duplication) for one in scenario.faults)
        self._stage = Stage(world, targets, duplicates, actors={})
        founder = scenario.nodes[0]
        decides = None if scenario.coordinator == ETCD_DECIDES else founder
        self._operators = Operators(world, scenario.nodes, decides)
        for node in scenario.nodes:
            self._add(world, node, founder)
            begin = 0 if node == founder else self._chance.randrange(seconds(2))
            world.at(Instant(begin), world.start, node)
        maker = Maker(self._stage, "maker", self._dice("maker"), setting)
        world.at(Instant(seconds(2)), maker.begin)
        self._putters: list[Putter] = []
        stages = self._dice("staging").random() < 0.3
        for number in range(1, self._chance.randint(2, 4) + 1):
            dice = self._dice(f"p{number}")
            times = sorted(
                [Instant(dice.randrange(scenario.faults_end)) for _ in range(dice.randint(3, 16))]
            )
            putter = Putter(self._stage, f"p{number}", dice, setting, times, stages=stages)
            self._putters.append(putter)
        leaves = self._dice("leaving").random() < LEAVES_SHARE
        closes = setting.ledger.faulty and self._dice("closing").random() < CLOSES_SHARE
        for number in range(1, self._chance.randint(2, 5) + 1):
            leaving = self._dice(f"leaving k{number}") if leaves else None
            getter = Getter(self._stage, f"k{number}", self._dice(f"k{number}"), setting, leaving)
            if closes:
                self._closes(self._dice(f"closes k{number}"), getter.name)
            world.at(Instant(seconds(3) + self._chance.randrange(seconds(5))), getter.begin)

        self._names = Names(self._stage, self._deleted)
        for one in self._deleted:
            dice = self._dice(f"names {one.queue}")
            self._names.add(one, dice, len(scenario.nodes), scenario.faults_end)

    def _left(self, world: World, queue: str) -> list[str]:
        """Which nodes have something of a queue that was deleted."""
        names = part_names(queue, PARTITIONS)
        nodes = self._scenario.nodes
        return [one for one in nodes if any(FIFO.has(world.slots[one].disk, n) for n in names)]

    def _closes(self, dice: Random, client: NodeId) -> None:
        """Its connections to a node close, some times; it lives, and asks again."""
        for _ in range(dice.randint(0, 9)):
            at, node = dice.randrange(self._scenario.faults_end), dice.choice(self._scenario.nodes)
            self._stage.world.at(Instant(at), self._close, node, client)

    def _close(self, node: NodeId, client: NodeId) -> None:
        if self._stage.world.slots[node].node is not None:
            self._stage.world.give(node, Announced(Gone(client)))

    def _add(self, world: World, node: NodeId, founder: NodeId) -> None:
        scenario, stage, setting = self._scenario, self._stage, self._setting

        def build(chance: Random) -> Node[Any]:
            engine = Watching(partial(self._noted, world))
            whole = process(node, founder, chance, coordinator=scenario.coordinator, engine=engine)
            heard = Heard(whole, stage.said, lambda: world.now, setting)
            return planted(scenario.bug, heard)

        world.add(node, build, address(node))

    def _noted(self, world: World, word: PartialAnswer | NextPhase | Post) -> None:
        match word:
            case NextPhase():
                self._setting.left(word.queue, word.left, world.now)
            case PartialAnswer():
                self._setting.gave(word, world.now)
            case Post(word=CancelPartedGet() as leave):
                self._setting.leaves(leave)

    def replied(self, at: Instant, node: NodeId, effect: Reply[Any]) -> None:
        actor = self._stage.actors.get(node)
        if actor is not None:
            actor.answered(effect.operation, effect.message, at)
        else:
            self._operators.answered(node, effect.message)

    def halted(self, at: Instant, node: NodeId, reason: str) -> None:
        del at
        self._operators.halted(node, reason)

    def disk_lost(self, at: Instant, node: NodeId) -> None:
        self._operators.disk_lost(at, node)

    @property
    def tally(self) -> Tally:
        return Tally.of([self._setting.ledger, *self._deleted])

    def unsettled(self, world: World) -> str:
        """At rest when all that was put is done."""
        if down := self._down(world):
            return down
        for putter in self._putters:
            if putter.unfinished:
                return f"{putter.name} has {putter.unfinished} puts left"
        for item in self._setting.ledger.items.values():
            if item.acked == NEVER:
                return f"{item.value} is not done"
        return self._names.unsettled(partial(self._left, world))

    def judge(self, world: World) -> None:
        del world
        self._setting.ledger.judge()
