"""One node's part in Seap, as a family on the overlay: phases, and any priority.

1. Every wave brings up a node's answer to the last step of the phase, and its batch: how many it
   puts and how many it wants. A batch goes up again with each answer until it is answered, so that
   a place of the tree need remember nothing from one wave to the next.
2. The anchor gives puts their positions at once; where something is wanted, its phase (`Phase`)
   says what is asked of all nodes, a wave a step. The wave that gives ranks answers the batch.
3. An element travels to the hash of its position, and lies there in its node's order, by keys. From
   `Begin` on nothing comes into that order until the phase is over; whoever put it is told the
   number of the phase before which it came in, once all know that one has begun.
4. What has a rank travels to the hash of the rank, and is fetched there: the paper's h(phase, pos).
"""

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from snowmelt.core.interval import Interval
from snowmelt.core.names import NodeId
from snowmelt_lab.machines.overlay.family import Carry, Fetch, Store, Tell, Wish
from snowmelt_lab.machines.overlay.labels import key
from snowmelt_lab.machines.overlay.table import Slot
from snowmelt_lab.machines.seap import steps
from snowmelt_lab.machines.seap.free import Free
from snowmelt_lab.machines.seap.phase import Phase
from snowmelt_lab.machines.seap.steps import Answer, Assign, Begin, Release, Step
from snowmelt_lab.machines.select.elements import Element
from snowmelt_lab.machines.skeap import batches
from snowmelt_lab.machines.skeap.batches import Batch, Grant, GrantedRun, Run, Share, Some
from snowmelt_lab.priority.skeap import Asked

RANKS: Final = 1
"""The row of ranks; positions have row 0."""
ASIDE: Final = -1
"""The ticket under which an element is brought to its rank: nobody waits for that."""


class Report(msgspec.Struct, frozen=True, array_like=True):
    """What goes up (rule 1)."""

    batch: Batch
    answer: Answer | None


class Told(msgspec.Struct, frozen=True, array_like=True):
    """What comes down: the answer to the batch, if it has one by now, and the next step."""

    grant: Grant | None
    step: Step | None
    phase: int = 0
    """Which one served the gets of the batch, where it has an answer and had gets."""


class Brought(msgspec.Struct, frozen=True, array_like=True):
    """An element on its way to the hash of its position."""

    element: Element
    body: str
    node: NodeId
    ticket: int


class In(msgspec.Struct, frozen=True, array_like=True):
    """To who put it: it came in before this phase."""

    ticket: int
    phase: int


class SeapAnchor:
    """What the anchor knows: positions, and its phase (rule 2)."""

    def __init__(self) -> None:
        self._position = 0
        """The next one."""
        self._rank = 1
        """The next one, which is the number of the next phase as well; 0 is before all of them."""
        self._grant = Grant()
        self._phase: Phase | None = None

    def answered(self, report: Report) -> Told:
        phase = self._phase
        if phase is not None:
            assert report.answer is not None, f"{phase.step} is answered"
            step = phase.answered(report.answer)
            if step is not None:
                if isinstance(step, Assign | Release):
                    return Told(self._granted(phase), step, phase.number)
                return Told(None, step)
            self._phase = None
        self._grant = Grant(tuple([self._placed(run) for run in report.batch.runs]))
        wanted = sum([run.gets for run in report.batch.runs])
        if not wanted:
            return Told(self._grant, None)
        self._phase = Phase(self._grant.runs[0].got_order, wanted)
        return Told(None, self._phase.step)

    def _placed(self, run: Run) -> GrantedRun:
        """There is one run at most, and positions have one row."""
        count = sum([some.count for some in run.puts])
        positions = Interval(self._position, self._position + count)
        order, self._position = self._rank, positions.stop
        got_order = order + count
        self._rank = got_order + run.gets
        return GrantedRun(order, (Share(0, positions),) if count else (), got_order, ())

    def _granted(self, phase: Phase) -> Grant:
        ranks = Interval(phase.number, phase.number + phase.taken)
        (run,) = self._grant.runs
        gets = (Share(0, ranks),) if phase.taken else ()
        return Grant((msgspec.structs.replace(run, gets=gets),))


class Kept:
    """What lies at a node, in its order (rule 3)."""

    def __init__(self) -> None:
        self.free: Final = Free("lab")
        self._here: Final[dict[int, tuple[Element, str]]] = {}
        self._phase = 0
        """Before which comes in what comes now."""
        self._beginning = False
        self._held_up: list[Tell] = []

    def add(self, one: Brought) -> list[Tell]:
        """It is here: who is told so now."""
        self._here[one.element.id] = one.element, one.body
        self.free.add(one.element)
        tell = Tell(one.node, In(one.ticket, self._phase))
        if not self._beginning:
            return [tell]
        self._held_up.append(tell)
        return []

    def answer(self, step: Step) -> tuple[Answer, list[tuple[Element, str]], list[Tell]]:
        """To a step; what it gives ranks to, in order; and who is told of his puts."""
        tells: list[Tell] = []
        self._beginning = isinstance(step, Begin)
        if isinstance(step, Begin):
            self._phase = step.phase + 1
        else:
            tells, self._held_up = self._held_up, []
        answer, chosen = self.free.answer(step)
        return answer, [self._here.pop(one.id) for one in chosen], tells


