"""One phase, as the anchor sees it: from what is wanted to who has it (rules 6 to 9)."""

from collections.abc import Sequence
from math import ceil
from typing import Final

from snowmelt.protocols.seap import steps
from snowmelt.protocols.select.anchor import Selection
from snowmelt.protocols.select.elements import Element
from snowmelt.protocols.select.plans import Progress, RepairedPlan
from snowmelt.protocols.select.steps import Bounds, Counts, Done, Drawn, End, EqualRanks, Sort
from snowmelt.protocols.select.steps import Step as Selecting


class GatheredPlan(RepairedPlan):
    """The sample is as large whatever the number of homes, since it comes up in one message."""

    def sample(self, at: Progress) -> int:
        """Rule 8."""
        del at
        return self.sample_min


def rank_at(share: float, count: int) -> int:
    """Which of so many stands at a part of them.

    >>> rank_at(0, 9), rank_at(0.5, 9), rank_at(1, 9)
    (1, 5, 9)
    """
    return max(1, ceil(share * count))


class Phase:
    """What is asked of all homes for one batch of gets, or for one look.

    >>> phase = Phase(7, wanted=3)
    >>> phase.step
    Begin(phase=7, least=3)
    >>> phase.answered(steps.Least(2, 2, 3, (Element(1, 1), Element(4, 2)))), phase.taken
    (Assign(start=7, upto=Element(priority=4, id=2), hungry=False, count=None, patient=False), 2)
    >>> phase.answered(steps.Heard()) is None
    True
    """

    def __init__(
        self,
        number: int,
        *,
        wanted: int = 0,
        rank: int = 0,
        share: float | None = None,
        least: int = steps.SHOWN_MAX,
        sample: int = steps.SAMPLE,
        patient: bool = False,
    ) -> None:
        self.number: Final = number
        self.wanted: Final = wanted
        self.elements = 0
        """How many there are."""
        self.least: tuple[Element, ...] = ()
        """The first of them."""
        self.taken = 0
        """How many are taken."""
        self.value: Element | None = None
        """What has the rank that is looked for."""
        self._rank, self._share = rank, share
        self._patient = patient
        self.waited_for = False
        """Whether somebody waits since an earlier phase."""
        self._plan = GatheredPlan(sample)
        self._k = 0
        self._selection: Selection | None = None
        self._least = least
        self.step: steps.Step | None = self._begin()
        """What is asked; None when it is over."""

    def alone(self) -> steps.Step:
        """The only step where one home has everything: it takes as many as there are (rule 6)."""
        self.step = steps.Assign(self.number, None, self.waited_for, self.wanted, self._patient)
        return self.step

    def answered(self, answer: steps.Answer) -> steps.Step | None:
        """All homes' answer to the last step: the next one."""
        if type(answer) is steps.Heard:  # it and `Least` are all that is heard of a few
            self.step = None
            return None
        match answer:
            case steps.Least():
                self.step = self._counted(answer)
            case Drawn():
                self.step = self._select(answer)
            case Bounds():
                self.step = self._select(answer)
            case steps.Sample(elements):
                self.step = self._sorted(elements)
            case steps.Chosen(count) if type(self.step) is steps.Assign:
                self.taken = self._k = count
                self.step = None
            case steps.Chosen(count):
                self.step = self._assign(self.value) if count == self._k else self._begin()
            case steps.Heard():
                self.step = None
        return self.step

    def _begin(self) -> steps.Step:
        """Counts; anew, when what homes have told does not fit together (rule 13)."""
        shown = min(self._rank or steps.SHOWN_MAX, self._least)
        if self.wanted:  # the first few of more are of no use
            shown = self.wanted if self.wanted <= self._least else 0
        return steps.Begin(self.number, shown)

    def _sorted(self, elements: Sequence[Element]) -> steps.Step:
        """What stands at the places that were asked for."""
        assert isinstance(self.step, Sort), f"{self.step} was answered by a sample"
        if len(elements) != self.step.total:
            return self._begin()
        low, high = (elements[at - 1] if at else None for at in (self.step.low, self.step.high))
        return self._select(Bounds(low, high))

    def _counted(self, told: steps.Least) -> steps.Step:
        self.elements, self.least = told.elements, told.least
        self._k = min(self.wanted, told.elements)
        if self._share is not None:
            self._rank = rank_at(self._share, told.elements)
        if not self.wanted and 1 <= self._rank <= told.elements:
            self._k = self._rank
        if self._k == 0:
            return self._release()
        if self._k <= len(told.least):
            self.value = told.least[self._k - 1]
            return self._assign(self.value) if self.wanted else self._release()
        if self.wanted and self._k == told.elements:
            return self._assign(None)
        self._selection = Selection(self._k, self._plan)
        return self._asked(self._selection.answered(Counts(told.nodes, told.elements)))

    def _select(self, answer: Drawn | Bounds) -> steps.Step:
        assert self._selection is not None, f"{answer} comes of a selection"
        return self._asked(self._selection.answered(answer))

    def _asked(self, step: Selecting) -> steps.Step:
        if not isinstance(step, Done):
            assert not isinstance(step, EqualRanks), "that is the printed plan's"
            return step
        if step.end is not End.FOUND or step.value is None:  # elements stay where they are
            return self._begin()
        self.value = step.value
        return steps.Choose(self.value) if self.wanted else self._release()

    def _assign(self, upto: Element | None) -> steps.Step:
        self.taken = self._k
        return steps.Assign(self.number, upto, self.hungry)

    def _release(self) -> steps.Step:
        return steps.Release(self.hungry)

    @property
    def hungry(self) -> bool:
        """Whether somebody waits: of these gets, or since an earlier phase (rule 11)."""
        return self.waited_for or (self._patient and self._k < self.wanted)
