"""Those who look at the priority queues of a simulated world, and who brings all to its end.

They ask by the steps that ship. What a node says is judged as it is said; what a person is told is
held against that.
"""

from collections.abc import Sequence
from contextlib import suppress
from random import Random
from typing import Any, Final, Protocol

from snowmelt.client.connection.steps import Steps
from snowmelt.client.leases.steps import Seen
from snowmelt.client.overlay.steps import OverlayStatus
from snowmelt.core.errors import NoSuchQueue
from snowmelt.core.instant import Instant, milliseconds
from snowmelt.core.outcome import Failed, Outcome, Succeeded
from snowmelt.protocols.priority import calls
from snowmelt.sim.families.fifo_actors import Phase, Stage
from snowmelt.sim.families.priority_exam import Exam, Said
from snowmelt.sim.families.priority_load import Load
from snowmelt.sim.families.priority_programs import SECONDS, Program
from snowmelt.sim.families.priority_words import Ledger
from snowmelt.sim.families.programs import FAILURES, pause
from snowmelt.sim.judge.urgency import Selection, Stand

EMPTY: Final = 4
LOOK_EVERY: Final = milliseconds(700)
EXAMINED_EVERY: Final = milliseconds(100)


class Looker(Program):
    """Looks at one queue, and brings back or purges what it may."""

    def __init__(self, stage: Stage, name: str, chance: Random, ledger: Ledger, load: Load) -> None:
        super().__init__(stage, name, chance, ledger, load)
        self._shown: list[tuple[str, int]] = []
        """What a node showed last, and with which priorities."""
        self._asked = Instant(0)
        """When it was last asked how many there are."""

    def begin(self, times: list[Instant]) -> None:
        self.begin_at(times, self._look)

    def asks(self, body: Any) -> None:
        """A purge may have taken any from now on."""
        super().asks(body)
        match body:
            case calls.Purge():
                self.ledger.purged.append((self.now, None, None))
            case calls.Statistics():
                self._asked = self.now
            case _:
                pass

    def hears(self, body: Any, called: Instant, outcome: Outcome[Any], at: Instant) -> None:
        super().hears(body, called, outcome, at)
        ledger = self.ledger
        match body, outcome:
            case calls.Statistics(), Succeeded(calls.Status() as status):
                ledger.stands.append(Stand(self.name, called, at, _total(status)))
            case calls.Peek(dead=dead), Succeeded(calls.Peeked(pieces)):
                self._sees(called, pieces, at, dead=dead)
            case calls.Select(rank=rank, share=share), Succeeded(calls.Peeked(pieces)):
                self._sees(called, pieces, at, dead=False)
                values = [value for value, _ in self._shown]
                ledger.selections.append(Selection(self.name, called, at, rank, share, *values))
            case calls.Purge(), Succeeded(calls.Counted(count)) if self.sent_once:
                self._purged(called, at, count)
            case calls.Purge(), Failed() if self.sent_once:
                self._purged(called, at, 0)
            case _:
                pass

    def _sees(self, called: Instant, pieces: Any, at: Instant, *, dead: bool) -> None:
        ledger = self.ledger
        shown = ledger.looked(self.name, called, ledger.items(pieces), at, dead=dead)
        self._shown = [(one.value, one.priority) for one in shown]

    def _purged(self, called: Instant, at: Instant, count: int) -> None:
        purged = self.ledger.purged
        mine = next(index for index, (begun, *_) in enumerate(purged) if begun == called)
        purged[mine] = called, at, count

    # --- what it looks at -------------------------------------------------------------------------

    def _look(self) -> None:
        if not self.busy:  # it looks at one thing at a time
            self.run(self._looks())

    def _looks(self) -> Steps[None]:
        ways = ["peek", "peek dead", "statistics"]
        ways += ["select", "select"] if self.ledger.settings.keyed else []
        if self.stage.phase is Phase.LOAD:
            ways += ["redrive"] + (["purge"] if self.load.purges else [])
        with suppress(*FAILURES):
            yield from self._looks_at(self.chance.choice(ways))

    def _looks_at(self, way: str) -> Steps[None]:
        chance, steps = self.chance, self.steps
        match way:
            case "peek" | "peek dead":
                seen = yield from steps.peek(chance.choice((1, 5, 50)), "dead" in way, SECONDS)
                self._told(seen)
            case "select":
                rank = chance.choice((0, 1, 1, 2, 5, 20))
                share = None if rank else chance.choice((0.0, 0.3, 0.5, 1.0))
                one = yield from steps.select(rank, share, SECONDS)
                self._told([] if one is None else [one])
            case "redrive":
                yield from steps.redrive(SECONDS)
            case "purge":
                yield from steps.purge(chance.random() < 0.3, SECONDS)
            case _:
                status = yield from steps.stats(SECONDS)
                self._told_total(status)

    def _told(self, seen: list[Seen]) -> None:
        told = [(one.body.decode(), one.priority) for one in seen]
        if told != self._shown:
            self.ledger.wrong(f"{told} are told, and {self._shown} were shown", self.name)

    def _told_total(self, status: OverlayStatus) -> None:
        told = status.ready + status.delayed + status.leased + status.dead
        if told != self.ledger.stands[-1].total:
            self.ledger.wrong(f"it is told that {told} are there, and no node said so", self.name)


