"""Those who use the queues of a simulated world, each a client machine that reacts to its answers.

A producer puts batches under its own sequence numbers and asks again, under the same number, until
it is told that they are in. A consumer leases, fetches what lies elsewhere, and then does what
people do: acknowledges all of it or a part, gives some back, asks for more time, or is never heard
of again. The steward looks round, pauses and resumes; when the load is over it waits until every
item has its copies again, and lets the consumers drain what is there.
"""

from collections.abc import Callable, Sequence
from enum import Enum
from functools import partial
from random import Random
from typing import Any, Final

import msgspec

from snowmelt.check.history import Ended
from snowmelt.core.batch import Batch
from snowmelt.core.instant import Duration, Instant, later, milliseconds, seconds
from snowmelt.core.interval import Interval, IntervalSet
from snowmelt.core.names import NodeId, OperationId, contact
from snowmelt.core.node import Effect, Event, Send
from snowmelt.core.outcome import Failed, Outcome, Succeeded
from snowmelt.protocols.calling import Ask, Call, Caller
from snowmelt.protocols.fifo import calls
from snowmelt.sim.clock import wall
from snowmelt.sim.families.fifo_ledger import Asked, Held, Ledger
from snowmelt.sim.world import World

PATIENCE: Final = seconds(15)
DELAY: Final = seconds(4)
"""The longest that a put waits for room, a get for items, an item for its moment."""
FETCH_PATIENCE: Final = seconds(3)
PAUSE: Final = milliseconds(300)
LOOK_EVERY: Final = seconds(1)
FETCHES_MAX: Final = 40

Then = Callable[[Outcome[Any], Instant], None]


class Phase(Enum):
    """What the clients are about."""

    LOAD = "load"
    REST = "rest"
    """No puts, no gets: what is in the queues is to get its copies."""
    DRAIN = "drain"


class Stage(msgspec.Struct):
    """What all actors share."""

    world: World
    targets: list[NodeId]
    duplicates: bool
    """Whether the network may say anything twice."""
    phase: Phase = Phase.LOAD
    actors: dict[NodeId, "Actor"] = {}


class CountingCaller(Caller):
    """The client machine, which also counts how often each call was sent."""

    def __init__(self, targets: list[NodeId], chance: Random) -> None:
        super().__init__(targets, chance)
        self.sent: dict[int, int] = {}

    def handle(self, event: Event[object], now: Instant) -> list[Effect[object]]:
        """As any client does."""
        effects = super().handle(event, now)
        for effect in effects:
            if isinstance(effect, Send) and isinstance(effect.message, Call):
                number = effect.message.number
                self.sent[number] = self.sent.get(number, 0) + 1
        return effects


class Actor:
    """A client machine, and whoever decides what it asks next."""

    def __init__(self, stage: Stage, name: str, chance: Random) -> None:
        self.name = NodeId(name)
        self.stage = stage
        self.chance = chance
        self._numbers = 0
        self._open: dict[int, tuple[Any, Then]] = {}
        self._machine: CountingCaller | None = None
        stage.actors[self.name] = self

        def build(dice: Random) -> Caller:
            self._machine = CountingCaller(list(stage.targets), dice)
            return self._machine

        stage.world.add(self.name, build)
        stage.world.start(self.name)

    @property
    def now(self) -> Instant:
        """The time of the world."""
        return self.stage.world.now

    @property
    def waiting(self) -> str:
        """What it waits for, in words; nothing when for nothing."""
        for number, (body, _) in self._open.items():
            return f"{self.name} still waits for its call {number}, {type(body).__name__}"
        return ""

    def ask(
        self,
        body: Any,
        then: Then,
        patience: Duration = PATIENCE,
        target: calls.Place | None = None,
    ) -> None:
        """Calls; `then` is done with what came of it."""
        self._numbers += 1
        self._open[self._numbers] = body, then
        first = None if target is None else contact(target.address)
        operation = OperationId(self.name, self._numbers)
        self.stage.world.request(self.name, operation, Ask(body, patience, first))

    def answered(self, operation: OperationId, outcome: Outcome[Any], at: Instant) -> None:
        """The client machine has an outcome."""
        _, then = self._open.pop(operation.number)
        then(outcome, at)

    def after(self, wait: Duration, act: Callable[[], None]) -> None:
        """Later."""
        self.stage.world.at(later(self.now, wait), act)

    def certain(self, outcome: Outcome[Any], number: int) -> bool:
        """Whether a refusal is the last word: it was said once, so nobody can hear it anew."""
        assert self._machine is not None
        once = self._machine.sent.get(number, 0) == 1 and not self.stage.duplicates
        return isinstance(outcome, Failed) and once

    @property
    def last_number(self) -> int:
        """Of the call made last."""
        return self._numbers

    def some(self, most: Duration) -> Duration:
        """A wait drawn by chance."""
        return Duration(self.chance.randrange(1, most))


