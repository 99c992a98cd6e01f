"""What the anchor knows of one selection, and what it asks next (rules 12 to 16)."""

from typing import Final

import msgspec

from snowmelt_lab.machines.select import steps
from snowmelt_lab.machines.select.elements import Window
from snowmelt_lab.machines.select.plans import Plan, Progress, window_of

_replace: Final = msgspec.structs.replace


class Selection:
    """From the first batch, which counts, to `Done`.

    >>> from snowmelt_lab.machines.select.elements import Element
    >>> from snowmelt_lab.machines.select.plans import RepairedPlan
    >>> from snowmelt_lab.machines.select.steps import SURE
    >>> one = Selection(3, RepairedPlan())
    >>> one.answered(steps.Counts(nodes=2, elements=5)).chance == SURE
    True
    >>> one.answered(steps.Drawn(before=0, behind=0, drawn=5))
    Sort(number=1, start=1, total=5, low=3, high=0)
    >>> one.answered(steps.Bounds(low=Element(7, 1))).value
    Element(priority=7, id=1)
    """

    def __init__(self, k: int, plan: Plan) -> None:
        self.k: Final = k
        self.plan: Final = plan
        self.at = Progress(nodes=0, elements=0, k=k, count=0)
        self.step: steps.Step | None = None
        """What was asked last."""
        self.draws = 0

    @property
    def done(self) -> steps.Done | None:
        return self.step if isinstance(self.step, steps.Done) else None

    def answered(self, answer: steps.Answer) -> steps.Step:
        """All nodes' answer to the last step: the next one."""
        match self.step, answer:
            case None, steps.Counts(nodes, elements):
                self.at = Progress(nodes=nodes, elements=elements, k=self.k, count=elements)
                valid = 1 <= self.k <= elements
                self.step = self._go_on() if valid else self._end(steps.End.NO_SUCH_RANK)
            case ((steps.Ranks() | steps.EqualRanks()), steps.Bounds()):
                before, rankings = self.at.count, self.at.rankings + 1
                self.at = _replace(self.at, rankings=rankings, before_ranking=before)
                self.step = self._draw(window_of(self.at, answer), 0)
            case ((steps.Draw() as draw), steps.Drawn()):
                self.step = self._counted(draw, answer)
            case ((steps.Sort() as sort), steps.Bounds()):
                self.step = self._sorted(sort, answer)
            case step, _:
                raise AssertionError(f"{step} was answered by {answer}")
        return self.step

    def _go_on(self) -> steps.Step:
        """Phase 1, or a draw by what is known (rules 12, 13 and 15)."""
        at = self.at
        if not 1 <= at.k <= at.count:
            return self._end(steps.End.LOST)
        if at.after_phase1 is None:
            ranks = self.plan.ranks(at)
            if ranks is not None:
                return ranks
            self.at = at = _replace(at, after_phase1=at.count)
        if self.plan.hopeless(at):
            return self._end(steps.End.ENDLESS)
        return self._draw(at.candidates, self.plan.chance(at))

    def _draw(self, cut: Window, chance: int) -> steps.Draw:
        self.draws += 1
        return steps.Draw(self.at.candidates, cut, chance, self.draws)

    def _counted(self, draw: steps.Draw, told: steps.Drawn) -> steps.Step:
        """A window is verified, and what was drawn from it may be sorted (rules 14 and 19)."""
        misses = self.at.misses
        if draw.cut != draw.candidates:
            self.at = self.plan.narrowed(self.at, draw.cut, told)
        at = self.at
        if not 1 <= at.k <= at.count:
            return self._end(steps.End.LOST)
        if not draw.chance:
            return self._go_on()
        final = told.drawn == at.count
        if at.misses > misses:
            return self._go_on()
        if not final:
            self.at = at = _replace(at, samples=at.samples + 1)
        if not self.plan.fits(at, told.drawn):
            return self._go_on()
        low, high = (at.k, 0) if final else self.plan.places(at, told.drawn)
        return steps.Sort(draw.number, 1, told.drawn, low, high)

    def _sorted(self, sort: steps.Sort, told: steps.Bounds) -> steps.Step:
        """The k-th smallest itself, or the next window."""
        assert isinstance(self.step, steps.Sort)
        if sort.total == self.at.count:
            return self._end(steps.End.FOUND, told)
        self.at = _replace(self.at, left=told.low is not None)
        cut = window_of(self.at, told)
        guess = self.plan.guess(self.at, sort.total, (sort.low, sort.high))
        return self._draw(cut, guess)

    def _end(self, end: steps.End, told: steps.Bounds | None = None) -> steps.Done:
        return steps.Done(end, self.at.elements, None if told is None else told.low)
