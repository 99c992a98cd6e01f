"""Steps from queue to queue, under all faults: what comes out is judged.

Some put items into the sources; others take them, from one source or two, put one for each into
every target, and end the step by the shipped code (`client/queue/step_parts.py`). They die at drawn
moments. Of each item that was put there has to be just one in each target, wherever who died. Some
steps only put: what is in such a step is in both targets or in none, and in none when it is known
that it failed.

When the load is over one of them brings it all to its end, one part after the other:

1. It takes what is left in the sources, until they are empty.
2. It deletes them. A queue is deleted when each part of the steps that it decided is done, and is
   known there to be done: so a home that never hears of a part is found.
3. It reads one target, until nothing is staged there any more, and deletes it. What is staged is of
   a step that nobody decided: its home is asked when its hold is over.
4. So it does with the other. The first may have decided steps: each has its part here by now.

Each part is tried again where a queue can't be asked. One whose only copy is gone can't be for
ever: then nothing is judged.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import ClassVar, Final

import msgspec

from snowmelt.client.connection.steps import Steps
from snowmelt.client.connection.waits import Wait
from snowmelt.client.fifo.steps import FifoSteps
from snowmelt.client.leases.delivered import LeasedItems
from snowmelt.client.leases.steps import LeaseUpdate
from snowmelt.client.queue.deleting import delete
from snowmelt.client.queue.options import ProducerSequence
from snowmelt.client.queue.step_parts import HOLD, StepParts
from snowmelt.core.errors import NoSuchQueue, NotEmpty, SnowmeltError, Unavailable
from snowmelt.core.instant import Duration, Instant, seconds
from snowmelt.core.interval import Interval
from snowmelt.protocols.queue.api.settings import QueueSettings
from snowmelt_world.families.fifo_actors import Phase, Stage
from snowmelt_world.families.programs import FAILURES, pause
from snowmelt_world.families.queue import HURTS, QueueLife
from snowmelt_world.families.queue_by_key import values_of
from snowmelt_world.families.queue_deleted import BYTES, SECONDS, SHORT, User
from snowmelt_world.families.shipped import Run
from snowmelt_world.judge.deleted import DeletedLedger
from snowmelt_world.world import Broken, World

LOST_AFTER: Final = 8
"""So often it tries in vain before it gives up: the node of the one copy of a queue may be gone."""
OPEN_FOR: Final = 15
"""So many seconds after the last fault all that was decided is done."""
SOURCES: Final = ("x0", "x1")
TARGETS: Final = ("y0", "y1")
DIES: Final = 0.2


class StepLedger(msgspec.Struct):
    """What was put into the sources, and what came out of the targets."""

    keeps: bool
    """Whether no disk is lost or damaged."""
    awaits: bool
    """Whether nothing is staged in the end: it is held by the wall clock, and that may be wrong."""
    asked: dict[str, None] = {}
    sure: dict[str, None] = {}
    """Those of which the put was answered."""
    never: dict[str, None] = {}
    """Those of which it was told that they are not put."""
    came: dict[str, dict[int, str]] = {}
    """By target, and by the positions there."""
    drained: bool = False
    committed: int = 0
    """How many steps were told to be."""
    waits: str = ""
    """Which queue's steps have parts that are not done."""

    def judge(self) -> None:
        """Raises `Broken` for what may not be."""
        if not (self.keeps and self.drained):
            return
        for target in TARGETS:
            count = Counter(self.came.get(target, {}).values())
            for value, times in count.items():
                if times > 1:
                    raise Broken(f"{target}: {value} is doubled", target)
                if value not in self.asked:
                    raise Broken(f"{target}: {value} was never put", target)
                if value in self.never:
                    raise Broken(f"{target}: {value} is there, and its step did not happen", target)
            for value in self.sure:
                if not count[value]:
                    raise Broken(f"{target}: {value} is lost", target)
        first, second = [set(self.came.get(one, {}).values()) for one in TARGETS]
        for value in first ^ second:
            raise Broken(f"{value} is in one target of its step, and not in the other", TARGETS[0])


class Told(msgspec.Struct):
    """Who would tell a queue of a lease."""

    steps: FifoSteps

    def ended(self, delivered: LeasedItems, done: tuple[Interval, ...]) -> None:
        """They are acknowledged."""
        delivered.settled(done)


