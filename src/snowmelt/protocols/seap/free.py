"""What is free at one home, in the order of its keys, and what a phase asks of it: rules 1, 5."""

from collections.abc import Iterable

from snowmelt.core.interval import Interval
from snowmelt.protocols.seap import steps
from snowmelt.protocols.seap.runs import Run, Runs
from snowmelt.protocols.select.candidates import Candidates
from snowmelt.protocols.select.elements import Element
from snowmelt.protocols.select.steps import Draw, Ranks, Sort


class Free:
    """The elements; those that come while a phase runs come in when it is over.

    >>> free = Free("jobs")
    >>> free.begin([Element(5, 1), Element(3, 2)])
    >>> _ = free.answer(steps.Begin(7, 1))
    >>> free.add(Element(1, 3))
    >>> free.answer(steps.Assign(0, None))[1], len(free)
    ([Interval(start=1, stop=3)], 1)
    """

    def __init__(self, salt: str) -> None:
        self.row = Runs()
        self._salt = salt
        self._late: list[Element | Run] = []
        self._candidates: Candidates | None = None

    def begin(self, elements: Iterable[Element]) -> None:
        self.row = Runs(elements)

    def __len__(self) -> int:
        return len(self.row)

    @property
    def rests(self) -> bool:
        """Whether no phase runs."""
        return self._candidates is None

    def add(self, one: Element | Run) -> None:
        if self._candidates is None:
            self.row.add(one)
        else:
            self._late.append(one)

    def answer(self, step: steps.Step) -> tuple[steps.Answer, list[Interval]]:
        """What this home says to a step; and where that stands which has ranks now, in order."""
        taken: list[Interval] = []
        answer: steps.Answer
        if type(step) is steps.Assign:
            there = len(self.row)
            if step.count is not None:  # rule 6
                taken = self.row.take(step.count)
                return steps.Chosen(there - len(self.row)), taken
            taken = self.row.take(there if step.upto is None else self._upto(step.upto))
            self._thaw()
            return steps.Heard(), taken
        match step:
            case steps.Begin(phase, least):
                self._thaw()
                self._candidates = Candidates(f"{self._salt}/{phase}", self.row)
                first = tuple(self.row[:least]) if least else ()
                answer = steps.Least(1, len(self.row), least, first)
            case Ranks():
                answer = self._frozen.ranks(step)
            case Draw():
                answer = self._frozen.draw(step)
            case Sort():
                answer = steps.Sample(tuple(self._frozen.drawn))
            case steps.Choose(upto):
                answer = steps.Chosen(self._upto(upto))
            case steps.Release():
                self._thaw()
                answer = steps.Heard()
        return answer, taken

    @property
    def _frozen(self) -> Candidates:
        assert self._candidates is not None, "a selection runs within a phase"
        return self._candidates

    def _upto(self, element: Element) -> int:
        return self.row.rank(Element(element.priority, element.id + 1))

    def _thaw(self) -> None:
        """The phase is over: what came meanwhile comes in."""
        self._candidates = None
        late, self._late = self._late, []
        for one in late:
            self.row.add(one)
