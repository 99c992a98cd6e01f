"""Two more kinds of users: a group's reader with a checkpoint, and one who stages and publishes.

Both are scripts over the steps that ship (`client.queue.group_steps`, `staging_steps`).

The reader does what a Spark stream does. It writes down what it is given before it works, works,
notes that it is done, and says so with its next call. It crashes between any two of these, goes on
from what it had written down, and must be told the same. The stager stages its batches one by one,
perhaps again, as a task that is tried anew, leaves some behind, and publishes under one number
until it is told that it is done.
"""

from collections.abc import Iterable
from contextlib import suppress
from random import Random
from typing import Any, Final

from snowmelt.client.connection.steps import Steps
from snowmelt.client.queue.bodies import PutItems, parcels
from snowmelt.client.queue.group_steps import BEGINNING, GroupSteps, read
from snowmelt.client.queue.options import ProducerSequence as Numbers
from snowmelt.client.queue.staging_steps import publish, stage
from snowmelt.core.errors import GroupHeld, LeaseLost, NotStaged
from snowmelt.core.instant import SECOND, Instant, milliseconds, seconds
from snowmelt.core.outcome import Outcome, Succeeded
from snowmelt.protocols.queue.api.calls import Located, PublishStaged, PutDone, Receipt
from snowmelt_world.check.history import Ended
from snowmelt_world.families.fifo_actors import DELAY, PATIENCE, PAUSE, Phase, Stage
from snowmelt_world.families.fifo_clients import Putter
from snowmelt_world.families.fifo_programs import Program
from snowmelt_world.families.fifo_words import Ledger
from snowmelt_world.families.programs import FAILURES, pause
from snowmelt_world.families.queue_ranked import ByBody
from snowmelt_world.judge.positions import Held
from snowmelt_world.judge.values import Put

Bodies = tuple[bytes, ...]
HOURS: Final = 3600.0
SECONDS: Final = PATIENCE / SECOND


class Reader(Program):
    """The only reader of its group."""

    def __init__(self, stage: Stage, name: str, chance: Random, ledger: Ledger) -> None:
        super().__init__(stage, name, chance, ledger)
        self._lives = 0
        self._begun = Instant(0)
        """When its group began anew."""
        self._group = self._joins()
        self._done = BEGINNING
        self._planned = BEGINNING
        self._held: Held | None = None
        self._called: Instant | None = None
        self._unsaid: tuple[Held, Instant] | None = None

    @property
    def done(self) -> int:
        """How many items its group is done with."""
        return self._done.count

    def begin(self) -> None:
        """Reads from now on, until the queue is empty."""
        self.run(self._work())

    def _joins(self) -> GroupSteps:
        return GroupSteps(self.steps, self.name, f"life-{self._lives}")

    def _crashes(self) -> Steps[None]:
        """Another begins in its place, with what was written down."""
        self._lives += 1
        self.steps = self.opened()
        self._group = self._joins()
        yield pause(self.some(seconds(1)))

    def _work(self) -> Steps[None]:
        while self.ledger.drained is None:
            if self.stage.phase is Phase.REST:
                yield pause(PAUSE)
                continue
            if self.stage.phase is Phase.LOAD:
                self.interrupts()
            try:
                given = yield from self._advance()
                while given:
                    given = yield from self._works_on()
            except (GroupHeld, LeaseLost) as error:
                yield from self._refused(str(error))
            except FAILURES:
                yield pause(PAUSE)

    def _advance(self) -> Steps[bool]:
        """Says that it is done with what it has noted, and asks what comes next."""
        if self._planned != self._done:
            return True  # it is written down, and not done yet
        if self._called is None:  # any of the calls from here on may be the one that takes
            self._called = self.now
        chance = self.chance
        items, size = chance.choice((0, 1, 7, 50, 1000)), chance.choice((60, 1 << 20, 1 << 20))
        told = yield from self._group.advance(self._done, items, size, (), SECONDS)
        self._acknowledged()
        self.ledger.marks.setdefault(self.name, []).append((self.now, self._done.count))
        if told.end == self._done:
            yield pause(self.some(seconds(1)))
            return False
        if chance.random() < 0.1:  # it crashes before it has written it down
            yield from self._crashes()
            return False
        self._planned = told.end
        return True

    def _acknowledged(self) -> None:
        if self._unsaid is not None:
            held, called = self._unsaid
            done = tuple(where for where in held.positions if where in held.seen)
            self.ledger.settled(held, done, called, self.now, Ended.SUCCEEDED)
            self._unsaid = None

    def _works_on(self) -> Steps[bool]:
        """On what it has written down: the first time, or again after a crash; whether again."""
        told = yield from self._group.locate(self._done, self._planned, SECONDS)
        if self._held is None:
            assert self._called is not None
            self._held = self.ledger.planned(
                self.name, self._planned.lease, self._called, told.spans, self.now
            )
        held = self._held
        positions = tuple(where for one in told.spans for where in range(one.start, one.stop))
        self._compare(held, positions, told)
        reading = yield from read(self.queue, told.spans, 1 << 20, self.chance)
        for part in reading.parts:
            self.ledger.read(part, self.now, held)
        complete = all(where in held.seen for where in positions)
        if not complete or self.chance.random() < 0.15:  # or it crashes before it notes that
            yield from self._crashes()
            return True
        self._done, self._held, self._called = self._planned, None, None
        self._unsaid = held, self.now
        self.ledger.acking(held, tuple(where for where in held.positions if where in held.seen))
        yield pause(self.some(milliseconds(500)))
        return False

    def _compare(self, held: Held, positions: tuple[int, ...], told: Located) -> None:
        """What is told again is the same, but for what is lost."""
        ledger = self.ledger
        if told.lost and not ledger.excuses.may_lose:
            ledger.wrong(f"{told.lost} items of {self.name} are lost, it says", self.name)
        there = dict.fromkeys(positions)
        left = tuple(where for where in held.positions if where in there)
        undone = ledger.lapsed_since(held.called)
        if positions != (left if told.lost else held.positions) and not undone:
            text = f"{self.name} was given {held.positions}, and is told {positions} later"
            ledger.wrong(text, self.name)

    def _refused(self, reason: str) -> Steps[None]:
        """Nobody else begins this group; but an old call of its first lives may come late."""
        self.ledger.releasing(self.now)
        self.ledger.marks.pop(self.name, None)
        if (self._done.count or not self._lives) and not self.ledger.lapsed_since(self._begun):
            self.ledger.wrong(f"{self.name} is refused: {reason}", self.name)
        if self._held is not None:
            self.ledger.giving_back(self._held, self._held.positions)
        if self._unsaid is not None:
            self.ledger.giving_back(self._unsaid[0], self._unsaid[0].positions)
        self._done = self._planned = BEGINNING
        self._held, self._unsaid, self._called = None, None, None
        self._lives += 1
        self._begun = self.now
        self._group = self._joins()
        with suppress(*FAILURES):
            yield from self._group.release(SECONDS)


