"""Two more kinds of users: one who stages and publishes, and one who keeps what it leased.

Both do what Spark's sink and source do, by the steps that ship (`client/priority/staging.py`), and
have a notebook that outlives them, as a checkpoint does. The stager stages its parts, some of them
twice, as a task that is tried anew; notes which ones it means; publishes those until it is told
that they are, and at times once more, much later. The keeper leases, keeps all of it or gives all
of it back, is gone for longer than any lease, reads the same again, and says that it is done until
it hears that it is known. What it heard may be undone, by an older copy of the one disk that knew:
then what it kept is kept for ever, by the promise, and whoever sees that after the load has it say
so once more.
"""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from snowmelt.check.history import Ended
from snowmelt.client.connection.steps import Steps
from snowmelt.client.priority.staging import Holding, Told, receipt_of
from snowmelt.core.instant import Duration, Instant, seconds
from snowmelt.protocols.priority.batches import Shares
from snowmelt.protocols.priority.calls import Receipt
from snowmelt.sim.families.fifo_actors import PAUSE, Phase
from snowmelt.sim.families.priority_clients import WEIGHT, Putter
from snowmelt.sim.families.priority_load import priority_of
from snowmelt.sim.families.priority_programs import SECONDS, Program
from snowmelt.sim.families.priority_words import shares_of
from snowmelt.sim.families.programs import FAILURES, pause
from snowmelt.sim.judge import copies
from snowmelt.sim.judge.urgency import Got
from snowmelt.sim.judge.values import Put

HOURS: Final = 3600.0
TRIES: Final = 40


class Stager(Putter):
    """Stages, notes what it means, and publishes that."""

    def put(self, number: int) -> None:
        """A batch of two parts."""
        self.run(self._work(number), lambda _: self.finished(number))

    def _work(self, number: int) -> Steps[None]:
        chance, done = self.chance, list[Put]()
        if chance.random() < 0.2:  # an attempt that nobody names: it may never be seen
            yield from self._stage(self._some(f"{number}/never"), HOURS)
        hold = chance.choice((4.0, HOURS, HOURS))
        while len(done) < 2:
            put = self._some(f"{number}/{len(done)}/{self.now}")
            staged = yield from self._stage(put, hold)
            if staged and chance.random() < 0.9:
                done.append(put)
                continue
            self.ledger.refused(put, "nobody named it", self.now)
            if not self.loads:
                return
            yield pause(self.some(seconds(1)))
        yield from self._publish(done, hold)

    def _some(self, name: str) -> Put:
        settings, chance = self.ledger.settings, self.chance
        size = chance.randint(1, min(4, self.load.items))
        values = tuple(f"{self.name}/{name}/{index}" for index in range(size))
        own = tuple(priority_of(chance, settings) for _ in range(size))
        put = Put(
            self.name, values, b"", self.now, priorities=own, keyed=settings.keyed, staged=True
        )
        self.ledger.asked(put)
        return put

    def _stage(self, put: Put, hold: float) -> Steps[bool]:
        """Whether it is staged; then where a node said it is."""
        rows = [
            (own, value.encode()) for value, own in zip(put.values, put.priorities, strict=True)
        ]
        try:
            told = yield from Holding(self.steps).stage(rows, None, {}, 0.0, hold, SECONDS)
        except FAILURES:
            return False
        if told.shares != shares_of(put.places):
            self.ledger.wrong(f"{put.values[0]} is told to be staged elsewhere", self.name)
        return True

    def _publish(self, puts: list[Put], hold: float) -> Steps[None]:
        """Until it is told that all is published, or that it was erased."""
        chance, called = self.chance, self.now
        receipt = Receipt(0, shares_of([place for put in puts for place in put.places]))
        while True:
            for put in puts:
                put.naming = put.naming or self.now
            wait = seconds(1)
            try:
                told = yield from Holding(self.steps).publish(receipt, SECONDS)
            except FAILURES:
                told = Told(away=receipt.shares)
            if told.away and not (self.loads or chance.random() < 0.7):
                return
            if not (told.away or told.lost):
                for put in puts:
                    self.ledger.is_in(put, self.now)
                if not (self.loads and chance.random() < 0.3):
                    return
                wait = seconds(20)  # and once more, much later
            elif not told.away:
                self._erased(puts, told.lost, hold, called)
                return
            yield pause(self.some(wait))

    def _erased(self, puts: list[Put], lost: Shares, hold: float, called: Instant) -> None:
        ledger, at = self.ledger, self.now
        gone = sum(share.total for share in lost)
        for put in puts:
            if put.ended is Ended.SUCCEEDED and not ledger.let_go(put, called, at):
                ledger.wrong(f"{put.values[0]} was published, and is erased, it says", self.name)
        kept = not any(ledger.let_go(put, called, at) for put in puts)
        if hold == HOURS and kept and not ledger.early:
            ledger.wrong(f"what {self.name} staged for hours is erased", self.name)
        if gone == sum(len(put.values) for put in puts):
            for put in puts:
                ledger.refused(put, "it was erased", at)