class User(Actor):
    """An actor with one queue, which it opens first."""

    def __init__(self, stage: Stage, name: str, chance: Random, ledger: Ledger) -> None:
        super().__init__(stage, name, chance)
        self.ledger = ledger
        self.store: calls.Place | None = None
        self.master: calls.Place | None = None

    @property
    def queue(self) -> str:
        """Which queue."""
        return self.ledger.queue

    def open(self, then: Callable[[], None]) -> None:
        """Until it is open."""

        def told(outcome: Outcome[Any], _: Instant) -> None:
            match outcome:
                case Succeeded(calls.Opened() as opened):
                    self.store, self.master = opened.store, opened.master
                    then()
                case _:
                    self.after(PAUSE, partial(self.open, then))

        self.ask(calls.Open(self.queue, self.ledger.settings), told)

    def fetch(
        self, held: Held, spans: list[calls.Span], tries: int, then: Callable[[Held], None]
    ) -> None:
        """Span after span, from keeper after keeper; what can't be had is left."""
        if not spans or tries >= FETCHES_MAX:
            then(held)
            return
        span, *rest = spans
        if not span.keepers or tries >= 2 * len(span.keepers) + 2:
            self.fetch(held, rest, 0, then)
            return
        place = span.keepers[(tries + span.start) % len(span.keepers)]

        def told(outcome: Outcome[Any], at: Instant) -> None:
            got = 0
            match outcome:
                case Succeeded(calls.Fetched(parts)):
                    for part in parts:
                        self.ledger.seen(part, at, held)
                        got += part.count
            left = calls.Span(
                span.start + got, span.stop, span.stream, span.first + got, span.keepers
            )
            if left.start >= left.stop:
                self.fetch(held, rest, 0, then)
            else:
                self.fetch(held, [left, *rest], 0 if got else tries + 1, then)

        fetch = calls.Fetch(self.queue, span, self.chance.choice((1, 100, 1 << 20)))
        self.ask(fetch, told, FETCH_PATIENCE, place)


class Putter(User):
    """Puts something, at times drawn before, while there is load."""

    def __init__(
        self, stage: Stage, name: str, chance: Random, ledger: Ledger, times: list[Instant]
    ) -> None:
        super().__init__(stage, name, chance, ledger)
        self._times = times
        self._sequence = 0
        self.unfinished: dict[int, None] = {}

    def begin(self) -> None:
        """Opens, and puts from then on."""
        self.open(self._opened)

    def put(self, sequence: int) -> None:
        """Puts what comes next, under this number."""
        raise NotImplementedError

    def _opened(self) -> None:
        for at in self._times:
            self.stage.world.at(max(at, self.now), self._begin)

    def _begin(self) -> None:
        if self.stage.phase is Phase.LOAD:
            self._sequence += 1
            self.put(self._sequence - 1)


