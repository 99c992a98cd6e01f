"""A queue is moved into another under all faults, as `snowmelt move --delete` does; it is judged.

Some put into the old queue, one item behind the other, and go over to the new one when they hear
`QueueMoved`. One moves what is there, is killed at drawn moments, and begins again. When the load
is over the move is brought to its end, and the new queue is read.

1. An item of an answered put is in the new queue, once. One whose put was refused for certain is
   not. Of a put that heard `QueueMoved` it is not known: its first answer may have been lost.
2. An item whose put was answered before another was put stands before it in the new queue.
3. Who uses the old name hears where its items are; no queue of that name is made.
"""

from collections import Counter
from random import Random
from typing import ClassVar, Final

from msgspec import field

from snowmelt.client.connection.steps import Steps
from snowmelt.client.queue.deleting import delete
from snowmelt.core.errors import NoSuchQueue, NotEmpty, QueueMoved, SnowmeltError
from snowmelt.core.instant import Instant, seconds
from snowmelt.protocols.queue.api.calls import QueueStatus
from snowmelt.protocols.queue.api.settings import QueueSettings
from snowmelt_world.families.fifo_actors import Phase, Stage
from snowmelt_world.families.programs import FAILURES, pause
from snowmelt_world.families.queue_deleted import SECONDS, SHORT
from snowmelt_world.families.queue_steps import (
    LOST_AFTER,
    StepLedger,
    StepLife,
    StepUser,
    StepUsers,
)
from snowmelt_world.families.shipped import Run
from snowmelt_world.world import Broken

OLD, NEW = "m0", "m1"
TRIES: Final = 20
"""So often one run of the mover finds something in the old queue before it gives up."""
DIES: Final = 0.5


class MoveLedger(StepLedger):
    """What was put, and what came out of the new queue."""

    called: dict[str, Instant] = field(default_factory=dict)
    """When each put was asked."""
    done: dict[str, Instant] = field(default_factory=dict)
    """When it was answered."""
    moved: bool = False
    """Whether the old queue was heard to be moved."""
    wrong: str = ""

    def judge(self) -> None:
        """Raises `Broken` for what may not be."""
        if not (self.keeps and self.drained):
            return
        if self.wrong:
            raise Broken(self.wrong, OLD)  # rule 3
        came = self.came.get(NEW, {})
        count = Counter(came.values())
        for value in count:
            if value not in self.asked:
                raise Broken(f"{NEW}: {value} was never put", NEW)
        for value in self.asked:  # rule 1
            if count[value] > 1:
                raise Broken(f"{NEW}: {value} is doubled", NEW)
            if count[value] and value in self.never:
                raise Broken(f"{NEW}: {value} is there, and its put did not happen", NEW)
            if not count[value] and value in self.done:
                raise Broken(f"{NEW}: {value} is lost", NEW)
        newest, of = Instant(0), ""
        for _, value in sorted(came.items()):  # rule 2
            if self.done.get(value, newest) < newest:
                raise Broken(f"{NEW}: {value} is behind {of}, which was put later", NEW)
            if self.called[value] > newest:
                newest, of = self.called[value], value


class Putter(StepUser):
    """Puts one item behind the other, into the queue that it knows of."""

    names: ClassVar[tuple[str, ...]] = (OLD, NEW)
    all: MoveLedger
    where = OLD

    def _act(self) -> None:
        if self.stage.phase is not Phase.LOAD or self.busy:
            return
        if self.chance.random() < 0.1:  # as another process, which knows the old name alone
            self.opens()
            self.where = OLD
        self.run(self.puts_one())

    def puts_one(self) -> Steps[None]:
        self._count += 1
        value, ledger = f"{self.name}/{self._count}", self.all
        ledger.asked[value], ledger.called[value] = None, self.now
        try:
            yield from self.queues[self.where].put_many([value.encode()], None, 0.0, SECONDS, None)
        except QueueMoved:
            ledger.moved, self.where = True, NEW
        except NoSuchQueue as error:
            ledger.wrong = ledger.wrong or f"who put into {self.where} heard: {error}"
        except FAILURES as error:
            if isinstance(error, SnowmeltError) and error.definite:
                ledger.never[value] = None
        else:
            ledger.done[value] = self.now
            if self.where == OLD and ledger.moved:
                ledger.wrong = ledger.wrong or f"{value} went into {OLD}, which was moved"


