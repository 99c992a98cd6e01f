"""Those who loop over a queue, of whatever family, as `consume` does: items one by one.

A lease is renewed while its items are worked on, however long that takes, and acknowledgements are
gathered (`client.leases.renewals`), by a second script that goes on while the first one works. A
loop is left in order, by a failure, by an interrupt, or its process dies; some processes stand
still for longer than a lease lasts. Whatever happens, an acknowledgement that was gathered is not
forgotten: a node takes it, or it is said that it was missed.
"""

from typing import Any, Final

from snowmelt.client.connection.steps import Sleep, Steps
from snowmelt.client.leases.delivered import LeasedItems, items_of
from snowmelt.client.leases.looping import PASSING, LoopDeadline, PrefetchSize
from snowmelt.client.leases.renewals import Hand, LeaseRenewals
from snowmelt.client.leases.steps import BYTES_MAX, LeaseSteps, ReturnOptions
from snowmelt.core.errors import LeaseLost, SnowmeltError
from snowmelt.core.instant import SECOND, Duration, later, milliseconds, seconds
from snowmelt.core.interval import Interval
from snowmelt.runtime.clock import steady_now
from snowmelt_world.families.consumers import FAILED, Consumer
from snowmelt_world.families.fifo_actors import DELAY, PAUSE, Phase
from snowmelt_world.families.programs import pause, places
from snowmelt_world.families.shipped import Interrupted

HOUR: Final = seconds(3600)
SHORT: Final = milliseconds(5)
"""How long one item takes at most when the queue is being emptied."""