class Producer(Putter):
    """Puts its batches."""

    items_max = 30

    def put(self, sequence: int) -> None:
        """A batch of its own size and kind."""
        chance = self.chance
        count = chance.choice((1, 1, 2, 5, chance.randint(1, self.items_max)))
        bodies = tuple(
            f"{self.name}/{sequence}/{index}".encode() + b"." * chance.choice((0, 0, 3, 40))
            for index in range(count)
        )
        headers = b""
        if chance.random() < 0.3:
            headers = msgspec.msgpack.encode({"from": f"{self.name}/{sequence // 3}"})
        delayed = chance.random() < 0.12
        due = later(self.now, self.some(DELAY)) if delayed else Instant(0)
        batch = Asked(self.name, sequence, bodies, headers, due, self.now)
        self.ledger.asked(batch)
        self.unfinished[sequence] = None
        patience = self.some(DELAY) if chance.random() < 0.4 else Duration(0)
        self._put(batch, patience, certain=True)

    def _put(self, batch: Asked, patience: Duration, *, certain: bool) -> None:
        joined = Batch.of(batch.bodies)
        put = calls.Put(
            queue=self.queue,
            producer=batch.producer,
            sequence=batch.sequence,
            offsets=bytes(joined.offsets),
            blob=bytes(joined.blob),
            headers=batch.headers,
            due=wall(batch.due) if batch.due else 0,
            patience=patience,
        )
        target = self.store if self.chance.random() < 0.8 else None

        def told(outcome: Outcome[Any], at: Instant) -> None:
            self._told(batch, patience, outcome, at, certain and self.certain(outcome, number))

        self.ask(put, told, Duration(PATIENCE + patience), target)
        number = self.last_number

    def _told(
        self, batch: Asked, patience: Duration, outcome: Outcome[Any], at: Instant, certain: bool
    ) -> None:
        match outcome:
            case Succeeded(calls.PutDone() as done):
                self.ledger.put(batch, done, at)
                if self.chance.random() < 0.05 and self.stage.phase is Phase.LOAD:
                    self._put(batch, patience, certain=False)  # as if it had not been heard
                else:
                    self.unfinished.pop(batch.sequence, None)
            case _:
                done_before = batch.ended is Ended.SUCCEEDED
                gives_up = "Full" in str(outcome) and self.chance.random() < 0.5
                if done_before or gives_up or self.stage.phase is not Phase.LOAD:
                    if certain:
                        batch.ended, batch.returned = Ended.FAILED, at
                    self.unfinished.pop(batch.sequence, None)
                    return
                again = partial(self._put, batch, patience, certain=certain)
                self.after(self.some(seconds(1)), again)


