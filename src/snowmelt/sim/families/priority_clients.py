"""Those who put into the priority queues of a simulated world and get from them, by shipped steps.

A producer puts until it is told, or that it may have happened; what was definitely refused it puts
again, or leaves. At times a call that was answered comes once more, as a copy of it may. Consumers
are as everywhere (`consumers.py`, `loops.py`).
"""

from functools import partial
from random import Random
from typing import Any, Final

import msgspec

from snowmelt.check.history import Ended
from snowmelt.client.connection.steps import Steps
from snowmelt.client.overlay.steps import OverlaySteps
from snowmelt.core.errors import SnowmeltError, StateError
from snowmelt.core.instant import SECOND, Duration, Instant, later, milliseconds, seconds
from snowmelt.core.outcome import Outcome, Succeeded
from snowmelt.protocols.priority import calls
from snowmelt.sim.families import consumers, loops
from snowmelt.sim.families.consumers import Habits
from snowmelt.sim.families.fifo_actors import DELAY, Phase, Stage
from snowmelt.sim.families.priority_load import Load, priority_of
from snowmelt.sim.families.priority_programs import LIGHT, Program
from snowmelt.sim.families.priority_words import Ledger
from snowmelt.sim.families.programs import FAILURES, pause
from snowmelt.sim.judge.values import Put

LONG: Final = seconds(15)
"""The longest that some gets wait, and some puts are asked for."""
WEIGHT: Final = 16 << 20
"""What a get can carry: more than there is."""


class Producer(Program):
    """Puts while there is load, at times drawn before, several at a time as with threads."""

    delays = True

    def __init__(
        self,
        stage: Stage,
        name: str,
        chance: Random,
        ledger: Ledger,
        load: Load,
        times: list[Instant],
    ) -> None:
        super().__init__(stage, name, chance, ledger, load)
        self._times = times
        self._count = 0
        self.unfinished: dict[int, None] = {}

    def begin(self) -> None:
        self.begin_at(self._times, self._begin)

    def fall(self) -> None:
        """What it was about to put it puts no more."""
        super().fall()
        self.unfinished.clear()

    def _begin(self) -> None:
        if self.loads:
            self._count += 1
            self.unfinished[self._count] = None
            self.put(self._count)

    def put(self, number: int) -> None:
        """A batch of its own size and priorities."""
        chance, settings = self.chance, self.ledger.settings
        most = min(self.load.items, settings.items_max or self.load.items)
        size = min(most, chance.choice((1, 1, 2, chance.randint(1, most))))
        values = tuple(f"{self.name}/{number}/{index}" for index in range(size))
        priorities: list[int] = []
        while len(priorities) < size:
            some = chance.randint(1, size - len(priorities))
            priorities += [priority_of(chance, settings)] * some
        labels = {"from": f"{self.name}/{number // 3}"} if chance.random() < 0.3 else {}
        headers = msgspec.msgpack.encode(labels) if labels else b""
        delayed = chance.random() < 0.12 and self.delays
        delay = self.some(DELAY) if delayed else Duration(0)
        put = Put(
            self.name,
            values,
            headers,
            self.now,
            priorities=tuple(priorities),
            keyed=settings.keyed,
            due=later(self.now, delay) if delay else Instant(0),
        )
        self.ledger.asked(put)
        waits = chance.choice((0, 0, self.load.patience, LONG))
        patience = self.some(Duration(waits)) / SECOND if waits else 0.0
        run = self.run(
            self._put(put, labels, patience), lambda _: self.unfinished.pop(number, None)
        )
        if chance.random() < 0.05:
            self.after(self.some(milliseconds(chance.choice((5, 50, 2_000)))), run.interrupt)

    def hears(self, body: Any, called: Instant, outcome: Outcome[Any], at: Instant) -> None:
        """What was answered may come once more, and is answered the same."""
        super().hears(body, called, outcome, at)
        match body, outcome:
            case calls.Put(), Succeeded(calls.PutDone()):
                if self.chance.random() < self.load.again and self.loads:
                    self.send_again(body, partial(self.hears, body, called))
            case _:
                pass

    def _put(self, put: Put, labels: dict[str, str], patience: float) -> Steps[None]:
        """Until it is told that it is in, or that it may be; or gives up."""
        while True:
            try:
                yield from self._attempt(put, labels, patience)
            except FAILURES as error:
                if not (isinstance(error, SnowmeltError) and error.definite):
                    return
                tired = isinstance(error, StateError) and self.chance.random() < 0.7
                if tired or not self.loads:
                    self.told_refused(put, error)
                    return
                yield pause(self.some(seconds(1)))
            else:
                return

    def _attempt(self, put: Put, labels: dict[str, str], patience: float) -> Steps[None]:
        """One call of a person, who is told where it is."""
        steps, delay = self.steps, put.delay / SECOND
        values, priorities = put.values, put.priorities
        pairs = list(zip(priorities, map(str.encode, values), strict=True))
        if self.chance.random() < 0.5:
            asked = [steps.one(body, own, labels, delay, patience) for own, body in pairs]
            found = yield from steps.put([one.what for one in asked], asked[0].wait)
            told = dict(zip(values, found, strict=True))
            said = {
                value: place.position for value, place in zip(put.values, put.places, strict=False)
            }
            if put.ended is not Ended.SUCCEEDED or told != said:
                self.ledger.wrong(f"{told} is told to be put, and is at {said}", self.name)
            return
        if len({*priorities}) == 1:
            alike = [body for _, body in pairs]
            where = yield from steps.put_many(alike, priorities[0], labels, delay, patience)
        else:
            where = yield from steps.put_many(pairs, None, labels, delay, patience)
        at = [place for one in where for place in one]
        if put.ended is not Ended.SUCCEEDED or at != [one.position for one in put.places]:
            self.ledger.wrong(f"{values[0]} and others are told to be at {at}", self.name)


class Consumer(consumers.Consumer, Program):
    """Leases, works, and says what became of it."""

    steps: OverlaySteps
    returns_with_get = False

    def __init__(self, stage: Stage, name: str, chance: Random, ledger: Ledger, load: Load) -> None:
        self._makes = chance.random() < 0.7
        super().__init__(stage, name, chance, ledger, load)
        self.habits = Habits(load.work, 0.08, load.late, LONG, dead=0.2)

    def opened(self) -> OverlaySteps:
        """Some know nothing of a queue but its name."""
        return super().opened() if self._makes else OverlaySteps(self.queue, None)

    def fall(self) -> None:
        worked = self.busy
        super().fall()
        self._with_next = None
        if worked:
            self.after(self.some(seconds(1)), self.begin)

    def wants(self) -> tuple[int, int]:
        light = self.load.light and self.chance.random() < 0.3
        return self.chance.choice((1, 1, 2, 5, 20)), LIGHT if light else WEIGHT

    def waits(self) -> Duration:
        """What is selected from small samples takes seconds: who empties a queue waits for that."""
        waits = super().waits()
        drains = self.ledger.settings.keyed and self.stage.phase is not Phase.LOAD
        return LONG if drains else waits

    def sorts(self, there: tuple[int, ...]) -> tuple[int, ...]:
        """At times as it likes."""
        mixed = list(there)
        if self.chance.random() < 0.3:
            self.chance.shuffle(mixed)
        return tuple(mixed)


class Looper(loops.Looper, Consumer):
    """Loops, again and again."""