class StepUser(User):
    """Puts, and takes steps."""

    names: ClassVar[tuple[str, ...]] = (*SOURCES, *TARGETS)

    def __init__(self, stage: Stage, name: str, chance: Random, ledger: StepLedger) -> None:
        unused = DeletedLedger(name, keeps=False, knows=False)
        super().__init__(stage, name, chance, unused, None)
        self.all = ledger
        self._count = 0
        self._lives = 0
        self.queues: dict[str, FifoSteps] = {}
        self.settings = QueueSettings()

    def opens(self) -> None:
        """As another process."""
        self._lives += 1
        for queue in self.names:
            name = f"c{self.name}-{self._lives}-{queue}"
            producer = ProducerSequence(None, names=partial(str, name), chance=self.chance)
            self.queues[queue] = FifoSteps(queue, self.settings, producer, self.chance)

    def _act(self) -> None:
        if self.stage.phase is not Phase.LOAD:
            return
        if self.chance.random() < 0.5:
            self.run(self._puts_one())
        elif self.chance.random() < 0.7:
            self._steps(self._takes_one())
        else:
            self._steps(self._only_puts())

    def _puts_one(self) -> Steps[None]:
        self._count += 1
        values = [f"{self.name}/{self._count}/{at}" for at in range(self.chance.choice((1, 1, 3)))]
        self.all.asked.update(dict.fromkeys(values))
        steps = self.queues[self.chance.choice(SOURCES)]
        try:
            yield from steps.put_many([one.encode() for one in values], None, 0.0, SECONDS, None)
        except FAILURES:
            return
        self.all.sure.update(dict.fromkeys(values))

    def _steps(self, steps: Steps[None]) -> None:
        """One step, in which it may die."""
        run = Run(self, steps, lambda _: None)
        if self.chance.random() < DIES:
            self.after(self.some(seconds(2)), lambda: self._dies(run))
        run.go(None)

    def _dies(self, run: Run) -> None:
        run.end()
        self.opens()

    def _takes_one(self) -> Steps[None]:
        order = self.chance.sample(SOURCES, self.chance.choice((1, 1, 2)))
        try:
            yield from self.step(order, TARGETS, self.chance.choice((1, 3)))
        except FAILURES:
            return

    def _only_puts(self) -> Steps[None]:
        """A step that takes nothing."""
        self._count += 1
        parts, value = StepParts(), f"{self.name}/{self._count}/alone"
        self.all.asked[value] = None
        for target in TARGETS:
            parts.put(self.queues[target], value.encode(), None, None, None, 0.0)
        try:
            yield from parts.commit(SECONDS, self.chance.choice((0.5 - SECONDS, 0.0, HOLD)))
        except FAILURES as error:
            if isinstance(error, SnowmeltError) and error.definite:
                self.all.never[value] = None
        else:
            self.all.sure[value] = None

    def step(self, sources: Sequence[str], targets: Sequence[str], most: int) -> Steps[bool]:
        """Whether it took anything."""
        parts, queues = StepParts(), dict(self.queues)
        taken: list[tuple[FifoSteps, LeasedItems]] = []
        for name in sources:
            delivered = yield from self._leased(queues[name], most)
            if delivered is not None:
                parts.take(Told(queues[name]), delivered, None)
                taken.append((queues[name], delivered))
                for value in values_of(delivered).values():
                    for target in targets:
                        parts.put(queues[target], value.encode(), None, None, None, 0.0)
        if not taken:
            return False
        yield pause(self.some(seconds(1)))
        try:
            yield from parts.commit(SECONDS, self.chance.choice((0.5 - SECONDS, 0.0, HOLD)))
        except FAILURES:
            for steps, delivered in taken:
                word = LeaseUpdate(delivered.token, back=delivered.positions)
                yield from steps.tell(delivered, word)
            raise
        self.all.committed += 1
        return True

    def _leased(self, steps: FifoSteps, most: int) -> Steps[LeasedItems | None]:
        wait = Wait(self.chance.choice((0.0, 0.5)))
        answer = yield from steps.ask_lease(most, BYTES, wait, ahead=False, before=-1)
        if answer is None or not answer.leased.token:
            return None
        return (yield from steps.delivered(answer.leased, answer.asked, BYTES))

    # --- at the end -------------------------------------------------------------------------------

    def close(self) -> Steps[None]:
        """Brings it all to its end; the parts are told above."""
        self.opens()
        parts: list[Callable[[], Steps[None]]] = [self._drains, partial(self._deletes, SOURCES)]
        for name in TARGETS:
            parts += partial(self.reads, (name,)), partial(self._deletes, (name,))
        vain = 0
        while vain < LOST_AFTER:
            try:
                while parts:
                    yield from parts[0]()
                    parts.pop(0)
            except FAILURES:
                vain += 1
                yield pause(seconds(1))
            else:
                self.all.drained = True
                return

    def _drains(self) -> Steps[None]:
        empty = False
        while not empty:
            while (yield from self.step(SOURCES, TARGETS, 20)):
                pass
            empty = not (yield from self._holds(SOURCES))
            yield pause(seconds(OPEN_FOR if empty else 1))

    def _deletes(self, queues: Sequence[str]) -> Steps[None]:
        for name in queues:
            while True:
                try:
                    yield from delete(name, False, False, SHORT)
                except NoSuchQueue:
                    break
                except NotEmpty as error:  # a part is not done: its queue may be away
                    self.all.waits = f"{name} is not deleted: {error}"
                    yield from self._holds(TARGETS)
            self.all.waits = ""

    def _holds(self, queues: Sequence[str]) -> Steps[bool]:
        """Whether something is in one of them, or may come back; raises for one that is away."""
        holds = False
        for name in queues:
            status = yield from self.queues[name].stats(SHORT)
            if status.away:
                raise Unavailable(f"partitions {status.away} of {name} can't be asked")
            staged = status.staged if self.all.awaits else 0
            holds = holds or bool(status.ready or status.leased or status.delayed or staged)
        return holds

    def reads(self, targets: Sequence[str]) -> Steps[None]:
        """Takes all that is in them."""
        while True:
            for name in targets:
                while (yield from self._takes(name)):
                    pass
            if not (yield from self._holds(targets)):
                return
            yield pause(seconds(1))

    def _takes(self, target: str) -> Steps[bool]:
        steps = self.queues[target]
        delivered = yield from self._leased(steps, 100)
        if delivered is None:
            return False
        self.all.came.setdefault(target, {}).update(values_of(delivered))
        yield from steps.tell(delivered, LeaseUpdate(delivered.token, done=delivered.positions))
        return True