class Over(NamedTuple):
    """What a keeper said of what it had, until it heard that it is known."""

    got: Got
    steps: Callable[[], Steps[Told]]
    called: Instant
    known: Instant


class Keeper(Program):
    """Leases, keeps, is away, reads again, and is done."""

    _tries = 0
    """How often it was told, after the load, that something is away."""
    _ended: tuple[Over, ...] = ()
    """What it heard is known, in this order."""

    def begin(self) -> None:
        self.run(self._work())

    def _work(self) -> Steps[None]:
        while self.ledger.drained is None:
            if self.stage.phase is not Phase.LOAD:
                yield from self._says_again()
                yield pause(PAUSE)
                continue
            most = self.chance.choice((1, 5, 20))
            try:
                delivered = (yield from self.steps.get_many(most, WEIGHT, 0.0))[0]
            except FAILURES:
                delivered = None
            if delivered is None:
                yield pause(self.some(seconds(2)))
                continue
            self.got(delivered)
            yield from self._has(self.held[delivered.token], receipt_of(delivered))

    def _has(self, got: Got, receipt: Receipt) -> Steps[None]:
        if not (yield from self._insists(lambda: self._holding.keep(receipt, SECONDS))):
            yield from self._parts_with(got, lambda: self._holding.back(receipt, SECONDS))
            return
        while self.stage.phase is Phase.LOAD and self.chance.random() >= 0.3:
            # Longer than a lease, and its process is another one then.
            yield pause(self.some(Duration(3 * self.ledger.settings.lease)))
            self.steps, called = self.opened(), self.now
            pieces, told = yield from self._insists(lambda: self._holding.show(receipt, SECONDS))
            self._compare(got, pieces, told, called)
        yield from self._parts_with(got, lambda: self._holding.done(receipt, SECONDS))

    def _parts_with(self, got: Got, steps: Callable[[], Steps[Told]]) -> Steps[None]:
        called = self.now
        yield from self._says(steps)
        self._ended = (*self._ended, Over(got, steps, called, self.now))

    def _says_again(self) -> Steps[None]:
        """What may be undone since is kept for ever, unless it is said once more."""
        ended, self._ended = self._ended, ()
        for got, steps, called, known in ended:
            words = [copies.Told(place, called, known) for place in got.places]
            if any(self.ledger.excuse(self.name, called, one, self.now) for one in words):
                yield from self._says(steps)

    @property
    def _holding(self) -> Holding:
        return Holding(self.steps)

    def _insists(self, steps: Any) -> Steps[Any]:
        while True:
            try:
                return (yield from steps())
            except FAILURES:
                yield pause(PAUSE)

    def _says(self, steps: Any) -> Steps[None]:
        """Until it hears that it is known.

        What lies with a node that is away is kept for good: it is said again when that is back.
        What nobody has any more is away for ever.
        """
        while True:
            told = yield from self._insists(steps)
            if not told.away or (self.stage.phase is not Phase.LOAD and self._tries >= TRIES):
                return
            self._tries += self.stage.phase is not Phase.LOAD
            yield pause(seconds(1))

    def _compare(self, got: Got, pieces: Any, told: Told, called: Instant) -> None:
        """It reads what it had, or hears that it has it still: a home may have to fetch it."""
        ledger, at = self.ledger, self.now
        seen = {one.value for one in ledger.shown(ledger.items(pieces), at)}
        there = _numbers(told.away)
        for value, place in zip(got.values, got.places, strict=True):
            if value in seen or (place.priority, place.position) in there:
                continue
            if not ledger.let_go(got, called, at):
                ledger.wrong(f"{value} was kept by {self.name}, and is not shown", self.name)


def _numbers(shares: Shares) -> set[tuple[int, int]]:
    return {
        (share.priority, position)
        for share in shares
        for interval in share.intervals
        for position in interval
    }
