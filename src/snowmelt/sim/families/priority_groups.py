"""Two more kinds of users: one who stages and publishes, and one who keeps what it leased.

Both do what Spark's sink and source do, and have a notebook that outlives them, as a checkpoint
does. The stager stages its parts, some of them twice, as a task that is tried anew; notes which
ones it means; publishes those until it is told that they are, and at times once more, much later.
The keeper leases, keeps all of it or gives all of it back, is gone for longer than any lease, reads
the same again, and says that it is done until it hears that it is known.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from snowmelt.check.history import Ended
from snowmelt.core.instant import Duration, Instant, seconds
from snowmelt.core.outcome import Failed, Outcome, Succeeded
from snowmelt.protocols.priority import calls
from snowmelt.protocols.priority.batches import Shares, union
from snowmelt.protocols.priority.calls import Receipt
from snowmelt.sim.families.fifo_actors import PATIENCE, PAUSE, Phase
from snowmelt.sim.families.priority_excuses import FOR_EVER
from snowmelt.sim.families.priority_ledger import Asked, Got, receipts_of
from snowmelt.sim.families.priority_load import priority_of
from snowmelt.sim.families.priority_users import Timed, User

HOURS: Final = seconds(3600)
TRIES: Final = 40


class Stager(Timed):
    """Stages, notes what it means, and publishes that."""

    def work(self, number: int) -> None:
        """A batch of two parts."""
        chance = self.chance
        if chance.random() < 0.2:  # an attempt that nobody names: it may never be seen
            self._stage(self._some(f"{number}/never"), HOURS, lambda *_: None)
        hold = chance.choice((seconds(4), HOURS, HOURS))
        self._attempt(number, [self._some(f"{number}/{part}") for part in range(2)], hold)

    def _some(self, name: str) -> Asked:
        settings, most = self.ledger.settings, min(4, self.load.items)
        parts = tuple(
            (priority_of(self.chance, settings), (f"{self.name}/{name}/{index}",))
            for index in range(self.chance.randint(1, most))
        )
        put = Asked(self.name, parts, b"", Duration(0), self.now, staged=True, keyed=settings.keyed)
        self.ledger.asked(put)
        return put

    def _stage(self, put: Asked, hold: Duration, then: Any) -> None:
        self.call(put.call(calls.Put(self.queue, self.via, (), hold=hold)), then)

    def _attempt(self, number: int, left: list[Asked], hold: Duration, *done: Asked) -> None:
        """Part after part."""
        if not left:
            self._publish(number, list(done), hold, self.now)
            return

        def told(outcome: Outcome[Any], at: Instant) -> None:
            match outcome:
                case Succeeded(calls.PutDone() as answer):
                    self.ledger.staged(left[0], answer)
                    if self.chance.random() < 0.9:
                        self._attempt(number, left[1:], hold, *done, left[0])
                        return
            self.ledger.refused(left[0], "nobody named it", at)
            if self.stage.phase is Phase.LOAD:
                name = f"{number}/{at}"
                again = partial(self._attempt, number, [self._some(name), *left[1:]], hold, *done)
                self.after(self.some(seconds(1)), again)
            else:
                self.unfinished.pop(number, None)

        self._stage(left[0], hold, told)

    def _publish(self, number: int, puts: list[Asked], hold: Duration, called: Instant) -> None:
        """Until it is told that all is published, or that it was erased."""
        for put in puts:
            put.naming = put.naming or self.now
        shares = union([share for put in puts for share in put.shares])

        def told(outcome: Outcome[Any], at: Instant) -> None:
            match outcome:
                case Succeeded(calls.Settled(lost=())):
                    for put in puts:
                        self.ledger.published(put, at)
                    if self.chance.random() < 0.3 and self.stage.phase is Phase.LOAD:
                        again = partial(self._publish, number, puts, hold, called)
                        self.after(self.some(seconds(20)), again)
                        return
                case Succeeded(calls.Settled(lost, away)) if not away:
                    self._erased(puts, lost, hold, called, at)
                case _ if self.stage.phase is Phase.LOAD or self.chance.random() < 0.7:
                    again = partial(self._publish, number, puts, hold, called)
                    self.after(self.some(seconds(1)), again)
                    return
            self.unfinished.pop(number, None)

        self.call(calls.Settle(self.queue, publish=(Receipt(0, shares),)), told)

    def _erased(
        self,
        puts: list[Asked],
        lost: tuple[Receipt, ...],
        hold: Duration,
        called: Instant,
        at: Instant,
    ) -> None:
        ledger = self.ledger
        gone = sum(share.total for receipt in lost for share in receipt.shares)
        for put in puts:
            if put.ended is Ended.SUCCEEDED and not ledger.let_go(put, called, at):
                ledger.wrong(f"{put.values[0]} was published, and is erased, it says", self.name)
        kept = not any(ledger.let_go(put, called, at) for put in puts)
        if hold == HOURS and kept and not ledger.early:
            ledger.wrong(f"what {self.name} staged for hours is erased", self.name)
        if gone == sum(len(put.values) for put in puts):
            for put in puts:
                ledger.refused(put, "it was erased", at)


class Keeper(User):
    """Leases, keeps, is away, reads again, and is done."""

    _tries = 0
    """How often it was told, after the load, that something is away."""

    def begin(self) -> None:
        """Opens, and gets from then on."""
        self.open(lambda *_: self._get())

    def _get(self) -> None:
        if self.ledger.drained is not None:
            return
        if self.stage.phase is not Phase.LOAD:
            self.after(PAUSE, self._get)
            return
        called, most = self.now, self.chance.choice((1, 5, 20))

        def told(outcome: Outcome[Any], at: Instant) -> None:
            match outcome:
                case Succeeded(calls.Leased() as leased):
                    got = self.ledger.leased(self.name, called, most, leased, at)
                    if got is not None:
                        self._keep(got)
                        return
                case _:
                    self.ledger.lose(self.name, called, at, outcome)
            self.after(self.some(seconds(2)), self._get)

        self.call(calls.Get(self.queue, self.via, most, Duration(0)), told)

    def _all(self, got: Got) -> Receipt:
        return got.receipt(list(range(len(got.values))))

    def _keep(self, got: Got) -> None:
        called = self.now

        def told(outcome: Outcome[Any], at: Instant) -> None:
            match outcome:
                case Succeeded(calls.Settled(lost=())):
                    got.held = FOR_EVER
                    self._away(got)
                case Succeeded(calls.Settled()):
                    if self.asked_once(number):
                        self.ledger.refused_lease(got, at, called)
                    self._back(got)
                case Failed(reason) if "Unavailable" not in reason and self.asked_once(number):
                    self.ledger.wrong(f"{self.name} may not keep: {reason}", self.name)
                case _:
                    self.after(PAUSE, partial(self._keep, got))

        number = self.call(calls.Settle(self.queue, keep=(self._all(got),)), told)

    def _away(self, got: Got) -> None:
        """Longer than a lease, and its process is another one then."""
        if self.stage.phase is not Phase.LOAD or self.chance.random() < 0.3:
            self._done(got, self.now)
        else:
            away = self.some(Duration(3 * self.ledger.settings.lease))
            self.after(away, partial(self._look, got))

    def _look(self, got: Got) -> None:
        called = self.now

        def told(outcome: Outcome[Any], at: Instant) -> None:
            match outcome:
                case Succeeded(calls.Shown() as shown):
                    self._compare(got, shown, called, at)
                    self._away(got)
                case _:
                    self.after(PAUSE, partial(self._look, got))

        self.call(calls.Show(self.queue, self._all(got)), told)

    def _compare(self, got: Got, shown: calls.Shown, called: Instant, at: Instant) -> None:
        """It reads what it had, or hears that it has it still: a home may have to fetch it."""
        ledger = self.ledger
        seen = {value for piece in shown.pieces for value, _ in ledger.shown(piece, at)}
        there = _numbers((*shown.held, *shown.away))
        for value, place in zip(got.values, got.places, strict=True):
            if value in seen or (place.priority, place.position) in there:
                continue
            if not ledger.let_go(got, called, at):
                ledger.wrong(f"{value} was kept by {self.name}, and is not shown", self.name)

    def _done(self, got: Got, called: Instant) -> None:
        """Until it hears that it is known; only the first saying may not be refused."""
        everything = list(range(len(got.values)))
        first, got.held = called == self.now, min(got.held, self.now)

        def told(outcome: Outcome[Any], at: Instant) -> None:
            match outcome:
                case Succeeded(calls.Settled(lost, away)):
                    refused = receipts_of(lost, got)
                    if refused and first and self.asked_once(number):
                        self._refused(got, called, at)
                    known = [index for index in everything if index not in refused]
                    self.ledger.acked(got, known, called, at, Ended.SUCCEEDED)
                    self.ledger.acked(got, refused, called, at, Ended.UNKNOWN)
                    self._next(away, partial(self._done, got, called))
                case _:
                    self.after(PAUSE, partial(self._done, got, called))

        number = self.call(calls.Settle(self.queue, done=(self._all(got),)), told)

    def _refused(self, got: Got, called: Instant, at: Instant) -> None:
        twice = any(called <= view.at <= at for view in self.ledger.excuses.views)
        if not twice and not self.ledger.let_go(got, called, at):
            self.ledger.wrong(f"what {self.name} keeps is not its any more", self.name)

    def _next(self, away: tuple[Receipt, ...], again: Callable[[], None]) -> None:
        """What lies with a node that is away is kept for good: it is said again when that is back.

        What nobody has any more is away for ever.
        """
        if away and (self.stage.phase is Phase.LOAD or self._tries < TRIES):
            self._tries += self.stage.phase is not Phase.LOAD
            self.after(seconds(1), again)
        else:
            self._get()

    def _back(self, got: Got) -> None:
        called, everything = self.now, list(range(len(got.values)))

        def told(outcome: Outcome[Any], at: Instant) -> None:
            match outcome:
                case Succeeded(calls.Settled(_, away)):
                    self.ledger.given_back(got, everything, called, at, Ended.SUCCEEDED)
                    self._next(away, partial(self._back, got))
                case _:
                    self.ledger.given_back(got, everything, called, at, Ended.UNKNOWN)
                    self.after(PAUSE, partial(self._back, got))

        self.call(calls.Settle(self.queue, back=(self._all(got),)), told, PATIENCE)


def _numbers(shares: Shares) -> set[tuple[int, int]]:
    return {
        (share.priority, position)
        for share in shares
        for interval in share.intervals
        for position in interval
    }