class Seap(Asked):
    """One node's part; the anchor's state is a `SeapAnchor`. Nobody joins or leaves."""

    ready: Final = True

    def __init__(self, me: NodeId, salt: str, priorities: int, now: Callable[[], int]) -> None:
        del priorities  # there are as many as there are numbers
        super().__init__(me, salt, now)
        self.kept_here: Final = Kept()
        self._answered = True
        """Whether the last batch has its answer, be it an empty one."""
        self._answer: Answer | None = None

    @property
    def elements(self) -> int:
        return len(self.kept_here.free)

    # --- up and down ------------------------------------------------------------------------------

    def snapshot(self) -> Report:
        """Rule 1."""
        if self._answered:
            self._answered = False
            self._asked, self._buffered = self._buffered, []
            for one in self._asked:
                one.begun = self._now()
        gets = sum([one.priority is None for one in self._asked])
        puts = len(self._asked) - gets
        runs = (Run((Some(0, puts),) if puts else (), gets),) if self._asked else ()
        return Report(Batch(runs), self._answer)

    def taken_back(self) -> None:
        """Only when somebody comes or goes."""
        raise AssertionError(f"{self.me} was sent back a report")

    def granted(self, grant: Told) -> Sequence[Wish]:
        wishes: list[Wish] = []
        if grant.grant is not None:
            wishes += self._granted(grant.grant, grant.phase)
        self._answer = None
        if grant.step is not None:
            self._answer, taken, tells = self.kept_here.answer(grant.step)
            wishes += tells
            if isinstance(grant.step, Assign):
                ranks = range(grant.step.start, grant.step.start + len(taken))
                rows = zip(ranks, taken, strict=True)
                wishes += [Store(ASIDE, self._slot(RANKS, rank), one) for rank, one in rows]
        return wishes

    def _granted(self, grant: Grant, phase: int) -> list[Wish]:
        asked, self._asked, self._answered = self._asked, [], True
        positions = _numbers([share for run in grant.runs for share in run.puts])
        ranks = _numbers([share for run in grant.runs for share in run.gets])
        wishes: list[Wish] = []
        for one in asked:
            one.granted = self._now()
            if one.priority is not None:
                position = positions.pop(0)
                one.at = one.priority, position
                assert one.element is not None, "a put has a body"
                brought = Brought(Element(*one.at), one.element, self.me, one.ticket)
                wishes.append(Carry(self._slot(0, position).point, brought))
                self._open[one.ticket] = one
            elif ranks:
                one.order = phase
                wishes.append(Fetch(one.ticket, self._slot(RANKS, ranks.pop(0))))
                self._open[one.ticket] = one
            else:
                one.order = phase
                self._end(one)
        return wishes

    def _slot(self, row: int, number: int) -> Slot:
        return Slot(key(self._salt, row, number), (row, number))

    # --- the table --------------------------------------------------------------------------------

    def visited(self, point: int, body: Brought) -> Sequence[Wish]:
        del point
        return self.kept_here.add(body)

    def told(self, body: In) -> Sequence[Wish]:
        operation = self._open.pop(body.ticket)
        operation.order = body.phase
        self._end(operation)
        return []

    def kept(self, ticket: int) -> None:
        assert ticket == ASIDE, f"{self.me} has put nothing under {ticket}"

    def got(self, ticket: int, element: tuple[Element, str]) -> None:
        operation = self._open.pop(ticket)
        one, operation.element = element
        operation.at = one.priority, one.id
        self._end(operation)

    # --- anywhere ---------------------------------------------------------------------------------

    def initial(self) -> SeapAnchor:
        return SeapAnchor()

    def assign(self, state: SeapAnchor, batch: Report) -> tuple[SeapAnchor, Told]:
        return state, state.answered(batch)

    def combine(self, batches: Sequence[Report]) -> Report:
        return _combined(batches)

    def decompose(self, grant: Told, batches: Sequence[Report]) -> list[Told]:
        return _decomposed(grant, batches)


def _combined(reports: Sequence[Report]) -> Report:
    batch = batches.combined([one.batch for one in reports])
    answers = [one.answer for one in reports if one.answer is not None]
    return Report(batch, steps.combined(answers) if answers else None)


def _decomposed(told: Told, reports: Sequence[Report]) -> list[Told]:
    grants: Sequence[Grant | None] = [None] * len(reports)
    if told.grant is not None:
        grants = batches.decomposed(told.grant, [one.batch for one in reports])
    parts: Sequence[Step | None] = [told.step] * len(reports)
    if isinstance(told.step, Assign):
        answers = [one.answer for one in reports if one.answer is not None]
        parts = steps.decomposed(told.step, answers)
    return [Told(grant, step, told.phase) for grant, step in zip(grants, parts, strict=True)]


def _numbers(shares: Sequence[Share]) -> list[int]:
    return [at for share in shares for at in share.positions]