class StepUsers:
    """All of a life; when the load is over one of them brings it to its end."""

    waits: ClassVar[str] = "the steps of the queues x and y are not done yet"

    def __init__(self, stage: Stage, ledger: StepLedger) -> None:
        self._stage = stage
        self.ledger = ledger
        self.alone = False
        """Whether each queue has one copy, in one partition: its home is missed with its node."""
        self._over = False

    def add(self, dice: Random, nodes: int, end: Instant) -> None:
        """Who puts, and who takes steps."""
        settings = QueueSettings(
            replicas=dice.randint(1, nodes),
            lease=seconds(3),
            deliveries_max=1_000,
            partitions=dice.choice((1, 1, 2)),
        )
        if self.alone:
            settings = msgspec.structs.replace(settings, replicas=1, partitions=1)
        users: list[StepUser] = []
        for number in range(dice.randint(2, 4)):
            one = StepUser(self._stage, f"z{number}", Random(dice.random()), self.ledger)
            one.settings = settings
            one.opens()
            users.append(one)
            count = dice.choice((8, 20, 40))
            one.begin(sorted([Instant(dice.randrange(end)) for _ in range(count)]))
        self.closes(end, users[0], users, users[0].close)

    def closes(
        self, at: Instant, one: User, users: Sequence[User], script: Callable[[], Steps[None]]
    ) -> None:
        """This one brings it to its end, when nobody is busy any more."""
        world = self._stage.world

        def close() -> None:
            if any(one.busy for one in users):
                world.at(Instant(world.now + seconds(1)), close)
            else:
                one.run(closed())

        def closed() -> Steps[None]:
            yield from script()
            self._over = True

        world.at(at, close)

    @property
    def unsettled(self) -> str:
        """What is not over yet."""
        return "" if self._over else self.ledger.waits or self.waits


class StepLife(QueueLife):
    """A life of queues with some from which items go to others in steps."""

    dice: ClassVar[str] = "steps"
    ends_in: ClassVar[float] = OPEN_FOR + HOLD
    """So many seconds longer it takes, for what is staged."""

    def users(self, stage: Stage, *, keeps: bool) -> StepUsers:
        """Those who take steps."""
        return StepUsers(stage, StepLedger(keeps, awaits=keeps and not self._wrong_dates))

    def populate(self, world: World) -> None:
        super().populate(world)
        hurt = any(isinstance(one, HURTS) for one in self._scenario.faults)
        self.steps = self.users(self._stage, keeps=not hurt)
        nodes, end = len(self._scenario.nodes), self._scenario.faults_end
        self.steps.add(self._dice(self.dice), nodes, end)

    @property
    def bound(self) -> Duration:
        return Duration(super().bound + seconds(self.ends_in))

    def unsettled(self, world: World) -> str:
        """At rest when what is in those queues was taken, too."""
        steps = "" if self._over else self.steps.unsettled
        return self.steps.ledger.waits or super().unsettled(world) or steps

    def judge(self, world: World) -> None:
        super().judge(world)
        self.steps.ledger.judge()
