"""Those who look at the queues of a simulated world, and who brings everything to its end.

A looker peeks, surveys, lists, and asks for the numbers, of one queue; what it sees is judged. The
steward pauses and resumes, and brings back the dead; when the load is over it waits until every
item has its copies again and the exam is over (`fifo_exam.py`), and lets the consumers drain what
is there.
"""

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from random import Random
from typing import Any, Final

from snowmelt.client.connection.steps import Query, Steps
from snowmelt.client.queue.group_steps import groups, survey
from snowmelt.core.instant import SECOND, Instant, seconds
from snowmelt.core.names import NodeId
from snowmelt.core.outcome import Failed, Outcome, Succeeded
from snowmelt.protocols.queue.api import calls
from snowmelt.protocols.queue.api.settings import ANY, REPLICAS_USUAL
from snowmelt.protocols.queue.api.statuses import ListQueues
from snowmelt_world.families.fifo_actors import PATIENCE, Actor, Phase, Stage
from snowmelt_world.families.fifo_clients import USUAL, Putter
from snowmelt_world.families.fifo_exam import Exam
from snowmelt_world.families.fifo_load import Load
from snowmelt_world.families.fifo_programs import Program
from snowmelt_world.families.fifo_words import Ledger, numbers, positions
from snowmelt_world.families.programs import FAILURES
from snowmelt_world.families.shipped import Done
from snowmelt_world.judge.looks import Shown

LOOK_EVERY: Final = seconds(1)
SECONDS: Final = PATIENCE / SECOND


class Looker(Program):
    """Looks at one queue, while there is load and while it is drained."""

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
        self._times = times
        self._load = load
        self._peeked = Instant(0)

    def begin(self) -> None:
        self.begin_at(self._times, self._look)

    def query(self, step: Query, told: Done) -> None:
        """Some fetch late what they are shown, and then ask for the numbers."""
        if isinstance(step.body, calls.Fetch) and self.chance.random() < self._load.late:
            self.after(self.some(seconds(3)), self.describe)
            self.after(self.some(seconds(3)), partial(super().query, step, told))
        else:
            super().query(step, told)

    def hears(self, body: Any, called: Instant, outcome: Outcome[Any], at: Instant) -> None:
        looks = self.ledger.looks
        match body, outcome:
            case calls.Peek(start=start, dead=dead), Succeeded(calls.Peeked(parts, spans)):
                keyed = self.ledger.settings.priorities == ANY and not dead
                look = Shown(self.name, called, self.said, start, dead, by_key=keyed)
                looks.showed(look, positions([*parts, *spans]))
                self._peeked = called
                for part in parts:
                    self.ledger.read(part, at, called=called)
            case calls.Select(rank=rank), Succeeded(calls.Peeked(parts)):
                keyed = self.ledger.settings.priorities == ANY
                look = Shown(self.name, called, self.said, 0, dead=False, rank=rank, by_key=keyed)
                looks.showed(look, positions(parts))
                for part in parts:
                    self.ledger.read(part, at, called=called)
            case calls.Fetch(), Succeeded(calls.Fetched(parts)):
                for part in parts:
                    self.ledger.read(part, at, called=self._peeked)
            case calls.Survey(start=start), Succeeded(calls.Located(spans)):
                look = Shown(self.name, called, self.said, start, dead=False)
                looks.showed(look, positions(spans))
            case calls.ListGroups(), Succeeded(calls.Groups(found)):
                looks.groups({one.name: one.done for one in found}, called, self.said)
            case calls.Describe(), Succeeded(calls.QueueStatus() as status):
                looks.described(numbers(status), called, self.said)
            case _:
                pass

    def _look(self) -> None:
        if not self.busy:  # it looks at one thing at a time
            self.run(self._looks())

    def _looks(self) -> Steps[None]:
        chance, steps = self.chance, self.steps
        look: Steps[Any]
        match chance.choice(("peek", "peek", "peek dead", "describe", "survey", "groups")):
            case "peek":
                look = steps.peek(chance.choice((20, 20, 200)), False, SECONDS)
            case "peek dead":
                look = steps.peek(chance.choice((20, 20, 200)), True, SECONDS)
            case "survey" if self.ledger.settings.priorities != 1:
                select = calls.Select(self.queue, chance.choice((1, 1, 2, 5, 20)))
                look = steps.ask_about(select, SECONDS)
            case "survey":
                look = survey(steps, chance.choice((0, 0, 7)), 50, SECONDS)
            case "groups":
                look = groups(steps, SECONDS)
            case _:
                look = steps.stats(SECONDS)
        with suppress(*FAILURES):
            yield from look


