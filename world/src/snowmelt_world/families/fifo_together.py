"""Programs of a simulated world whose callers share a queue: what they ask goes together.

The machine, the kinds and the driver are the shipped ones (`client/coalescing`): which tickets go
in one call, how an answer is shared out, what each is told when its time is over or its call is
refused. What is here is what waits and makes calls: scripts, as `tasks.py` has tasks.

Each caller is judged as if it were alone: its own put is where it is told, what it is told is
definitely not in the queue never comes out, its puts keep their order; what it got is its own, and
no other's; what it is told is acknowledged a node has taken.
"""

from collections.abc import Sequence
from functools import partial
from operator import attrgetter
from typing import Any, Final

import msgspec

from snowmelt.client.coalescing.joint import CallerRequest, CallKind, Value
from snowmelt.client.coalescing.joint_acks import Acks
from snowmelt.client.coalescing.joint_gets import Gets
from snowmelt.client.coalescing.joint_puts import Puts
from snowmelt.client.coalescing.tasks import CoalescedCallers
from snowmelt.client.coalescing.tickets import Bundle
from snowmelt.client.connection.steps import Query, Steps
from snowmelt.client.leases.delivered import LeasedItems
from snowmelt.client.leases.steps import ReturnOptions
from snowmelt.core.batch import Batch
from snowmelt.core.errors import SnowmeltError
from snowmelt.core.instant import SECOND, Instant, milliseconds, seconds
from snowmelt.core.outcome import Outcome, Succeeded
from snowmelt.protocols.queue.api import calls
from snowmelt.runtime.clock import shown, steady_now
from snowmelt_world.families.fifo_actors import DELAY, PAUSE, Phase
from snowmelt_world.families.fifo_clients import Consumer, Producer
from snowmelt_world.families.fifo_programs import Program
from snowmelt_world.families.programs import FAILURES, pause, places
from snowmelt_world.families.shipped import Done, Interrupted, Run
from snowmelt_world.judge.values import Put

USUALLY: Final = 1.0
"""The time-out that most callers have, so that their gets go together."""
FOREVER: Final = 1e6
"""The machine keeps the time of a ticket."""


class Caller:
    """Who waits for what its ticket brings, as an event loop's future does."""

    def __init__(self) -> None:
        self.done = False
        self.value: Value = None
        self._told: Done | None = None

    def tell(self, value: Value) -> None:
        """It is told this, unless it was told before, or has left."""
        if isinstance(value, Exception) and not isinstance(value, FAILURES):
            raise value  # nobody is told of a bug: the world is
        if not self.done:
            self.done, self.value = True, value
            if self._told is not None:
                self._told(value)

    def wait(self, told: Done) -> None:
        """Until it is told."""
        self._told = told
        if self.done:
            told(self.value)


class Joint:
    """What is asked of one queue, of one kind, by the scripts of one program."""

    def __init__(self, program: Program, kind: CallKind) -> None:
        self._program = program
        self._kind = kind
        self._line: CoalescedCallers[Caller] = CoalescedCallers(
            kind, Caller.tell, attrgetter("done")
        )
        self._looking = False

    def ask(self, asked: CallerRequest) -> Steps[Value]:
        """What one caller is told; raises what it is refused for."""
        caller = Caller()
        number = self._line.ask(asked, caller)
        if not self._looking:
            self._looking = True
            self._at(steady_now(), self._look)
        try:
            return (yield Query(caller, FOREVER))
        except (Interrupted, GeneratorExit):
            self._line.leave(number)
            if caller.done and not isinstance(caller.value, Exception):
                self._unclaimed(caller.value)
            caller.done = True
            raise

    def _at(self, when: Instant, act: Any) -> None:
        """Then, if the process lives."""
        steps = self._program.steps

        def due() -> None:
            if self._program.steps is steps:  # else it has died meanwhile
                with shown(self._program.now):
                    act()
                self._line.check()

        self._program.stage.world.at(when, due)

    def send(self) -> None:
        """What gathers goes now."""
        self._make(self._line.go(all_of_it=True))

    def _look(self) -> None:
        self._looking = False
        self._make(self._line.go())
        due = self._line.due
        if due is not None:
            self._at(max(due, Instant(steady_now() + 1)), self._expire)

    def _expire(self) -> None:
        self._line.expire()
        self._look()

    def _make(self, bundles: Sequence[Bundle]) -> None:
        for each in bundles:
            self._program.run(self._call(each))

    def _call(self, bundle: Bundle) -> Steps[None]:
        brought = yield from self._line.call(bundle)
        self._make(brought.apart)
        if brought.spare is not None:
            self._unclaimed(brought.spare)
        self._look()

    def _unclaimed(self, value: Value) -> None:
        self._program.run(self._gives_back(value))

    def _gives_back(self, value: Value) -> Steps[None]:
        try:
            yield from self._kind.unclaimed(value)
        except SnowmeltError:
            return  # the lease will end by itself


class SharedQueue(Program):
    """A process whose scripts are callers of one queue."""

    def query(self, step: Query, told: Done) -> None:
        """Makes a call of steps, or waits for what a ticket brings."""
        if isinstance(step.body, Caller):
            step.body.wait(told)
        else:
            super().query(step, told)


