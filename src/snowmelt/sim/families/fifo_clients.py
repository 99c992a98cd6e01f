"""Those who put into the queues of a simulated world and get from them, each a client machine.

A producer puts batches under its own sequence numbers and asks again, under the same number, until
it is told that they are in. A consumer leases, fetches what lies elsewhere, and then does what
people do: acknowledges all of it or a part, gives some back, asks for more time, or is never heard
of again. Some fetch so late that the items are with others by then.
"""

from functools import partial
from random import Random
from typing import Any, Final

import msgspec

from snowmelt.check.history import Ended
from snowmelt.core.batch import Batch
from snowmelt.core.instant import Duration, Instant, later, milliseconds, seconds
from snowmelt.core.outcome import Failed, Outcome, Succeeded
from snowmelt.protocols.fifo import calls
from snowmelt.sim.clock import wall
from snowmelt.sim.families.fifo_actors import (
    DELAY,
    PATIENCE,
    PAUSE,
    Phase,
    Stage,
    Then,
    User,
    intervals,
)
from snowmelt.sim.families.fifo_ledger import Asked, Held, Ledger
from snowmelt.sim.families.fifo_load import Load

LATE_IN_DRAIN: Final = 0.2
"""How many leases are read late when the queue is being emptied, at most."""
SLOW: Final = milliseconds(500)
"""After an answer that took so long the client looks anew where to put, as the shipped one does."""
USUAL: Final = Load(theme="everything")


class Putter(User):
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
        super().__init__(stage, name, chance, ledger)
        self.load = load
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
        headers = b""
        if chance.random() < 0.3:
            headers = msgspec.msgpack.encode({"from": f"{self.name}/{sequence // 3}"})
        delayed = chance.random() < 0.12 and self.delays
        due = later(self.now, self.some(DELAY)) if delayed else Instant(0)
        batch = Asked(self.name, sequence, bodies, headers, due, self.now)
        self.ledger.asked(batch)
        self.unfinished[sequence] = None
        patience = Duration(0)
        if chance.random() < self.load.waits:
            patience = self.some(self.load.patience)
        self._put(batch, patience, certain=True)

    def _anywhere(self) -> int:
        """A number that it never used, in one of some regions."""
        while True:
            number = self.chance.randrange(4) * 2**40 + self.chance.randrange(200)
            if not self.ledger.has_asked(self.name, number):
                return number

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
        called = self.now

        def told(outcome: Outcome[Any], at: Instant) -> None:
            said_once = self.times_sent(number) == 1 or not self.stage.duplicates
            refused = isinstance(outcome, Failed) and said_once
            if at - called > SLOW or not isinstance(outcome, Succeeded):
                self._look_anew()
            self._told(batch, patience, outcome, at, certain and refused)

        self.ask(put, told, Duration(PATIENCE + patience), target)
        number = self.last_number

    def _look_anew(self) -> None:
        """Asks where to put, of whoever answers; nothing waits for it."""

        def told(outcome: Outcome[Any], _: Instant) -> None:
            match outcome:
                case Succeeded(calls.Opened() as opened):
                    self.store = opened.store
                case _:
                    pass

        self.ask(calls.Open(self.queue, self.ledger.settings), told)

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
                no_room = isinstance(outcome, Failed) and "Unavailable" not in outcome.reason
                gives_up = no_room and self.chance.random() < 0.7
                if done_before or gives_up or self.stage.phase is not Phase.LOAD:
                    if certain and not done_before:
                        self.ledger.refused(batch, str(outcome), at)
                    self.unfinished.pop(batch.sequence, None)
                    return
                again = partial(self._put, batch, patience, certain=certain)
                self.after(self.some(seconds(1)), again)


class Consumer(User):
    """Leases, works, and says what became of it."""

    def __init__(
        self, stage: Stage, name: str, chance: Random, ledger: Ledger, load: Load = USUAL
    ) -> None:
        super().__init__(stage, name, chance, ledger)
        self._load = load
        self.delays = True
        """Whether some of what it gives back is for later."""

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
                        failed = Failed(f"LeaseLost: {refused}")
                        then(failed if refused else Succeeded(calls.Settled(0)), at)
                    held = self.ledger.leased(self.name, called, leased, at, self.said)
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

        def fetch() -> None:
            seen = partial(self.ledger.seen, held=held)
            self.fetch(list(leased.spans), seen, partial(self._fetched, held))

        share = self._load.late
        if self.stage.phase is Phase.DRAIN:  # all is to be done in time
            share = min(share, LATE_IN_DRAIN)
        if leased.spans and self.chance.random() < share:
            self.after(self.some(Duration(2 * self.ledger.settings.lease)), fetch)
        else:
            fetch()

    def _fetched(self, held: Held) -> None:
        """What could not be had is somebody's reason to look how the queue is."""
        if len(held.seen) < len(held.positions) and self._load.late > self.chance.random():
            self.describe()
        self._decide(held)

    # --- what becomes of it -----------------------------------------------------------------------

    def _decide(self, held: Held) -> None:
        chance, lease = self.chance, self.ledger.settings.lease
        if self.stage.phase is not Phase.LOAD:
            self._end(held, share=1.0)
            return
        way = chance.random()
        if way < 0.08:  # it dies, and another begins in its place
            self.after(self.some(lease), self._get)
        elif way < 0.08 + self._load.extends:
            self._extend(held)
        elif way < 0.14 + self._load.extends:  # it takes too long, perhaps
            self.after(self.some(Duration(2 * lease)), partial(self._end, held, share=1.0))
        else:
            share = 1.0 if way < 0.7 else chance.choice((0.0, 0.3, 0.6))
            self.after(self.some(self._load.work), partial(self._end, held, share=share))

    def _extend(self, held: Held) -> None:
        called = self.now

        def told(outcome: Outcome[Any], at: Instant) -> None:
            if isinstance(outcome, Succeeded):
                self.ledger.extended(held, called)
            self._refused(held, outcome, at)
            self.after(self.some(self.ledger.settings.lease), partial(self._end, held, share=1.0))

        self.ask(calls.Settle(self.queue, held.token, extend=True), told)

    def _end(self, held: Held, *, share: float) -> None:
        """Acknowledges this share of what it saw, and gives back the rest, or leaves it."""
        chance, load = self.chance, self.stage.phase is Phase.LOAD
        seen = [where for where in held.positions if where in held.seen]
        done = tuple(seen[: round(share * len(seen))])
        rest = tuple(where for where in held.positions if where not in set(done))
        if load and chance.random() < 0.2:
            rest = rest[: len(rest) // 2]
        failed = load and chance.random() < 0.6
        reason = "it failed".ljust(self._load.reason, "!") if failed else ""
        delayed = load and chance.random() < 0.3 and self.delays
        due = wall(later(self.now, self.some(seconds(3)))) if delayed else 0
        self.ledger.giving_back(held, rest)
        self.ledger.acking(held, done)
        settle = calls.Settle(
            queue=self.queue,
            token=held.token,
            done=intervals(done),
            back=intervals(rest),
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
        self._refused(held, outcome, at)
        ended = Ended.SUCCEEDED if isinstance(outcome, Succeeded) else Ended.UNKNOWN
        self.ledger.settled(held, done, called, at, ended)

    def _refused(self, held: Held, outcome: Outcome[Any], at: Instant) -> None:
        if isinstance(outcome, Failed) and outcome.reason.startswith("LeaseLost"):
            self.ledger.lease_lost(held, at)
