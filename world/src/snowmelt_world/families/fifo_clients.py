"""Those who put into the queues of a simulated world and get from them: scripts over shipped steps.

A producer puts batches, mostly under sequence numbers of its own, and asks again under the same
number until it is told that they are in. Consumers are as everywhere (`consumers.py`, `loops.py`);
some fetch so late that the items are with others by then.
"""

from functools import partial
from random import Random
from typing import Final

import msgspec

from snowmelt.client.connection.steps import Query, Steps
from snowmelt.client.fifo.steps import FifoSteps
from snowmelt.client.leases.delivered import LeasedItems
from snowmelt.client.queue.options import ProducerSequence as Numbers
from snowmelt.core.errors import SnowmeltError, StateError, Unavailable, Unreachable
from snowmelt.core.instant import SECOND, Duration, Instant, later, milliseconds, seconds
from snowmelt.protocols.queue.api import calls
from snowmelt.protocols.queue.state.tails import PRIORITY_BITS
from snowmelt_world.check.history import Ended
from snowmelt_world.families import consumers, loops
from snowmelt_world.families.consumers import Habits
from snowmelt_world.families.fifo_actors import DELAY, Phase, Stage
from snowmelt_world.families.fifo_load import Load
from snowmelt_world.families.fifo_programs import Program
from snowmelt_world.families.fifo_words import Ledger
from snowmelt_world.families.programs import FAILURES, pause
from snowmelt_world.families.queue_ranked import steps_for
from snowmelt_world.families.shipped import Done
from snowmelt_world.judge.values import Put

LATE_IN_DRAIN: Final = 0.2
"""How many leases are read late when the queue is being emptied, at most."""
LONG: Final = seconds(15)
"""The longest that some gets wait, and are asked again when their answer is lost."""
USUAL: Final = Load(theme="everything")


class Putter(Program):
    """Puts something, at times drawn before, while there is load."""

    def __init__(
        self,
        stage: Stage,
        name: str,
        chance: Random,
        ledger: Ledger,
        times: list[Instant],
        load: Load = USUAL,
    ) -> None:
        self.numbered = chance.random() < 0.8
        """Whether it numbers its puts itself."""
        super().__init__(stage, name, chance, ledger)
        self.load = load
        self._times = times
        self._sequence = 0
        self.unfinished: dict[int, None] = {}

    def producer(self) -> Numbers:
        """It goes on with its own numbers after a crash."""
        return Numbers(self.name if self.numbered else None, names=self.new_name)

    def begin(self) -> None:
        self.begin_at(self._times, self._begin)

    def put(self, sequence: int) -> None:
        raise NotImplementedError

    def fall(self) -> None:
        """What it was about to put it puts no more."""
        super().fall()
        self.unfinished.clear()

    def _begin(self) -> None:
        if self.loads:
            self._sequence += 1
            self.put(self._sequence - 1)


class Producer(Putter):
    """Puts its batches, several at a time as with threads."""

    items_max = 0
    """The most in one batch; 0 for as many as the load says."""
    delays = True
    """Whether some of its items are for later."""

    def put(self, sequence: int) -> None:
        """A batch of its own size and kind."""
        chance, most = self.chance, self.items_max or self.load.items
        count = self._count(most)
        if self.load.sparse:
            sequence = self._anywhere()
        bodies = tuple(
            f"{self.name}/{sequence}/{index}".encode()
            + b"." * chance.choice((0, 0, 3, self.load.body))
            for index in range(min(count, most))
        )
        labels = {"from": f"{self.name}/{sequence // 3}"} if chance.random() < 0.3 else {}
        headers = msgspec.msgpack.encode(labels) if labels else b""
        delayed = chance.random() < 0.12 and self.delays
        delay = self.some(DELAY) if delayed else Duration(0)
        due = later(self.now, delay) if delay else Instant(0)
        values = tuple(body.decode() for body in bodies)
        batch = Put(self.name, values, headers, self.now, number=sequence, due=due)
        self.ledger.asked(batch)
        self.unfinished[sequence] = None
        patience = 0.0
        if chance.random() < self.load.waits:
            patience = self.some(self.load.patience) / SECOND
        run = self.run(self._put(batch, labels, delay / SECOND, patience))
        if chance.random() < 0.05:
            self.after(self.some(milliseconds(chance.choice((5, 50, 2_000)))), run.interrupt)

    def _count(self, most: int) -> int:
        return self.chance.choice((1, 1, 2, min(5, most), self.chance.randint(1, most)))

    def _anywhere(self) -> int:
        """A number that it never used, in one of some regions."""
        while True:
            number = self.chance.randrange(4) * 2**40 + self.chance.randrange(200)
            if all((one.process, one.number) != (self.name, number) for one in self.ledger.puts):
                return number

    def _put(
        self, batch: Put, labels: dict[str, str], delay: float, patience: float
    ) -> Steps[None]:
        """Until it is told that it is in, or gives up."""
        certain = True
        while True:
            try:
                first = yield from self._attempt(batch, labels, delay, patience)
            except FAILURES as error:
                definite = isinstance(error, SnowmeltError) and error.definite
                certain = certain and definite
                if self._gives_up(batch, error):
                    if certain:
                        self.told_refused(batch, error)
                    break
                yield pause(self.some(seconds(1)))
            else:
                self._told(batch, first)
                certain = False
                if self.chance.random() > 0.05 or not (self.numbered and self.loads):
                    break  # else as if it had not been heard
        self.unfinished.pop(batch.number, None)

    def _attempt(
        self, batch: Put, labels: dict[str, str], delay: float, patience: float
    ) -> Steps[int]:
        """One call of a person; the position of the first item."""
        number = batch.number if self.numbered else None
        if self.chance.random() < 0.3:
            asked = [self.steps.one(body, None, labels, delay, patience) for body in batch.bodies]
            some = [one.what for one in asked]
            told = yield from self.steps.put(some, asked[0].wait, number)
            return min(zip([one.priority for one in some], told, strict=True))[1]
        put = self.steps.put_many(list(batch.bodies), labels, delay, patience, number)
        where = (yield from put)[0]
        return where.start if where.size else -1

    def _gives_up(self, batch: Put, error: Exception) -> bool:
        passing = isinstance(error, Unavailable | Unreachable) or not isinstance(error, StateError)
        tired = not passing and self.chance.random() < 0.7
        return tired or not (self.numbered and self.loads) or batch.ended is Ended.SUCCEEDED

    def _told(self, batch: Put, first: int) -> None:
        """It is told that all of it is in the queue, where a node said it is."""
        if batch.ended is not Ended.SUCCEEDED:
            self.ledger.wrong(f"{batch.values[0]} is in, it is told; no node said so", self.name)
        start = None if batch.start is None else batch.start % (1 << PRIORITY_BITS)
        if first >= 0 and start is not None and first != start:
            text = f"{batch.values[0]} is at {start}, and is told to be at {first}"
            self.ledger.wrong(text, self.name)


