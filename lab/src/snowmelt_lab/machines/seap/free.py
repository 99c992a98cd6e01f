"""What is free at one node, in the order of its keys, and what a phase asks of it: rules 1, 5."""

from bisect import bisect_right, insort
from typing import Final

from snowmelt_lab.machines.seap import steps
from snowmelt_lab.machines.select.candidates import Candidates
from snowmelt_lab.machines.select.elements import Element
from snowmelt_lab.machines.select.steps import Draw, Ranks, Sort


class Free:
    """The elements; those that come while a phase runs come in when it is over.

    >>> free = Free("jobs")
    >>> free.add(Element(5, 1)); free.add(Element(3, 2))
    >>> _ = free.answer(steps.Begin(7, 1))
    >>> free.add(Element(1, 3))
    >>> free.answer(steps.Assign(0, None))[1], free.row
    ([Element(priority=3, id=2), Element(priority=5, id=1)], [Element(priority=1, id=3)])
    """

    def __init__(self, salt: str) -> None:
        self.row: Final[list[Element]] = []
        self._salt = salt
        self._late: list[Element] = []
        self._candidates: Candidates | None = None
        """Those of the phase that runs."""

    def __len__(self) -> int:
        return len(self.row)

    def add(self, one: Element) -> None:
        if self._candidates is None:
            insort(self.row, one)
        else:
            self._late.append(one)

    def answer(self, step: steps.Step) -> tuple[steps.Answer, list[Element]]:
        """What this node says to a step; and what has ranks now."""
        taken: list[Element] = []
        answer: steps.Answer
        match step:
            case steps.Begin(phase, least):
                self._thaw()
                self._candidates = Candidates(f"{self._salt}/{phase}", self.row)
                answer = steps.Least(1, len(self.row), least, tuple(self.row[:least]))
            case Ranks():
                answer = self._frozen.ranks(step)
            case Draw():
                answer = self._frozen.draw(step)
            case Sort():
                answer = steps.Sample(tuple(self._frozen.drawn))
            case steps.Choose(upto):
                answer = steps.Chosen(bisect_right(self.row, upto))
            case steps.Assign(_, upto):
                end = len(self.row) if upto is None else bisect_right(self.row, upto)
                taken, self.row[:end] = self.row[:end], []
                self._thaw()
                answer = steps.Heard()
            case steps.Release():
                self._thaw()
                answer = steps.Heard()
        return answer, taken

    @property
    def _frozen(self) -> Candidates:
        assert self._candidates is not None, "a selection runs within a phase"
        return self._candidates

    def _thaw(self) -> None:
        """The phase is over: what came meanwhile comes in."""
        self._candidates = None
        late, self._late = self._late, []
        for one in late:
            insort(self.row, one)