class Left(Exception):
    """The loop is left, perhaps by what failed in its body."""

    def __init__(self, reason: str = "", hand: Hand | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.hand = hand


class Loop:
    def __init__(self, steps: LeaseSteps) -> None:
        self.renewals = LeaseRenewals(steps, self._note)
        self.left: Left | None = None
        self.broken = False
        """Whether it was interrupted: an answer may have come that it was not told."""
        self.over = False
        """Whether all was told of it that can be."""
        self.gathered: dict[int, dict[int, None]] = {}
        """What it acknowledged, by tokens."""
        self.missed: dict[int, None] = {}
        """Positions whose acknowledgement nobody was told, it was said."""

    def goes_on(self) -> bool:
        """Whether nobody has left it."""
        return self.left is None

    def alone(self, where: int) -> bool:
        """Whether it had this under one lease only: a miss is told without its lease."""
        return sum(where in one for one in self.gathered.values()) == 1

    def _note(self, _: str, done: tuple[Interval, ...], __: str) -> None:
        self.missed.update(dict.fromkeys(places(done)))


class Looper(Consumer):
    def __init__(self, *cast: Any) -> None:
        super().__init__(*cast)
        self._long = self.chance.random() < 0.5
        """Whether its work takes longer than a lease lasts, at times."""

    def work(self) -> Steps[None]:
        while self.ledger.drained is None:
            if self.stage.phase is Phase.REST:
                yield pause(PAUSE)
                continue
            loop = Loop(self.steps)
            self.run(self._tend(loop))
            left = Left()
            try:
                yield from self._loop(loop)
            except Left as how:
                left = how
            except Interrupted:
                loop.broken = True
            except SnowmeltError:
                pass
            loop.left = left
            while not loop.over:
                yield pause(PAUSE)
            self._judge(loop)

    def _tend(self, loop: Loop) -> Steps[None]:
        """What the thread does that renews, and tells what was gathered."""
        renewals = loop.renewals
        while loop.goes_on():
            yield Sleep(renewals.tick)
            if loop.goes_on() and not renewals.idle:
                yield from renewals.tend()
        left = loop.left or Left()
        yield from renewals.close(left.hand, left.reason)
        loop.over = True

    def _judge(self, loop: Loop) -> None:
        for token, gathered in loop.gathered.items():
            taken, named = self.acked(token), self.held[token].named
            for where in gathered:
                missed = where in loop.missed
                if where not in taken and not missed:
                    text = f"{self.name} acknowledged position {where}, which was forgotten"
                    self.ledger.wrong(text, self.name)
                known = where in taken and named[where] == 1 and not loop.broken
                if missed and known and loop.alone(where):
                    text = f"{self.name} acknowledged position {where}, which was said to be missed"
                    self.ledger.wrong(text, self.name)

    # --- the loop ---------------------------------------------------------------------------------

    def _loop(self, loop: Loop) -> Steps[None]:
        pace = PrefetchSize(self.chance.choice((None, None, 1, 30)))
        pursuit = LoopDeadline(self.queue, self.some(DELAY) / SECOND)
        while True:
            if self.stage.phase is Phase.LOAD:
                self.interrupts()
                self._stands_still()
            delivered = yield from self._next(loop, pace, pursuit)
            if delivered is None:
                return
            self.got(delivered)
            for _, _, where in items_of(delivered.parts):
                if not delivered.lost:  # else they are with others by now
                    yield from self._one(loop, delivered, Interval(where, where + 1))

    def _next(
        self, loop: Loop, pace: PrefetchSize, pursuit: LoopDeadline
    ) -> Steps[LeasedItems | None]:
        """The next lease; None when the time is over without one."""
        pursuit.begin()
        renewals, asked = loop.renewals, steady_now()
        while self.stage.phase is not Phase.REST:
            most = pace.next(steady_now(), renewals.settled)
            try:
                delivered = yield from renewals.get(most, BYTES_MAX, pursuit.left)
            except PASSING as error:
                yield Sleep(pursuit.failed(error))
                continue
            if delivered is not None:
                pursuit.answered()
                pace.came(asked, steady_now(), renewals.settled)
                return delivered
            if pursuit.over():
                break
        return None

    def _one(self, loop: Loop, delivered: LeasedItems, where: Interval) -> Steps[None]:
        chance, loads = self.chance, self.stage.phase is Phase.LOAD
        yield pause(self.some(self._takes(len(delivered))))
        self.believes(delivered)
        way = chance.random() if loads else 0.0
        if way < 0.88:
            self._acknowledge(loop, delivered, where)
        elif way < 0.94:
            reason = FAILED if chance.random() < 0.6 else ""
            delay = self.some(seconds(3)) / SECOND if chance.random() < 0.3 and self.delays else 0
            try:
                how = ReturnOptions(delay, reason, self.dooms(reason))
                yield from loop.renewals.give_back(delivered, where, how)
            except SnowmeltError:
                return
        elif way < 0.97:
            raise Left(FAILED, (delivered, where))
        elif way < 0.98:
            raise Left
        elif way < 0.99:
            self.after(Duration(1), self._dies)
            yield pause(HOUR)

    def _takes(self, count: int) -> Duration:
        """How long one item takes at most; all of a lease no longer than some leases."""
        lease = self.ledger.terms.lease
        if self.stage.phase is not Phase.LOAD:
            return SHORT
        most = 3 * lease if self._long and self.chance.random() < 0.2 else self.habits.work
        return Duration(max(2, min(most, 3 * lease // count)))

    def _acknowledge(self, loop: Loop, delivered: LeasedItems, where: Interval) -> None:
        try:
            loop.renewals.done(delivered, where.start)
        except LeaseLost:
            return
        loop.gathered.setdefault(delivered.token, {})[where.start] = None

    # --- its process ------------------------------------------------------------------------------

    def _dies(self) -> None:
        self.die()
        self.after(self.some(self.ledger.terms.lease), self.begin)

    def _stands_still(self) -> None:
        """At times, for longer than its leases last."""
        if self.chance.random() < 0.03:
            slot = self.stage.world.slots[self.name]
            until = later(self.now, self.some(Duration(2 * self.ledger.terms.lease)))
            slot.paused_until = max(slot.paused_until, until)
