"""Those who get from a queue of a simulated world, of whatever family: scripts over shipped steps.

A consumer leases, and then does what people do: acknowledges all of it or a part, gives some back,
asks for more time, comes late, or is never heard of again.
"""

from abc import abstractmethod
from typing import Any, Final

import msgspec

from snowmelt.client.connection.steps import Steps
from snowmelt.client.connection.waits import Wait
from snowmelt.client.leases.delivered import LeasedItems
from snowmelt.client.leases.steps import LeaseSteps, LeaseUpdate, ReturnOptions
from snowmelt.core.errors import SnowmeltError
from snowmelt.core.instant import SECOND, Duration, seconds
from snowmelt.core.interval import Interval
from snowmelt_world.families.fifo_actors import DELAY, PAUSE, Phase, intervals
from snowmelt_world.families.programs import FAILURES, Program, pause, places

FAILED: Final = "it failed"


class Habits(msgspec.Struct, frozen=True):
    work: Duration
    """How long it works, mostly."""
    extends: float
    """How often it asks for more time."""
    tarries: float
    """How often it takes so long that its lease may be over."""
    waits: Duration
    """The longest that some of its gets wait, and are asked again when their answer is lost."""
    reason: int = 0
    """How long the reason of a failure is at least."""
    dead: float = 0.0
    """How many of those that failed are not to be delivered again."""


class Consumer(Program):
    """Leases, works, and says what became of it."""

    steps: LeaseSteps
    habits: Habits
    delays = True
    """Whether some of what it gives back is for later."""
    _with_next: tuple[LeasedItems, LeaseUpdate] | None = None
    """What its next get says of an earlier lease."""

    def begin(self) -> None:
        """Gets from now on, until the queue is empty."""
        self.run(self.work())

    @abstractmethod
    def wants(self) -> tuple[int, int]:
        """How many items, and how many bytes, the next get may bring."""

    def waits(self) -> Duration:
        """How long its next get waits at most."""
        long = self.chance.random() < 0.3 and self.stage.phase is Phase.LOAD
        return self.habits.waits if long else DELAY

    def sorts(self, there: tuple[int, ...]) -> tuple[int, ...]:
        """In which order it works: what it does not come to goes back."""
        return there

    def work(self) -> Steps[None]:
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
                self.got(delivered)
                yield from self.decide(delivered)

    def _get(self) -> Steps[LeasedItems | None]:
        chance, steps, waits = self.chance, self.steps, self.waits()
        patience = self.some(waits) / SECOND if chance.random() < 0.8 else 0.0
        items, size = self.wants()
        if self._with_next is None:
            return (yield from steps.lease(items, size, Wait(patience)))[0]
        (before, word), self._with_next = self._with_next, None
        if not word.back and chance.random() < 0.5:
            done = before.open_in(None)
            delivered = yield from steps.get_after(before, items, size, patience)
            if not before.loss:
                self.told_done(before, done)
            return delivered
        delivered, refused = yield from steps.lease(items, size, Wait(patience), word)
        if refused is None:
            self.told_done(before, word.done)
        return delivered

    # --- what becomes of it -----------------------------------------------------------------------

    def decide(self, delivered: LeasedItems) -> Steps[None]:
        habits, lease, share = self.habits, self.ledger.terms.lease, 1.0
        work = habits.work
        if self.stage.phase is Phase.LOAD:
            way = self.chance.random()
            if way < 0.08:  # it dies, and another begins in its place
                self.steps = self.opened()
                yield pause(self.some(lease))
                return
            if way < 0.08 + habits.extends:
                yield from self._extend(delivered)
                work = lease
            elif way < 0.08 + habits.extends + habits.tarries:
                work = Duration(2 * lease)
            else:
                share = 1.0 if way < 0.7 else self.chance.choice((0.0, 0.3, 0.6))
            yield pause(self.some(work))
        self.believes(delivered)
        yield from self._end(delivered, share)

    def _extend(self, delivered: LeasedItems) -> Steps[None]:
        try:
            yield from self.steps.extend(delivered)
        except FAILURES:
            return
        self.believes(delivered)

    def _end(self, delivered: LeasedItems, share: float) -> Steps[None]:
        """Acknowledges this share of what it has, and gives back the rest, or leaves it."""
        chance, load = self.chance, self.stage.phase is Phase.LOAD
        there = self.sorts(places(delivered.open_in(None)))
        done, rest = there[: round(share * len(there))], there[round(share * len(there)) :]
        if load and chance.random() < 0.2:
            rest = rest[: len(rest) // 2]
        failed = load and chance.random() < 0.6
        reason = FAILED.ljust(self.habits.reason, "!") if failed else ""
        delayed = load and chance.random() < 0.3 and self.delays
        delay = self.some(seconds(3)) if delayed else Duration(0)
        word = LeaseUpdate(
            delivered.token,
            done=intervals(done),
            back=intervals(rest),
            delay=delay,
            reason=reason,
            dead=self.dooms(reason),
        )
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

    def dooms(self, reason: str) -> bool:
        """Whether what failed is not to be delivered again."""
        dead = self.habits.dead
        return bool(reason and dead) and self.chance.random() < dead

    def _tell(self, delivered: LeasedItems, word: LeaseUpdate) -> Steps[None]:
        """In one word."""
        yield from self.steps.settle(delivered, word)
        self.told_done(delivered, word.done)

    def _tell_apart(self, delivered: LeasedItems, word: LeaseUpdate) -> Steps[None]:
        """Piece by piece."""
        for one in word.done:
            yield from self.steps.ack(delivered, one)
            self.told_done(delivered, (one,))
        for one in word.back:
            yield from self._give_back(delivered, one, word)

    def _give_back(self, delivered: LeasedItems, where: Interval, word: LeaseUpdate) -> Steps[None]:
        delay: Any = word.delay / SECOND
        how = ReturnOptions(delay, word.reason, word.dead)
        yield from self.steps.give_back(delivered, where, how)