class SharingProducer(SharedQueue, Producer):
    """Many callers, each with a put of its own."""

    items_max = 1

    def __init__(self, *cast: Any) -> None:
        super().__init__(*cast)
        self.numbered = False
        self.steps = self.opened()
        self.puts = Joint(self, Puts(self.steps.put))

    def put(self, sequence: int) -> None:
        """Some at about the same time."""
        super().put(sequence)
        for _ in range(self.chance.choice((0, 1, 3, 8))):
            self._sequence += 1
            super().put(self._sequence - 1)

    def _attempt(
        self, batch: Put, labels: dict[str, str], delay: float, patience: float
    ) -> Steps[int]:
        """One call of a person; the position of its item."""
        if self.chance.random() < 0.5:
            yield pause(self.some(milliseconds(20)))
        [body] = batch.bodies
        where: int = yield from self.puts.ask(self.steps.one(body, None, labels, delay, patience))
        return where

    def asks(self, body: Any) -> None:
        for each in _each(body):
            super().asks(each)

    def hears(self, body: Any, called: Instant, outcome: Outcome[Any], at: Instant) -> None:
        """Each caller's item stands where the answer says of those of its priority."""
        for number, each in enumerate(_each(body)):
            match outcome:
                case Succeeded(calls.PutDone(_, stop) as told) if stop:
                    places = [position for one in told.where for position in one]
                    if len(places) != len(_each(body)):
                        text = f"{self.name} put {len(_each(body))}, and got {told.where}"
                        self.ledger.wrong(text, self.name)
                    start = places[number]
                    one = msgspec.structs.replace(told, start=start, stop=start + 1, others=())
                    done = Succeeded(one)
                    super().hears(each, called, done, at)
                case _:
                    super().hears(each, called, outcome, at)


class SharingConsumer(SharedQueue, Consumer):
    """Several callers that lease together, each its own items, and acknowledge together."""

    def __init__(self, *cast: Any) -> None:
        super().__init__(*cast)
        self._kind, self._acks = Gets(self.steps), Acks(self.steps)
        self.gets, self.acks = Joint(self, self._kind), Joint(self, self._acks)
        self._dealt: dict[tuple[int, int], None] = {}

    def begin(self) -> None:
        for _ in range(self.chance.choice((2, 3, 8))):
            self._interrupt(self.run(self.work()))

    def _interrupt(self, run: Run) -> None:
        if self.stage.phase is Phase.LOAD:
            run.interrupt()
            self.after(self.some(seconds(30)), partial(self._interrupt, run))

    def work(self) -> Steps[None]:
        before: LeasedItems | None = None
        while self.ledger.drained is None or before is not None:
            if self.stage.phase is Phase.REST and before is None:
                yield pause(PAUSE)
                continue
            try:
                done = () if before is None else before.open_in(None)
                mine, before = before, None
                delivered = yield from self._lease(mine)
                if mine is not None and not mine.loss:
                    self.told_done(mine, done)
            except FAILURES:
                delivered = None
            if delivered is None:
                yield pause(PAUSE)
                continue
            self._sees(delivered)
            before = yield from self._end_one(delivered)

    def _lease(self, before: LeasedItems | None) -> Steps[LeasedItems | None]:
        patience = self.some(DELAY) / SECOND if self.chance.random() < 0.5 else USUALLY
        asked = self._kind.asked(self.chance.choice((1, 1, 3, 20)), 1 << 20, patience, before)
        if asked is None:
            return (yield from self.steps.get_after(before, 20, 1 << 20, patience))
        delivered: LeasedItems | None = yield from self.gets.ask(asked)
        return delivered

    def _sees(self, delivered: LeasedItems) -> None:
        """What is dealt to one is nobody else's."""
        for part in delivered.parts:  # a part of a part is as good
            self.ledger.read(part, self.now, self.held[delivered.token])
        self.believes(delivered)
        for where in places(delivered.open_in(None)):
            if (delivered.token, where) in self._dealt:
                text = f"{self.name} deals position {where} of lease {delivered.token} twice"
                self.ledger.wrong(text, self.name)
            self._dealt[delivered.token, where] = None

    def _end_one(self, delivered: LeasedItems) -> Steps[LeasedItems | None]:
        """Works on what it has, and says what became of it, or leaves that to its next get."""
        yield pause(self.some(self.load.work))
        self.believes(delivered)
        way = self.chance.random() if self.stage.phase is Phase.LOAD else 0.0
        try:
            if way < 0.6:
                yield from self._acknowledge(delivered)
            elif way < 0.8:
                return delivered
            elif way < 0.95:
                dead = self.chance.random() < 0.3
                reason = "it failed" if self.chance.random() < 0.6 else ""
                yield from self.steps.give_back(delivered, None, ReturnOptions(0.0, reason, dead))
        except FAILURES:
            pass
        return None

    def _acknowledge(self, delivered: LeasedItems) -> Steps[None]:
        done = delivered.open_in(None)
        if not done:
            return
        asked = self._acks.asked(delivered, done)
        if asked is None:
            yield from self.steps.ack(delivered, None)
        else:
            yield from self.acks.ask(asked)
        self.told_done(delivered, done)


def _each(body: Any) -> list[Any]:
    """The put of each caller; what is none is one call."""
    if not isinstance(body, calls.Put) or body.hold:
        return [body]
    batches = [Batch.of([bytes(one)]) for one in Batch(body.offsets, body.blob)]
    return [
        msgspec.structs.replace(body, offsets=bytes(one.offsets), blob=bytes(one.blob))
        for one in batches
    ]
