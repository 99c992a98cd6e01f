"""Two more kinds of users: a group's reader with a checkpoint, and one who stages and publishes.

The reader does what a Spark stream does. It writes down what it is given before it works, works,
notes that it is done, and says so with its next call. It crashes between any two of these, goes on
from what it had written down, and must be told the same. The stager stages its batches one by one,
perhaps again, as a task that is tried anew, leaves some behind, and publishes under one number
until it is told that it is done.
"""

from functools import partial
from random import Random
from typing import Any, Final

from snowmelt.check.history import Ended
from snowmelt.core.batch import Batch
from snowmelt.core.instant import Duration, Instant, milliseconds, seconds
from snowmelt.core.outcome import Failed, Outcome, Succeeded
from snowmelt.protocols.fifo import calls
from snowmelt.sim.families.fifo_actors import PATIENCE, PAUSE, Phase, Stage, User
from snowmelt.sim.families.fifo_clients import Putter
from snowmelt.sim.families.fifo_ledger import Asked, Held, Ledger

Bodies = tuple[bytes, ...]
HOURS: Final = seconds(3600)


class Reader(User):
    """The only reader of its group."""

    def __init__(self, stage: Stage, name: str, chance: Random, ledger: Ledger) -> None:
        super().__init__(stage, name, chance, ledger)
        self._lives = 0
        self._begun = Instant(0)
        """When its group began anew."""
        self._lease = 0
        self._done = 0
        self._planned = 0
        self._held: Held | None = None
        self._called: Instant | None = None
        self._unsaid: tuple[Held, Instant] | None = None

    def begin(self) -> None:
        """Opens, and reads from then on."""
        self.open(self._advance)

    def _advance(self) -> None:
        """Says that it is done with what it has noted, and asks what comes next."""
        if self.ledger.drained is not None:
            return
        if self.stage.phase is Phase.REST:
            self.after(PAUSE, self._advance)
            return
        if self._called is None:  # any of the calls from here on may be the one that takes
            self._called = self.now
        chance = self.chance
        ask = calls.Assign(
            queue=self.queue,
            group=self.name,
            lease=self._lease,
            reader=f"life-{self._lives}",
            done=self._done,
            items_max=chance.choice((0, 1, 7, 50, 1000)),
            bytes_max=chance.choice((60, 1 << 20, 1 << 20)),
        )
        self.ask(ask, self._told)

    def _told(self, outcome: Outcome[Any], at: Instant) -> None:
        match outcome:
            case Succeeded(calls.Assigned() as told):
                self._acknowledged(at)
                self.ledger.marks.setdefault(self.name, []).append((at, self._done))
                if told.given == self._done:
                    self.after(self.some(seconds(1)), self._advance)
                elif self.chance.random() < 0.1:  # it crashes before it has written it down
                    self._lives += 1
                    self.after(self.some(seconds(1)), self._advance)
                else:
                    self._lease, self._planned = told.lease, told.given
                    self._locate()
            case Failed(reason) if reason.startswith(("GroupHeld", "LeaseLost")):
                self._refused(reason)
            case _:
                self.after(PAUSE, self._advance)

    def _acknowledged(self, at: Instant) -> None:
        if self._unsaid is not None:
            held, called = self._unsaid
            done = tuple(where for where in held.positions if where in held.seen)
            self.ledger.settled(held, done, called, at, Ended.SUCCEEDED)
            self._unsaid = None

    def _locate(self) -> None:
        """Works on what it has written down: the first time, or again after a crash."""
        ask = calls.Locate(self.queue, self.name, self._lease, self._done, self._planned)
        self.ask(ask, self._located)

    def _located(self, outcome: Outcome[Any], at: Instant) -> None:
        match outcome:
            case Succeeded(calls.Located(spans, lost)):
                positions = tuple(where for one in spans for where in range(one.start, one.stop))
                if self._held is None:
                    assert self._called is not None
                    self._held = self.ledger.assigned(
                        self.name, self._lease, self._called, spans, at
                    )
                self._compare(self._held, positions, lost)
                seen = partial(self.ledger.seen, held=self._held)
                worked = partial(self._worked, positions, self._held)
                self.fetch(list(spans), seen, worked)
            case Failed(reason) if reason.startswith("LeaseLost"):
                self._refused(reason)
            case _:
                self.after(PAUSE, self._locate)

    def _compare(self, held: Held, positions: tuple[int, ...], lost: int) -> None:
        """What is told again is the same, but for what is lost."""
        ledger = self.ledger
        if lost and not ledger.excuses.may_lose:
            ledger.wrong(f"{lost} items of {self.name} are lost, it says", self.name)
        there = dict.fromkeys(positions)
        left = tuple(where for where in held.positions if where in there)
        undone = ledger.lapsed_since(held.called)
        if positions != (left if lost else held.positions) and not undone:
            text = f"{self.name} was given {held.positions}, and is told {positions} later"
            ledger.wrong(text, self.name)

    def _worked(self, positions: tuple[int, ...], held: Held) -> None:
        complete = all(where in held.seen for where in positions)
        if not complete or self.chance.random() < 0.15:  # or it crashes before it notes that
            self._lives += 1
            self.after(self.some(seconds(1)), self._locate)
            return
        self._done = self._planned
        self._held, self._called = None, None
        self._unsaid = held, self.now
        self.ledger.acking(held, tuple(where for where in held.positions if where in held.seen))
        self.after(self.some(milliseconds(500)), self._advance)

    def _refused(self, reason: str) -> None:
        """Nobody else begins this group; but an old call of its first lives may come late."""
        self.ledger.releasing(self.now)
        self.ledger.marks.pop(self.name, None)
        if (self._done or not self._lives) and not self.ledger.lapsed_since(self._begun):
            self.ledger.wrong(f"{self.name} is refused: {reason}", self.name)
        if self._held is not None:
            self.ledger.giving_back(self._held, self._held.positions)
        if self._unsaid is not None:
            self.ledger.giving_back(self._unsaid[0], self._unsaid[0].positions)
        self._lease, self._done, self._planned = 0, 0, 0
        self._held, self._unsaid, self._called = None, None, None
        self._lives += 1
        self._begun = self.now
        self.ask(calls.Release(self.queue, self.name), lambda _, __: self._advance())


