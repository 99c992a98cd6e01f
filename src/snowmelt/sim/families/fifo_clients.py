"""Those who put into the queues of a simulated world and get from them: scripts over shipped steps.

A producer puts batches, mostly under sequence numbers of its own, and asks again under the same
number until it is told that they are in. A consumer leases, and then does what people do:
acknowledges all of it or a part, gives some back, asks for more time, or is never heard of again.
Some fetch so late that the items are with others by then.
"""

from functools import partial
from random import Random
from typing import Any, Final

import msgspec

from snowmelt.check.history import Ended
from snowmelt.client.connection.steps import Query, Steps
from snowmelt.client.fifo.steps import FifoSteps
from snowmelt.client.leases.delivered import Delivered
from snowmelt.client.leases.steps import Word
from snowmelt.client.queue.options import Producer as Numbers
from snowmelt.core.errors import SnowmeltError, StateError, Unavailable, Unreachable
from snowmelt.core.instant import SECOND, Duration, Instant, later, milliseconds, seconds
from snowmelt.core.interval import Interval
from snowmelt.protocols.fifo import calls
from snowmelt.sim.families.fifo_actors import DELAY, PAUSE, Phase, Stage, intervals
from snowmelt.sim.families.fifo_ledger import Asked, Held, Ledger
from snowmelt.sim.families.fifo_load import Load
from snowmelt.sim.families.fifo_programs import Program, pause, places
from snowmelt.sim.families.shipped import Done, Interrupted