class Mover(StepUser):
    """Moves the old queue into the new one, and is killed at times."""

    names: ClassVar[tuple[str, ...]] = (OLD, NEW)
    all: MoveLedger

    def _act(self) -> None:
        if self.stage.phase is not Phase.LOAD or self.busy or self.all.moved:
            return
        self.opens()
        self.busy += 1
        run = Run(self, self.moves(), self._over)
        if self.chance.random() < DIES:
            self.after(self.some(seconds(4)), lambda: self._killed(run))
        run.go(None)

    def _over(self, told: object) -> None:
        assert not isinstance(told, Exception), f"{self.name} ended with {told!r}"
        self.busy = 0

    def _killed(self, run: Run) -> None:
        run.end()
        self.busy = 0

    def moves(self) -> Steps[None]:
        """One run of the command, up to its first failure."""
        try:
            yield from self._moves()
        except QueueMoved:
            self.all.moved = True
        except FAILURES:
            return

    def _moves(self) -> Steps[None]:
        source, most, vain = self.queues[OLD], self.chance.choice((1, 3, 20)), 0
        while (yield from self.looks()).leased:  # what a killed one had in hand
            yield pause(seconds(1))
        yield from self.queues[NEW].create(SECONDS)
        while (yield from self.step((OLD,), (NEW,), most)):
            pass
        while vain < TRIES:
            yield from source.pause(True, SECONDS, NEW)
            if (yield from self.step((OLD,), (NEW,), most)):
                continue
            try:
                yield from delete(OLD, True, False, SECONDS, NEW)
            except NotEmpty:
                vain += 1
                yield pause(seconds(0.5))
            else:
                self.all.moved = True
                return

    def looks(self) -> Steps[QueueStatus]:
        """How the old queue is."""
        return self.queues[OLD].stats(SHORT)

    # --- at the end -------------------------------------------------------------------------------

    def closes(self, putters: list[Putter]) -> Steps[None]:
        """Brings the move to its end, has each put once more, and reads the new queue."""
        vain = 0
        while vain < LOST_AFTER and not self.all.moved:
            self.opens()
            yield from self.moves()
            vain += 1
            yield pause(seconds(3))
        for one in putters:
            one.opens()
            one.where = OLD
            for _ in range(2):
                yield from one.puts_one()
        self.opens()
        while vain < 2 * LOST_AFTER:
            try:
                yield from self.reads((NEW,))
            except FAILURES:
                vain += 1
                yield pause(seconds(3))
            else:
                self.all.drained = self.all.moved
                return


class MoveUsers(StepUsers):
    """All of a life."""

    waits: ClassVar[str] = f"{OLD} is not moved into {NEW} yet"
    ledger: MoveLedger

    def add(self, dice: Random, nodes: int, end: Instant) -> None:
        """Who puts, and who moves."""
        made = QueueSettings(replicas=dice.randint(1, nodes), lease=seconds(3))
        stage, told = self._stage, self.ledger
        putters = [
            Putter(stage, f"w{number}", Random(dice.random()), told)
            for number in range(dice.randint(1, 3))
        ]
        mover = Mover(stage, "mover", Random(dice.random()), told)
        for user in (*putters, mover):
            user.settings = made
            user.opens()
        for one in putters:
            count = dice.choice((10, 30, 60))
            one.begin(sorted([Instant(dice.randrange(end)) for _ in range(count)]))
        begins = dice.randrange(end)
        mover.begin(sorted([Instant(dice.randrange(begins, end)) for _ in range(8)]))
        self.closes(end, mover, (*putters, mover), lambda: mover.closes(putters))


class MoveLife(StepLife):
    """A life of queues with one that is moved into another."""

    dice: ClassVar[str] = "move"
    ends_in: ClassVar[float] = 0.0

    def users(self, stage: Stage, *, keeps: bool) -> MoveUsers:
        """Who puts, and who moves."""
        return MoveUsers(stage, MoveLedger(keeps, awaits=False))
