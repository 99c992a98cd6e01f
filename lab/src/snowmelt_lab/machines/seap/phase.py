"""One phase, as the anchor sees it: from what is wanted to who has it (rules 6 to 9)."""

from collections.abc import Sequence
from typing import Final

from snowmelt_lab.machines.seap import steps
from snowmelt_lab.machines.select.anchor import Selection
from snowmelt_lab.machines.select.elements import Element
from snowmelt_lab.machines.select.plans import Progress, RepairedPlan
from snowmelt_lab.machines.select.steps import Bounds, Counts, Done, Drawn, EqualRanks, Sort
from snowmelt_lab.machines.select.steps import Step as Selecting


class GatheredPlan(RepairedPlan):
    """The sample is as large whatever the number of nodes, since it comes up in one message."""

    def sample(self, at: Progress) -> int:
        """Rule 8."""
        del at
        return self.sample_min


class Phase:
    """What is asked of all nodes for the gets of one batch.

    >>> phase = Phase(7, wanted=3)
    >>> phase.step
    Begin(phase=7, least=3)
    >>> phase.answered(steps.Least(2, 2, 3, (Element(1, 1), Element(4, 2)))), phase.taken
    (Assign(start=7, upto=Element(priority=4, id=2)), 2)
    >>> phase.answered(steps.Heard()) is None
    True
    """

    def __init__(self, number: int, wanted: int) -> None:
        self.number: Final = number
        self.wanted: Final = wanted
        self.taken = 0
        """How many are taken."""
        self._last: Element | None = None
        """The last of them."""
        self._selection: Selection | None = None
        few = wanted if wanted <= steps.SHOWN_MAX else 0  # the first few of more are of no use
        self.step: steps.Step | None = steps.Begin(number, few)
        """What is asked; None when it is over."""

    def answered(self, answer: steps.Answer) -> steps.Step | None:
        """All nodes' answer to the last step: the next one."""
        match answer:
            case steps.Least():
                self.step = self._counted(answer)
            case Drawn() | Bounds():
                self.step = self._select(answer)
            case steps.Sample(elements):
                self.step = self._sorted(elements)
            case steps.Chosen(count):
                assert count == self.taken, f"{count} of {self.taken} are up to {self._last}"
                self.step = steps.Assign(self.number, self._last)
            case steps.Heard():
                self.step = None
        return self.step

    def _counted(self, told: steps.Least) -> steps.Step:
        self.taken = min(self.wanted, told.elements)
        if self.taken == 0:
            return steps.Release()
        if self.taken <= len(told.least):
            return steps.Assign(self.number, told.least[self.taken - 1])
        if self.taken == told.elements:
            return steps.Assign(self.number, None)
        self._selection = Selection(self.taken, GatheredPlan(steps.SAMPLE))
        return self._asked(self._selection.answered(Counts(told.nodes, told.elements)))

    def _sorted(self, elements: Sequence[Element]) -> steps.Step:
        """What stands at the places that were asked for."""
        assert isinstance(self.step, Sort), f"{self.step} was answered by a sample"
        low, high = (elements[at - 1] if at else None for at in (self.step.low, self.step.high))
        return self._select(Bounds(low, high))

    def _select(self, answer: Drawn | Bounds) -> steps.Step:
        assert self._selection is not None, f"{answer} comes of a selection"
        return self._asked(self._selection.answered(answer))

    def _asked(self, step: Selecting) -> steps.Step:
        if not isinstance(step, Done):
            assert not isinstance(step, EqualRanks), "that is the printed plan's"
            return step
        assert step.value is not None, f"elements stay where they are, and yet: {step.end.value}"
        self._last = step.value
        return steps.Choose(step.value)
