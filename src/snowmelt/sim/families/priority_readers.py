"""A group's reader of a priority queue in a simulated world: a program with a notebook.

It does what Spark's source does, by the steps that ship (`client/priority/group_steps.py`). It
writes down how far it was given, works, notes that it is done, and says so with its next call. It
dies between any two of these, and another goes on from the notebook; at times the one that died
was not dead, and takes its last step much later. What the group is told is held against what nodes
said of its leases:

1. What it was given is told again, the same batches, until it is past them.
2. All that a batch names is read, and is what its lease brought; it is nobody else's, and is not
   lost (that is judged as for all who keep what they lease).
3. Nobody refuses a reader who goes on from its notebook.

Its notes lie in a fifo, on the disks of the same nodes. Where such a disk was hurt notes may be
lost, and with them who knows of what is kept: then it begins anew, and gives back what it had. So
it does where something of a batch may be lost, for which it would wait for ever.
"""

from collections.abc import Iterable
from contextlib import suppress
from random import Random
from typing import Any, Final, get_args

from snowmelt.client.connection.steps import Steps
from snowmelt.client.priority.group_steps import PriorityGroupSteps
from snowmelt.client.priority.notes import Note, Stretch, parts_of
from snowmelt.client.priority.staging import Holding
from snowmelt.client.queue.group_steps import BEGINNING, EVERYTHING, Mark
from snowmelt.core.batch import Batch
from snowmelt.core.errors import DataLost, GroupHeld, LeaseLost, NoSuchQueue, Unavailable
from snowmelt.core.instant import Duration, Instant, milliseconds, seconds
from snowmelt.core.outcome import Outcome
from snowmelt.protocols.priority.calls import Receipt
from snowmelt.protocols.queue import calls as fifo_calls
from snowmelt.sim.families.fifo_actors import PAUSE, Phase, Stage
from snowmelt.sim.families.priority_load import Load
from snowmelt.sim.families.priority_programs import LIGHT, SECONDS, Program
from snowmelt.sim.families.priority_words import Ledger, shares_of
from snowmelt.sim.families.programs import FAILURES, pause
from snowmelt.sim.families.shipped import Interrupted
from snowmelt.sim.judge.urgency import Got
from snowmelt.wire.greeting import CLIENT_PREFIX

_OF_NOTES: Final = get_args(fifo_calls.Request)
EVERY: Final = seconds(20)
"""How long it is left alone at most."""
REFUSALS: Final = (DataLost, GroupHeld, LeaseLost, NoSuchQueue)


