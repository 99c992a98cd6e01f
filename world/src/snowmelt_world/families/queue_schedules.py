"""A queue with schedules, under all faults: what they put is taken, and judged.

One makes the schedules, at the beginning; others take what comes. When the load is over it asks how
they are, removes them, and takes the rest. What may not be seen is in `judge/schedules.py`.
"""

from random import Random
from typing import Final

from snowmelt.client.connection.steps import Steps
from snowmelt.client.connection.waits import Wait
from snowmelt.client.fifo.steps import FifoSteps
from snowmelt.client.leases.delivered import LeasedItems, label_of, put_at_of
from snowmelt.client.leases.steps import LeaseUpdate
from snowmelt.client.queue.options import ProducerSequence
from snowmelt.client.queue.schedules import schedule, unschedule, what_of
from snowmelt.client.queue.timetables import timetable
from snowmelt.core.errors import NoSuchQueue
from snowmelt.core.instant import Instant, seconds
from snowmelt.core.interval import Interval
from snowmelt.protocols.queue.api.schedules import (
    MOMENT_HEADER,
    NAME_HEADER,
    ListSchedules,
    ScheduleRows,
)
from snowmelt.protocols.queue.api.settings import QueueSettings
from snowmelt_world.families.fifo_actors import Phase, Stage
from snowmelt_world.families.programs import FAILURES, pause
from snowmelt_world.families.queue_deleted import BYTES, SECONDS, SHORT, User
from snowmelt_world.judge.deleted import DeletedLedger
from snowmelt_world.judge.schedules import Known, Said, ScheduleLedger
from snowmelt_world.world import World

LOST_AFTER: Final = 8
"""So often it tries in vain before it gives up a queue: the node of its one copy may be gone."""


class Scheduler(User):
    """Makes schedules, and takes what they put."""

    def __init__(
        self, stage: Stage, chance: Random, judge: ScheduleLedger, settings: QueueSettings
    ) -> None:
        unused = DeletedLedger(judge.queue, keeps=False, knows=False)
        super().__init__(stage, f"{judge.queue}u", chance, unused, settings)
        self.judge = judge
        producer = ProducerSequence(None, names=lambda: f"c{self.name}", chance=chance)
        self.steps = FifoSteps(judge.queue, settings, producer, chance)

    def make(self) -> None:
        """Each is said again until somebody says that it is so."""
        for name in self.judge.known:
            self.run(self._makes(name))

    def _makes(self, name: str) -> Steps[None]:
        known = self.judge.known[name]
        table = timetable(f"{known.interval // seconds(1)}s")
        what = what_of(name.encode(), table, "skip" if known.skips else "once")
        while self.stage.phase is Phase.LOAD:
            try:
                yield from schedule(self.steps, name, what, None, SECONDS)
                self.judge.told((yield from self._rows()))
            except FAILURES:
                yield pause(self.some(seconds(1)))
            else:
                return

    def _rows(self) -> Steps[tuple[Said, ...]]:
        told: ScheduleRows = yield from self.steps.ask_about(ListSchedules(self.judge.queue), SHORT)
        return tuple(
            [
                Said(row.name, row.moments.next, row.moments.last, row.moments.fired)
                for row in told.rows
            ]
        )

    def _act(self) -> None:
        if self.stage.phase is Phase.LOAD:
            self.run(self._looks() if self.chance.random() < 0.2 else self._takes())

    def _looks(self) -> Steps[None]:
        try:
            self.judge.told((yield from self._rows()))
        except FAILURES:
            return

    def _takes(self) -> Steps[None]:
        try:
            yield from self.take(0.8)
        except FAILURES:
            return

    def take(self, acks: float) -> Steps[bool]:
        """Some items; whether there were any."""
        answer = yield from self.steps.ask_lease(9, BYTES, Wait(0), ahead=False, before=-1)
        if answer is None or not answer.leased.token:
            return False
        delivered = yield from self.steps.delivered(answer.leased, answer.asked, BYTES)
        if delivered is None:
            return True
        self._came(delivered)
        if self.chance.random() < acks:
            yield from self.steps.tell(
                delivered, LeaseUpdate(delivered.token, done=delivered.positions)
            )
        return True

    def _came(self, delivered: LeasedItems) -> None:
        for part in delivered.parts:
            for where in delivered.positions:
                for place in Interval(where.start, where.stop):
                    if not part.start <= place < part.start + part.count:
                        continue
                    headers, put_at = label_of(part, place)[1], put_at_of(part, place)
                    assert put_at is not None, "all leaders note times"
                    name, said = str(headers[NAME_HEADER]), str(headers[MOMENT_HEADER])
                    self.judge.came(name, said, place, put_at)

    # --- at the end -------------------------------------------------------------------------------

    def close(self) -> Steps[None]:
        """Removes them, and takes the rest."""
        rows: tuple[Said, ...] | None = None
        left, vain = dict.fromkeys(self.judge.known), 0
        while vain < LOST_AFTER:
            try:
                if rows is None:
                    rows = yield from self._rows()
                    self.judge.told(rows)
                while left:
                    yield from unschedule(self.steps, next(iter(left)), SHORT)
                    del left[next(iter(left))]
                while (yield from self.take(1.0)):
                    pass
                if not (yield from self._holds()):
                    self.judge.drained(rows)
                    return
            except NoSuchQueue:
                return
            except FAILURES:
                vain += 1
            yield pause(seconds(1))

    def _holds(self) -> Steps[bool]:
        """Whether something may come back."""
        status = yield from self.steps.stats(SHORT)
        return bool(status.ready or status.leased or status.delayed)


class Schedulers:
    """All of a life."""

    def __init__(self, stage: Stage, ledger: ScheduleLedger) -> None:
        self._stage = stage
        self.ledgers = [ledger]
        self._over = False

    def add(self, world: World, dice: Random, nodes: int, end: Instant) -> None:
        """Who makes schedules of one queue, and takes what they put."""
        [ledger] = self.ledgers
        settings = QueueSettings(replicas=dice.randint(1, nodes), lease=seconds(3))
        for number in range(dice.randint(1, 3)):
            length = seconds(dice.choice((1, 1, 2, 5)))
            ledger.known[f"s{number}"] = Known(length, dice.random() < 0.3)
        one = Scheduler(self._stage, Random(dice.random()), ledger, settings)
        world.at(Instant(dice.randrange(end // 4 + 1)), one.make)
        one.begin(sorted([Instant(dice.randrange(end)) for _ in range(dice.choice((8, 20, 40)))]))

        def close() -> None:
            if one.busy:
                world.at(Instant(world.now + seconds(1)), close)
            else:
                one.run(self._closes(one))

        world.at(end, close)

    def _closes(self, one: Scheduler) -> Steps[None]:
        yield from one.close()
        self._over = True

    @property
    def unsettled(self) -> str:
        """What is not over yet."""
        return "" if self._over else f"schedules of {self.ledgers[0].queue} are not removed yet"