class Stager(Putter):
    """One who stages in parts, and publishes them together."""

    delays = False
    """Whether some of its items are for later."""

    def __init__(
        self, stage: Stage, name: str, chance: Random, ledger: Ledger, times: list[Instant]
    ) -> None:
        super().__init__(stage, name, chance, ledger, times)
        self._short: dict[int, None] = {}
        self._batches: dict[int, Put] = {}

    def hears(self, body: Any, called: Instant, outcome: Outcome[Any], at: Instant) -> None:
        """Of a publication, too."""
        super().hears(body, called, outcome, at)
        match body, outcome:
            case PublishStaged(sequence=sequence), Succeeded(PutDone() as done) if self.puts(body):
                self.ledger.done(self._batches[sequence], done, at)
            case _:
                pass

    def puts(self, ask: PublishStaged) -> bool:
        """Whether that puts a batch of it."""
        del ask
        return True

    def producer(self) -> Numbers:
        """A publication has a number of its own."""
        return Numbers(self.name, names=self.new_name)

    def put(self, sequence: int) -> None:
        """A batch in some parts, or in none."""
        chance = self.chance
        parts = [
            tuple(
                f"{self.name}/{sequence}/{part}/{index}".encode()
                for index in range(chance.choice((1, 3, 10)))
            )
            for part in range(chance.choice((0, 1, 1, 2, 3)))
        ]
        bodies = tuple(body for part in parts for body in part)
        values = tuple(body.decode() for body in bodies)
        delay = self.some(DELAY) if self.delays and chance.random() < 0.2 else 0
        due = Instant(self.now + delay if delay else 0)
        batch = Put(
            self.name, values, b"", self.now, number=sequence, sent=True, due=due, staged=True
        )
        self._batches[sequence] = batch
        if bodies:
            self.ledger.asked(batch)
        self.unfinished[sequence] = None
        run = self.run(self._work(batch, parts, delay / SECOND))
        if chance.random() < 0.05:
            self.after(self.some(seconds(1)), run.interrupt)

    def _work(self, batch: Put, parts: list[Bodies], delay: float) -> Steps[None]:
        if self.chance.random() < 0.2:  # an attempt that nobody names: it may never be seen
            with suppress(*FAILURES):
                yield from self._stage((b"never",), HOURS, delay)
        receipts: list[Receipt] = []
        while True:
            try:
                while len(receipts) < len(parts):
                    part = parts[len(receipts)]
                    receipts += yield from self._stage_next(batch, part, delay)
                yield from self.publishes(batch, receipts)
            except NotStaged as error:
                self._gone(batch, str(error))
                receipts.clear()
            except FAILURES:
                pass
            else:
                way = self.chance.random()
                if way >= 0.2:
                    break
                if way >= 0.1:  # as after a crash: all is staged anew, under the same number
                    receipts.clear()
            if self.stage.phase is not Phase.LOAD:
                break
            yield pause(self.some(seconds(1)))
        self.unfinished.pop(batch.number, None)

    def publishes(self, batch: Put, receipts: list[Receipt]) -> Steps[None]:
        """All of it, in one step."""
        yield from publish(self.steps, self.steps.producer, receipts, batch.number, SECONDS)

    def _stage_next(self, batch: Put, part: Bodies, delay: float) -> Steps[list[Receipt]]:
        """One part; at times it is staged twice, and the second one named."""
        hold = self.chance.choice((3.0, HOURS, HOURS))
        if hold != HOURS:
            self._short[batch.number] = None
        receipts = yield from self._stage(part, hold, delay)
        return receipts if self.chance.random() < 0.9 else []

    def _stage(self, bodies: Bodies, hold: float, delay: float) -> Steps[list[Receipt]]:
        own = Numbers(names=self.new_name)
        calls: Iterable[PutItems] = parcels(list(bodies))
        if isinstance(self.steps, ByBody):
            calls = yield from self.steps.parcels(bodies)
        return (yield from stage(self.steps, own, calls, None, delay, hold, SECONDS))

    def _gone(self, batch: Put, reason: str) -> None:
        ledger = self.ledger
        undone = ledger.lapsed_since(batch.called) or ledger.excuses.any_hurt
        if batch.number in self._short or undone or ledger.early:
            return
        ledger.wrong(f"what {self.name} staged for hours is gone: {reason}", self.name)