class Stager(Putter):
    """Stages its batches, and publishes them together."""

    def __init__(
        self, stage: Stage, name: str, chance: Random, ledger: Ledger, times: list[Instant]
    ) -> None:
        super().__init__(stage, name, chance, ledger, times)
        self._stages = 0
        self._short: dict[int, None] = {}

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
        batch = Asked(self.name, sequence, bodies, b"", Instant(0), self.now)
        if bodies:
            self.ledger.asked(batch)
        self.unfinished[sequence] = None
        if chance.random() < 0.2:  # an attempt that nobody names: it may never be seen
            self._hold((b"never",), HOURS, lambda _, __: None)
        self._stage(batch, parts, ())

    def _hold(self, bodies: Bodies, hold: Duration, then: Any) -> None:
        joined = Batch.of(bodies)
        self._stages += 1
        put = calls.Put(
            queue=self.queue,
            producer=f"{self.name}-stages",
            sequence=self._stages,
            offsets=bytes(joined.offsets),
            blob=bytes(joined.blob),
            hold=hold,
        )
        self.ask(put, then, PATIENCE, self.store if self.chance.random() < 0.8 else None)

    def _stage(
        self, batch: Asked, parts: list[Bodies], receipts: tuple[calls.Receipt, ...]
    ) -> None:
        """Part after part; a part may be staged twice, and the second one named."""
        if len(receipts) == len(parts):
            self._publish(batch, parts, receipts)
            return

        def told(outcome: Outcome[Any], _: Instant) -> None:
            match outcome:
                case Succeeded(calls.Receipt() as receipt) if self.chance.random() < 0.9:
                    self._stage(batch, parts, (*receipts, receipt))
                case _:
                    self._again(batch, partial(self._stage, batch, parts, receipts))

        hold = self.chance.choice((seconds(3), HOURS, HOURS))
        if hold != HOURS:
            self._short[batch.sequence] = None
        self._hold(parts[len(receipts)], hold, told)

    def _publish(
        self, batch: Asked, parts: list[Bodies], receipts: tuple[calls.Receipt, ...]
    ) -> None:
        ask = calls.Publish(self.queue, self.name, batch.sequence, receipts)

        def told(outcome: Outcome[Any], at: Instant) -> None:
            match outcome:
                case Succeeded(calls.PutDone() as done):
                    self.ledger.put(batch, done, at)
                    self._published(batch, parts, receipts)
                case Failed(reason) if reason.startswith("NotStaged"):
                    self._gone(batch, reason)
                    self._again(batch, partial(self._stage, batch, parts, ()))
                case _:
                    self._again(batch, partial(self._publish, batch, parts, receipts))

        self.ask(ask, told)

    def _gone(self, batch: Asked, reason: str) -> None:
        ledger = self.ledger
        undone = ledger.lapsed_since(batch.called) or ledger.excuses.any_hurt
        if batch.sequence in self._short or undone or ledger.early:
            return
        ledger.wrong(f"what {self.name} staged for hours is gone: {reason}", self.name)

    def _published(
        self, batch: Asked, parts: list[Bodies], receipts: tuple[calls.Receipt, ...]
    ) -> None:
        way = self.chance.random()
        if way < 0.1:  # as if it had not been heard
            self._again(batch, partial(self._publish, batch, parts, receipts))
        elif way < 0.2:  # as after a crash: all is staged anew, under the same number
            self._again(batch, partial(self._stage, batch, parts, ()))
        else:
            self.unfinished.pop(batch.sequence, None)

    def _again(self, batch: Asked, act: Any) -> None:
        if self.stage.phase is Phase.LOAD:
            self.after(Duration(self.some(seconds(1))), act)
        else:
            self.unfinished.pop(batch.sequence, None)