LATE_IN_DRAIN: Final = 0.2
"""How many leases are read late when the queue is being emptied, at most."""
LONG: Final = seconds(15)
"""The longest that some gets wait, and are asked again when their answer is lost."""
USUAL: Final = Load(theme="everything")
FAILURES: Final = (SnowmeltError, Interrupted)
"""What a call of a person ends with, if not with its answer."""


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
        """Puts from now on."""
        for at in self._times:
            self.stage.world.at(max(at, self.now), self._begin)

    def put(self, sequence: int) -> None:
        """Puts what comes next, under this number."""
        raise NotImplementedError

    def _begin(self) -> None:
        if self.stage.phase is Phase.LOAD:
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
        count = chance.choice((1, 1, 2, min(5, most), chance.randint(1, most)))
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
        batch = Asked(self.name, sequence, bodies, headers, due, self.now)
        self.ledger.asked(batch)
        self.unfinished[sequence] = None
        patience = 0.0
        if chance.random() < self.load.waits:
            patience = self.some(self.load.patience) / SECOND
        run = self.run(self._put(batch, labels, delay / SECOND, patience))
        if chance.random() < 0.05:
            self.after(self.some(milliseconds(chance.choice((5, 50, 2_000)))), run.interrupt)

    def _anywhere(self) -> int:
        """A number that it never used, in one of some regions."""
        while True:
            number = self.chance.randrange(4) * 2**40 + self.chance.randrange(200)
            if not self.ledger.has_asked(self.name, number):
                return number

    def _put(
        self, batch: Asked, labels: dict[str, str], delay: float, patience: float
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
                        self._refused(batch, str(error))
                    break
                yield pause(self.some(seconds(1)))
            else:
                self._told(batch, first)
                certain = False
                if self.chance.random() > 0.05 or not (self.numbered and self._loads):
                    break  # else as if it had not been heard
        self.unfinished.pop(batch.sequence, None)

    def _attempt(
        self, batch: Asked, labels: dict[str, str], delay: float, patience: float
    ) -> Steps[int]:
        """One call of a person; the position of the first item."""
        number = batch.sequence if self.numbered else None
        if self.chance.random() < 0.3:
            asked = [self.steps.one(body, labels, delay, patience) for body in batch.bodies]
            some = [one.what for one in asked]
            return (yield from self.steps.put(some, asked[0].wait, number))[0]
        put = self.steps.put_many(list(batch.bodies), labels, delay, patience, number)
        where = yield from put
        return where.start if where.size else -1

    def _gives_up(self, batch: Asked, error: Exception) -> bool:
        passing = isinstance(error, Unavailable | Unreachable) or not isinstance(error, StateError)
        tired = not passing and self.chance.random() < 0.7
        return tired or not (self.numbered and self._loads) or batch.ended is Ended.SUCCEEDED

    @property
    def _loads(self) -> bool:
        return self.stage.phase is Phase.LOAD

    def _refused(self, batch: Asked, why: str) -> None:
        """It is told that nothing of it is in the queue, or ever will be."""
        if batch.ended is Ended.SUCCEEDED:
            text = f"{batch.values[0]} is in the queue, and was said to be refused: {why}"
            self.ledger.wrong(text, self.name)
        self.ledger.refused(batch, why, self.now)

    def _told(self, batch: Asked, first: int) -> None:
        """It is told that all of it is in the queue, where a node said it is."""
        if batch.ended is not Ended.SUCCEEDED:
            self.ledger.wrong(f"{batch.values[0]} is in, it is told; no node said so", self.name)
        if first >= 0 and batch.start is not None and first != batch.start:
            text = f"{batch.values[0]} is at {batch.start}, and is told to be at {first}"
            self.ledger.wrong(text, self.name)


class Consumer(Program):
    """Leases, works, and says what became of it."""

    def __init__(
        self, stage: Stage, name: str, chance: Random, ledger: Ledger, load: Load = USUAL
    ) -> None:
        self._makes = chance.random() < 0.7
        super().__init__(stage, name, chance, ledger)
        self.load = load
        self.delays = True
        """Whether some of what it gives back is for later."""
        self._with_next: tuple[Delivered, Word] | None = None
        """What its next get says of an earlier lease."""

    def opened(self) -> FifoSteps:
        """Some know nothing of a queue but its name."""
        settings = self.ledger.settings if self._makes else None
        return FifoSteps(self.queue, settings, self.producer(), self.chance)

    def begin(self) -> None:
        """Gets from now on, until the queue is empty."""
        self.run(self._work())

    def query(self, step: Query, told: Done) -> None:
        """Some read what lies elsewhere so late that it is with others by then."""
        if isinstance(step.body, calls.Fetch) and self.chance.random() < self._late:
            wait = self.some(Duration(2 * self.ledger.settings.lease))
            self.after(wait, partial(super().query, step, told))
        else:
            super().query(step, told)

    @property
    def _late(self) -> float:
        drains = self.stage.phase is Phase.DRAIN  # then all is to be done in time
        return min(self.load.late, LATE_IN_DRAIN) if drains else self.load.late

    def _work(self) -> Steps[None]:
        while self.ledger.drained is None or self._with_next is not None:
            if self.stage.phase is Phase.REST and self._with_next is None:
                yield pause(PAUSE)
                continue
            if self.stage.phase is Phase.LOAD:
                self.interrupts()
            try:
                delivered = yield from self._get()
            except FAILURES:
                delivered = None
            if delivered is None:
                yield pause(PAUSE)
            else:
                yield from self._decide(delivered, self.got(delivered))

    def _get(self) -> Steps[Delivered | None]:
        chance = self.chance
        waits = LONG if chance.random() < 0.3 and self.stage.phase is Phase.LOAD else DELAY
        patience = self.some(waits) / SECOND if chance.random() < 0.8 else 0.0
        items, size = chance.choice((1, 5, 20, 100)), chance.choice((1, 60, 1 << 20, 1 << 20))
        if self._with_next is None:
            return (yield from self.steps.get_many(items, size, patience))[0]
        (before, word), self._with_next = self._with_next, None
        if not word.back and chance.random() < 0.5:
            done = before.open_in(None)
            delivered = yield from self.steps.get_after(before, items, size, patience)
            if not before.lost:
                self.told_done(before, done)
            return delivered
        delivered, refused = yield from self.steps.get_many(items, size, patience, word)
        if refused is None:
            self.told_done(before, word.done)
        return delivered

    # --- what becomes of it -----------------------------------------------------------------------

    def _decide(self, delivered: Delivered, held: Held) -> Steps[None]:
        if len(held.seen) < len(held.positions) and self.load.late > self.chance.random():
            self.describe()  # what could not be had is somebody's reason to look how the queue is
        lease, share, work = self.ledger.settings.lease, 1.0, self.load.work
        if self.stage.phase is Phase.LOAD:
            way = self.chance.random()
            if way < 0.08:  # it dies, and another begins in its place
                self.steps = self.opened()
                yield pause(self.some(lease))
                return
            if way < 0.08 + self.load.extends:
                yield from self._extend(delivered)
                work = lease
            elif way < 0.14 + self.load.extends:  # it takes too long, perhaps
                work = Duration(2 * lease)
            else:
                share = 1.0 if way < 0.7 else self.chance.choice((0.0, 0.3, 0.6))
            yield pause(self.some(work))
        self.believes(delivered)
        yield from self._end(delivered, share)

    def _extend(self, delivered: Delivered) -> Steps[None]:
        try:
            yield from self.steps.extend(delivered)
        except FAILURES:
            return
        self.believes(delivered)

    def _end(self, delivered: Delivered, share: float) -> Steps[None]:
        """Acknowledges this share of what it has, and gives back the rest, or leaves it."""
        chance, load = self.chance, self.stage.phase is Phase.LOAD
        there = places(delivered.open_in(None))
        done, rest = there[: round(share * len(there))], there[round(share * len(there)) :]
        if load and chance.random() < 0.2:
            rest = rest[: len(rest) // 2]
        failed = load and chance.random() < 0.6
        reason = "it failed".ljust(self.load.reason, "!") if failed else ""
        delayed = load and chance.random() < 0.3 and self.delays
        delay = self.some(seconds(3)) if delayed else Duration(0)
        token = delivered.token
        word = Word(token, done=intervals(done), back=intervals(rest), delay=delay, reason=reason)
        if chance.random() < 0.4 and self.stage.phase is not Phase.REST:
            self._with_next = delivered, word
            return
        tell = self._tell_apart if chance.random() < 0.4 else self._tell
        for _ in range(chance.choice((1, 2))):
            try:
                yield from tell(delivered, word)
            except FAILURES as error:
                if isinstance(error, SnowmeltError) and error.definite:
                    return
            else:
                return

    def _tell(self, delivered: Delivered, word: Word) -> Steps[None]:
        """In one word."""
        yield from self.steps.settle(delivered, word)
        self.told_done(delivered, word.done)

    def _tell_apart(self, delivered: Delivered, word: Word) -> Steps[None]:
        """Piece by piece."""
        for one in word.done:
            done = delivered.open_in(one)
            yield from self.steps.ack(delivered, one)
            self.told_done(delivered, done)
        for one in word.back:
            yield from self._give_back(delivered, one, word)

    def _give_back(self, delivered: Delivered, where: Interval, word: Word) -> Steps[None]:
        delay: Any = word.delay / SECOND
        yield from self.steps.give_back(delivered, where, delay, word.reason)