class Reader(Program):
    """The only reader of its group."""

    unsafe = False
    """Whether notes of it may be lost."""

    def __init__(self, stage: Stage, name: str, chance: Random, ledger: Ledger, load: Load) -> None:
        super().__init__(stage, name, chance, ledger, load)
        self._names = 0
        self._lives = 0
        self._group = self._joins()
        self._done = self._planned = BEGINNING
        self._batches: list[Note] = []
        """What it was told to lie between these."""
        self._returned: dict[int, None] = {}
        """The leases of which it gave back what no note may know of."""

    def begin(self) -> None:
        """Reads from now on, until the queue is empty."""
        self.run(self._work())
        self._is_interrupted()

    def _is_interrupted(self) -> None:
        """Again and again while there is load, wherever it waits."""
        if self.stage.phase is Phase.LOAD and self._runs:
            self._runs[0].interrupt()
            self.after(self.some(EVERY), self._is_interrupted)

    # --- its lives --------------------------------------------------------------------------------

    def _joins(self) -> PriorityGroupSteps:
        return PriorityGroupSteps(self.steps, self.name, self._new_name, self.chance)

    def _new_name(self) -> str:
        self._names += 1
        return f"{CLIENT_PREFIX}{self.name}-{self._names}"

    def _crashes(self) -> Steps[None]:
        """Another begins in its place, with what was written down."""
        if self.chance.random() < 0.3:
            self.run(self._lingers(self._group, self._done))
        self._lives += 1
        self.steps = self.opened()
        self._group = self._joins()
        yield pause(self.some(seconds(1)))

    def _lingers(self, group: PriorityGroupSteps, done: Mark) -> Steps[None]:
        """It was not dead, and goes on as if it were the only one."""
        yield pause(self.some(seconds(3)))
        with suppress(*FAILURES):
            yield from group.advance(done, self.chance.choice((1, 20)), EVERYTHING, SECONDS)

    # --- what it does -----------------------------------------------------------------------------

    def _work(self) -> Steps[None]:
        while self.ledger.drained is None:
            try:
                if (yield from self._is_given()):
                    yield from self._reads()
            except REFUSALS as error:
                yield from self._refused(error)
            except Unavailable as error:
                if self._waits_in_vain():
                    yield from self._refused(error)
                yield pause(PAUSE)
            except Interrupted:  # or dies, for longer than a lease lasts at times
                yield from self._tarries(1.0)
                yield from self._crashes()
            except FAILURES:
                with suppress(*FAILURES):  # the only disk that had its notes may be lost
                    yield from self._strays()
                yield pause(PAUSE)

    def _tarries(self, share: float) -> Steps[None]:
        """At times for longer than a lease lasts."""
        if self.stage.phase is Phase.LOAD and self.chance.random() < share:
            yield pause(self.some(Duration(3 * self.ledger.settings.lease)))

    def _is_given(self) -> Steps[bool]:
        """Says that it is done with what it has noted, and asks what comes next."""
        if self._planned != self._done:
            return True  # it is written down, and not done yet
        chance = self.chance
        most, size = chance.choice((0, 1, 5, 20, 1000)), chance.choice((LIGHT, EVERYTHING))
        given = yield from self._group.advance(self._done, most, size, SECONDS)
        if given.end == self._done:
            yield from self._strays()
            yield pause(self.some(seconds(1)))
            return False
        if chance.random() < 0.1:  # it dies before it has written it down
            yield from self._crashes()
            return False
        self._planned = given.end
        yield from self._tarries(0.3)
        return True

    def _reads(self) -> Steps[None]:
        """What it has written down, the first time or again after a crash."""
        notes = yield from self._group.batches(self._done, self._planned, SECONDS)
        if self._batches and notes != self._batches:
            text = f"{self.name} was given {self._batches}, and is told {notes} later"
            self.ledger.wrong(text, self.name)
        self._batches = notes
        if len(notes) != self._planned.count - self._done.count:
            self.ledger.wrong(f"{len(notes)} batches are told up to {self._planned}", self.name)
        for note in notes:
            for part in parts_of(note, self.chance.choice((2, 1000))):
                called = self.now
                self._compare(part, (yield from self._group.read(part, SECONDS)), called)
        if self.chance.random() < 0.15:  # it dies before it notes that it is done
            yield from self._crashes()
            return
        self._done, self._batches = self._planned, []
        yield pause(self.some(milliseconds(500)))

    def _compare(self, part: Note, stretches: Iterable[Stretch], called: Instant) -> None:
        """It is told what its lease brought, in that order."""
        ledger, got = self.ledger, self.held[part.token]
        named = {(one.priority, at) for one in part.shares for each in one.intervals for at in each}
        had = [
            (value, ledger.by_value[value].priority(value))
            for value, place in zip(got.values, got.places, strict=True)
            if (place.priority, place.position) in named
        ]
        told = [
            (bytes(body).decode(), one.priority)
            for one in stretches
            for body in Batch(one.offsets, one.blob)
        ]
        part_of_it = [one for one in had if one in told] == told and len(told) < len(had)
        if told != had and not (part_of_it and ledger.let_go(got, called, self.now)):
            text = f"{self.name} reads {told}, and its lease brought {had}"
            ledger.wrong(text, self.name)

    # --- what went wrong --------------------------------------------------------------------------

    def _waits_in_vain(self) -> bool:
        """Whether all are there, and some of a batch may be lost: nobody can show it any more."""
        ledger = self.ledger
        if self.stage.phase is not Phase.DRAIN or not ledger.excuses.whole(self.now):
            return False
        gots = [self.held[note.token] for note in self._batches if note.token in self.held]
        return any(ledger.let_go(one, one.called, self.now) for one in gots)

    def _refused(self, error: Exception) -> Steps[None]:
        """An old call of its first lives may begin the group anew; and disks may have been hurt."""
        if isinstance(error, NoSuchQueue) and self._done == BEGINNING == self._planned:
            yield pause(PAUSE)
            return
        ledger, lease = self.ledger, {note.token for note in self._batches}
        gots = [got for token, got in self.held.items() if token in lease]
        excused = self.unsafe or any(ledger.let_go(one, one.called, self.now) for one in gots)
        if not excused and (self._done.count or not self._lives):
            ledger.wrong(f"{self.name} is refused: {error}", self.name)
        self._done = self._planned = BEGINNING
        self._batches = []
        self._lives += 1
        self._group = self._joins()
        with suppress(*FAILURES):
            yield from self._group.release(SECONDS)

    def _strays(self) -> Steps[None]:
        """Gives back what it holds by notes that may be lost, when nothing else is left."""
        if not self.unsafe or self.stage.phase is Phase.LOAD:
            return
        for got in list(self.held.values()):
            if got.token not in self._returned:
                told = yield from Holding(self.steps).back(_receipt(got), SECONDS)
                if not told.away:
                    self._returned[got.token] = None

    # --- what goes over the wire ------------------------------------------------------------------

    def asks(self, body: Any) -> None:
        """What is said of its notes is another queue's."""
        if not isinstance(body, _OF_NOTES):
            super().asks(body)

    def hears(self, body: Any, called: Instant, outcome: Outcome[Any], at: Instant) -> None:
        if not isinstance(body, _OF_NOTES):
            super().hears(body, called, outcome, at)


def _receipt(got: Got) -> Receipt:
    """All of a lease."""
    return Receipt(got.token, shares_of(got.places))