class Burster(Producer):
    """Puts some at one moment, a large one first mostly; also as soon as a node is in a new view.

    There they wait together for their queue's home, and are put in one turn when it is heard of.
    """

    _large = 0.0
    """How likely the next batch is large."""
    _at_work = False

    def begin(self) -> None:
        self._at_work = True
        super().begin()

    def hurry(self) -> None:
        if self._at_work and self.chance.random() < 0.5:
            self.after(self.some(milliseconds(20)), self._begin)

    def put(self, sequence: int) -> None:
        self._large = 0.6
        super().put(sequence)
        self._large = 0.2
        for _ in range(self.chance.choice((1, 2, 3))):
            self._sequence += 1
            super().put(self._sequence - 1)

    def _count(self, most: int) -> int:
        """What is large has no room in many a queue, and what is small has."""
        return most if self.chance.random() < self._large else 1


class Consumer(consumers.Consumer, Program):
    """Leases, works, and says what became of it."""

    steps: FifoSteps

    def __init__(
        self, stage: Stage, name: str, chance: Random, ledger: Ledger, load: Load = USUAL
    ) -> None:
        self._makes = chance.random() < 0.7
        super().__init__(stage, name, chance, ledger)
        self.load = load
        self.habits = Habits(load.work, load.extends, 0.06, LONG, load.reason)
        self._fetched = False
        """Whether its last question was for a part of a lease."""

    def opened(self) -> FifoSteps:
        """Some know nothing of a queue but its name."""
        asked_for = self.asked_for if self._makes else None
        cast = self.queue, asked_for, self.producer(), self.chance
        return steps_for(self.ledger.settings, *cast)

    def query(self, step: Query, told: Done) -> None:
        """Some read what lies elsewhere so late that it is with others by then.

        When the queue is being emptied only the first part of a lease may be: with a chance for
        each, a lease of twenty was nearly always late, and few were emptied in time (seed 94).
        """
        fetches, drains = isinstance(step.body, calls.Fetch), self.stage.phase is Phase.DRAIN
        goes_on, self._fetched = drains and self._fetched, fetches
        if fetches and not goes_on and self.chance.random() < self._late:
            wait = self.some(Duration(2 * self.ledger.settings.lease))
            self.after(wait, partial(super().query, step, told))
        else:
            super().query(step, told)

    def wants(self) -> tuple[int, int]:
        chance = self.chance
        return chance.choice((1, 5, 20, 100)), chance.choice((1, 60, 1 << 20, 1 << 20))

    def decide(self, delivered: LeasedItems) -> Steps[None]:
        """What could not be had is somebody's reason to look how the queue is."""
        held = self.held[delivered.token]
        if len(held.seen) < len(held.positions) and self.load.late > self.chance.random():
            self.describe()
        yield from super().decide(delivered)

    @property
    def _late(self) -> float:
        drains = self.stage.phase is Phase.DRAIN  # then all is to be done in time
        return min(self.load.late, LATE_IN_DRAIN) if drains else self.load.late


class Looper(loops.Looper, Consumer):
    """Loops, again and again."""