class Steward(Actor):
    """Looks round while there is load; afterwards brings everything to its end."""

    def __init__(
        self,
        stage: Stage,
        chance: Random,
        ledgers: list[Ledger],
        producers: Sequence[Putter],
        exam: Exam | None = None,
    ) -> None:
        super().__init__(stage, "steward", chance)
        self.nodes: tuple[NodeId, ...] = ()
        """Who may have copies."""
        self._ledgers = ledgers
        self._exam = exam
        self._producers = producers
        self._whole: dict[str, None] = {}
        self._gone: dict[str, None] = {}

    def begin(self, times: list[Instant]) -> None:
        for at in times:
            self.stage.world.at(at, self._look_in)

    def _look_in(self) -> None:
        if self.stage.phase is not Phase.LOAD:
            return
        chance, ledger = self.chance, self.chance.choice(self._ledgers)
        match chance.choice(("describe", "describe", "pause", "redrive", "list")):
            case "describe":
                told = partial(self._described, ledger, self.now)
                self.ask(calls.Describe(ledger.queue), told)
            case "pause":
                self._pause(ledger)
            case "redrive":
                self._redrive(ledger, chance.choice((0, 3, 50)))
            case _:
                self.ask(ListQueues(), _heard)

    def _pause(self, ledger: Ledger) -> None:
        """Until it is resumed for certain; what was said often may come late and pause it anew."""
        asked = self.now
        ledger.looks.pausing(asked)
        wait = self.some(seconds(3))

        def told(outcome: Outcome[Any], _: Instant) -> None:
            certain = self.sent_once and isinstance(outcome, Succeeded)
            self.after(wait, partial(self._resume, ledger, asked if certain else None))

        self.ask(calls.Pause(ledger.queue, paused=True), told)

    def _resume(self, ledger: Ledger, asked: Instant | None) -> None:
        called = self.now

        def told(outcome: Outcome[Any], at: Instant) -> None:
            if asked is not None and isinstance(outcome, Succeeded):
                ledger.looks.resumed(asked, called, at)

        self.ask(calls.Pause(ledger.queue, paused=False), told)

    def _redrive(self, ledger: Ledger, per_second: int) -> None:
        ledger.redriving(self.now)
        self.ask(calls.Redrive(ledger.queue, per_second), _heard)

    def _described(
        self, ledger: Ledger, called: Instant, outcome: Outcome[Any], at: Instant
    ) -> None:
        ledger.called.append((called, at, False))
        match outcome:
            case Succeeded(calls.QueueStatus() as status):
                ledger.looks.described(numbers(status), called, self.said)

    # --- after the load ---------------------------------------------------------------------------

    def rest(self) -> None:
        """The load is over: waits until all is whole and the exam is over, then has it drained."""
        self.stage.phase = Phase.REST
        for ledger in self._ledgers:
            self._look(ledger)

    def _look(self, ledger: Ledger) -> None:
        called = self.now

        def told(outcome: Outcome[Any], at: Instant) -> None:
            self._described(ledger, called, outcome, at)
            match outcome:
                case Succeeded(calls.QueueStatus() as status):
                    self._saw(ledger, status, called)
                case Failed(reason) if "NoSuchQueue" in reason and not self._putting(ledger):
                    self._whole[ledger.queue] = None
                    ledger.drained = called
                case _ if ledger.excuses.gone:
                    self._gone[ledger.queue] = None
                case _:
                    pass
            whole = len(self._whole | self._gone) == len(self._ledgers)
            if whole and (self._exam is None or self._exam.is_over(self.stage.world, self._there)):
                self.stage.phase = Phase.DRAIN
            over = self.stage.phase is Phase.DRAIN and self.left_out(ledger)
            if ledger.drained is None and not over:
                self.after(LOOK_EVERY, partial(self._look, ledger))

        self.ask(calls.Describe(ledger.queue), told)

    def _putting(self, ledger: Ledger) -> bool:
        return any(one.ledger is ledger and one.unfinished for one in self._producers)

    def _saw(self, ledger: Ledger, status: calls.QueueStatus, called: Instant) -> None:
        self._gone.pop(ledger.queue, None)
        putting = self._putting(ledger)
        if self._exam is not None:
            self._exam.saw(status, called, putting=putting)
        slots = self.stage.world.slots
        nodes = [name for name in self.nodes if slots[name].node is not None]
        most = min(REPLICAS_USUAL, len(nodes))
        fewer = status.settings.grows and status.settings.replicas < most
        if not (status.short_of_copies or status.waiting_puts or putting or fewer):
            self._whole[ledger.queue] = None
        if self.stage.phase is not Phase.DRAIN:
            return
        left = status.ready + status.delayed + status.leased + status.assigned + status.dead
        if status.paused:
            self.ask(calls.Pause(ledger.queue, paused=False), _heard)
        elif status.dead:
            self._redrive(ledger, 0)
        elif not left and not putting:
            ledger.drained = called

    def left_out(self, ledger: Ledger) -> bool:
        """Whether this queue need not answer any more, and does not."""
        return ledger.queue in self._gone

    @property
    def _there(self) -> list[Ledger]:
        return [one for one in self._ledgers if not self.left_out(one)]

    @property
    def unfinished(self) -> str:
        """What is not as it should be yet, in words."""
        there = self._there
        for ledger in there:
            if self.stage.phase is Phase.REST and ledger.queue not in self._whole:
                return f"{ledger.queue} still lacks copies, or has puts that wait"
        for ledger in there:
            if ledger.drained is None:
                return f"{ledger.queue} is not empty yet"
        return ""


def _heard(outcome: Outcome[Any], at: Instant) -> None:
    """An answer that says nothing to be judged."""
    del outcome, at