class Unfinished(Protocol):
    unfinished: dict[int, None]
    ledger: Ledger


class Steward(Looker):
    """When the load is over, asks how the queue is until the exam is, then has it drained."""

    producers: Sequence[Unfinished] = ()
    exam: Exam | None = None
    """None where no machine is lost after the load."""
    _empty = 0
    """How often in a row nothing was there: what is on its way to a consumer is not counted."""

    @property
    def putting(self) -> bool:
        """Whether anybody may put into its queue still."""
        return any(one.unfinished for one in self.producers if one.ledger is self.ledger)

    def rest(self) -> None:
        """The load is over: nobody gets until the exam is, if any, then all is drained."""
        self.stage.phase = Phase.DRAIN if self.exam is None else Phase.REST
        self.run(self._watch())

    def fall(self) -> None:
        watched = self.busy
        super().fall()
        if watched:
            self.run(self._watch())

    def _watch(self) -> Steps[None]:
        while self.ledger.drained is None:
            if self.stage.phase is Phase.REST:
                self._is_examined()
            try:
                status = yield from self.steps.stats(SECONDS / 3)
            except NoSuchQueue:  # nobody has put anything
                self._saw(0, Said(self._asked, 0))
            except FAILURES:
                pass
            else:
                yield from self._brings_back(status)
                left = status.ready + status.delayed + status.leased + status.dead
                self._saw(left, Said(self._asked, status.short_of_copies, status.anchor))
            yield pause(EXAMINED_EVERY if self.stage.phase is Phase.REST else LOOK_EVERY)

    def _is_examined(self) -> None:
        exam, world = self.exam, self.stage.world
        if exam is None or exam.is_over(world, self.ledger.queue, putting=self.putting):
            self.stage.phase = Phase.DRAIN

    def _brings_back(self, status: OverlayStatus) -> Steps[None]:
        if status.dead and self.stage.phase is Phase.DRAIN:
            with suppress(*FAILURES):
                yield from self.steps.redrive(SECONDS)

    def _saw(self, left: int, said: Said) -> None:
        ledger, called = self.ledger, self._asked
        if self.exam is not None and self.stage.phase is not Phase.DRAIN:
            self.exam.says(ledger.queue, said)
            return
        away = not ledger.excuses.whole(called)  # with what waits for it
        self._empty = 0 if left or self.putting or away else self._empty + 1
        if self._empty == EMPTY:
            ledger.drained = called


def _total(status: calls.Status) -> int:
    ready = sum(some.count for some in status.ready)
    return ready + status.leased + status.held + status.dead