class Consumer(User):
    """Leases, works, and says what became of it."""

    def begin(self) -> None:
        """Opens, and gets from then on."""
        self.open(self._get)

    def _get(self, settle: calls.Settle | None = None, then: Then | None = None) -> None:
        phase = self.stage.phase
        if settle is None and phase is Phase.REST:
            self.after(PAUSE, self._get)
            return
        if self.ledger.drained is not None:
            return
        chance, called = self.chance, self.now
        patience = self.some(DELAY) if chance.random() < 0.8 else Duration(0)
        get = calls.Get(
            queue=self.queue,
            items_max=chance.choice((1, 5, 20, 100)),
            bytes_max=chance.choice((1, 60, 1 << 20, 1 << 20)),
            patience=patience,
            settle=settle,
        )

        def told(outcome: Outcome[Any], at: Instant) -> None:
            match outcome:
                case Succeeded(calls.Leased() as leased):
                    if then is not None:
                        refused = leased.refused
                        then(Failed(refused) if refused else Succeeded(calls.Settled(0)), at)
                    held = self.ledger.leased(self.name, called, leased, at)
                    if held is None:
                        self.after(PAUSE, self._get)
                    else:
                        self._work(held, leased)
                case _:
                    self.ledger.lost_get(self.name, called)
                    if then is not None:
                        then(outcome, at)
                    self.after(PAUSE, self._get)

        self.ask(get, told, Duration(PATIENCE + patience))

    def _work(self, held: Held, leased: calls.Leased) -> None:
        for part in leased.parts:
            self.ledger.seen(part, self.now, held)
        self.fetch(held, list(leased.spans), 0, self._decide)

    # --- what becomes of it -----------------------------------------------------------------------

    def _decide(self, held: Held) -> None:
        chance, lease = self.chance, self.ledger.settings.lease
        if self.stage.phase is not Phase.LOAD:
            self._end(held, share=1.0)
            return
        way = chance.random()
        if way < 0.08:  # it dies, and another begins in its place
            self.after(self.some(lease), self._get)
        elif way < 0.14:
            self._extend(held)
        elif way < 0.2:  # it takes too long, perhaps
            self.after(self.some(Duration(2 * lease)), partial(self._end, held, share=1.0))
        else:
            share = 1.0 if way < 0.7 else chance.choice((0.0, 0.3, 0.6))
            self.after(self.some(milliseconds(400)), partial(self._end, held, share=share))

    def _extend(self, held: Held) -> None:
        called = self.now

        def told(outcome: Outcome[Any], _: Instant) -> None:
            if isinstance(outcome, Succeeded):
                self.ledger.extended(held, called)
            self.after(self.some(self.ledger.settings.lease), partial(self._end, held, share=1.0))

        self.ask(calls.Settle(self.queue, held.token, extend=True), told)

    def _end(self, held: Held, *, share: float) -> None:
        """Acknowledges this share of what it saw, and gives back the rest, or leaves it."""
        chance, load = self.chance, self.stage.phase is Phase.LOAD
        seen = [where for where in held.positions if where in held.seen]
        done = tuple(seen[: round(share * len(seen))])
        rest = tuple(where for where in held.positions if where not in done)
        if load and chance.random() < 0.2:
            rest = rest[: len(rest) // 2]
        reason = "it failed" if load and chance.random() < 0.6 else ""
        delayed = load and chance.random() < 0.3
        due = wall(later(self.now, self.some(seconds(3)))) if delayed else 0
        self.ledger.giving_back(held, rest)
        settle = calls.Settle(
            queue=self.queue,
            token=held.token,
            done=_intervals(done),
            back=_intervals(rest),
            due=due,
            reason=reason,
        )
        told = partial(self._settled, held, done, self.now)
        if chance.random() < 0.5 and self.stage.phase is not Phase.REST:
            self._get(settle, told)
            return

        def alone(outcome: Outcome[Any], at: Instant) -> None:
            told(outcome, at)
            self._get()

        self.ask(settle, alone)

    def _settled(
        self,
        held: Held,
        done: tuple[int, ...],
        called: Instant,
        outcome: Outcome[Any],
        at: Instant,
    ) -> None:
        ended = Ended.SUCCEEDED if isinstance(outcome, Succeeded) else Ended.UNKNOWN
        self.ledger.settled(held, done, called, at, ended)


class Steward(Actor):
    """Looks round while there is load; afterwards brings everything to its end."""

    def __init__(
        self, stage: Stage, chance: Random, ledgers: list[Ledger], producers: Sequence[Putter]
    ) -> None:
        super().__init__(stage, "steward", chance)
        self._ledgers = ledgers
        self._producers = producers
        self._redriven: dict[str, None] = {}
        self._whole: dict[str, None] = {}

    def begin(self, times: list[Instant]) -> None:
        """Looks in at these times."""
        for at in times:
            self.stage.world.at(at, self._look_in)

    def _look_in(self) -> None:
        if self.stage.phase is not Phase.LOAD:
            return
        chance, ledger = self.chance, self.chance.choice(self._ledgers)
        match chance.choice(
            ("peek", "peek dead", "describe", "describe", "pause", "redrive", "list")
        ):
            case "peek":
                self._peek(ledger, dead=False)
            case "peek dead":
                self._peek(ledger, dead=True)
            case "describe":
                self.ask(calls.Describe(ledger.queue), partial(self._described, ledger))
            case "pause":
                self.ask(calls.Pause(ledger.queue, paused=True), _heard)
                resume = partial(self.ask, calls.Pause(ledger.queue, paused=False), _heard)
                self.after(self.some(seconds(3)), resume)
            case "redrive":
                self._redrive(ledger, chance.choice((0, 3, 50)))
            case _:
                self.ask(calls.ListQueues(), _heard)

    def _peek(self, ledger: Ledger, *, dead: bool) -> None:
        def told(outcome: Outcome[Any], at: Instant) -> None:
            match outcome:
                case Succeeded(calls.Peeked(parts)):
                    for part in parts:
                        ledger.seen(part, at)

        start = self.chance.choice((0, 0, 7))
        self.ask(calls.Peek(ledger.queue, 20, 1 << 20, start, dead), told)

    def _redrive(self, ledger: Ledger, per_second: int) -> None:
        ledger.redriving(self.now)
        self._redriven[ledger.queue] = None
        self.ask(calls.Redrive(ledger.queue, per_second), _heard)

    def _described(self, ledger: Ledger, outcome: Outcome[Any], _: Instant) -> None:
        match outcome:
            case Succeeded(calls.QueueStatus() as status):
                ledger.described(status, redriven=ledger.queue in self._redriven)

    # --- after the load ---------------------------------------------------------------------------

    def rest(self) -> None:
        """The load is over: waits until all is whole, then has it drained."""
        self.stage.phase = Phase.REST
        for ledger in self._ledgers:
            self._look(ledger)

    def _look(self, ledger: Ledger) -> None:
        called = self.now

        def told(outcome: Outcome[Any], at: Instant) -> None:
            self._described(ledger, outcome, at)
            match outcome:
                case Succeeded(calls.QueueStatus() as status):
                    self._saw(ledger, status, called)
                case Failed(reason) if "NoSuchQueue" in reason and not self._putting(ledger):
                    self._whole[ledger.queue] = None
                    ledger.drained = called
                case _:
                    pass
            if len(self._whole) == len(self._ledgers):
                self.stage.phase = Phase.DRAIN
            if ledger.drained is None:
                self.after(LOOK_EVERY, partial(self._look, ledger))

        self.ask(calls.Describe(ledger.queue), told)

    def _putting(self, ledger: Ledger) -> bool:
        return any(one.ledger is ledger and one.unfinished for one in self._producers)

    def _saw(self, ledger: Ledger, status: calls.QueueStatus, called: Instant) -> None:
        putting = self._putting(ledger)
        if status.short_of_copies == 0 and not status.waiting_puts and not putting:
            self._whole[ledger.queue] = None
        if self.stage.phase is not Phase.DRAIN:
            return
        left = status.ready + status.delayed + status.leased + status.assigned + status.dead
        if status.paused:
            self.ask(calls.Pause(ledger.queue, paused=False), _heard)
        elif status.dead:
            self._redrive(ledger, 0)
        elif not left and not putting:
            ledger.drained = called

    @property
    def unfinished(self) -> str:
        """What is not as it should be yet, in words."""
        for ledger in self._ledgers:
            if self.stage.phase is Phase.REST and ledger.queue not in self._whole:
                return f"{ledger.queue} still lacks copies, or has puts that wait"
            if ledger.drained is None:
                return f"{ledger.queue} is not empty yet"
        return ""


def _heard(outcome: Outcome[Any], at: Instant) -> None:
    """An answer that says nothing to be judged."""
    del outcome, at


def _intervals(positions: tuple[int, ...]) -> tuple[Interval, ...]:
    return tuple(IntervalSet(Interval(where, where + 1) for where in positions))
