"""One node's part in a selection, as a family that lives on the overlay (rule 6)."""

from collections.abc import Iterable, Sequence
from typing import Final

from snowmelt.core.names import NodeId
from snowmelt_lab.machines.overlay.family import Wish
from snowmelt_lab.machines.select import steps
from snowmelt_lab.machines.select.anchor import Selection
from snowmelt_lab.machines.select.candidates import Candidates
from snowmelt_lab.machines.select.elements import Element
from snowmelt_lab.machines.select.plans import Plan
from snowmelt_lab.machines.select.sorting import Branch, Copy, Smaller, Sorting


class Selecting:
    """For one selection; the anchor's state is a `Selection`, which nobody else sees.

    The overlay has to be in its synchronous mode, and to stay as it is while this runs.
    """

    def __init__(
        self, me: NodeId, salt: str, elements: Iterable[Element], k: int, plan: Plan
    ) -> None:
        self.me: Final = me
        self.candidates: Final = Candidates(salt, elements)
        self.sorting: Final = Sorting(me, salt)
        self.done: steps.Done | None = None
        self._k = k
        self._plan = plan
        self._sort: steps.Sort | None = None
        """What is being sorted."""
        self._answer: steps.Answer | None = steps.Counts(1, len(self.candidates.elements))

    # --- at this node -----------------------------------------------------------------------------

    @property
    def ready(self) -> bool:
        """Whether the last step can be answered (rule 6)."""
        return self._answer is not None

    @property
    def pending(self) -> bool:
        return self.done is None

    def snapshot(self) -> steps.Answer | None:
        answer, self._answer = self._answer, None
        return answer

    def taken_back(self) -> None:
        """An update has begun while a selection runs: nothing may join or leave meanwhile."""
        raise AssertionError(f"{self.me} was sent back an answer of a selection")

    def granted(self, step: steps.Step) -> Sequence[Wish]:
        """The next step; what has to be sorted is answered later."""
        match step:
            case steps.Ranks():
                self._answer = self.candidates.ranks(step)
            case steps.EqualRanks():
                self._answer = self.candidates.equal_ranks(step)
            case steps.Draw():
                self._answer = self.candidates.draw(step)
            case steps.Sort(number, start, total):
                self._sort = step
                wishes = self.sorting.begin(number, start, total, self.candidates.drawn)
                self._settle()
                return wishes
            case steps.Done():
                self.done = step
        return []

    def visited(self, point: int, body: Branch | Copy) -> Sequence[Wish]:
        return self.sorting.visited(point, body)

    def told(self, body: Smaller) -> Sequence[Wish]:
        wishes = self.sorting.told(body)
        if not body.copy:
            self._settle()
        return wishes

    def _settle(self) -> None:
        """Once all its elements have their places a node tells those that were asked for."""
        sort = self._sort
        if sort is None or not self.sorting.known(sort.number):
            return
        places = self.sorting.end(sort.number)
        at = {place: self.candidates.drawn[item - sort.start] for item, place in places.items()}
        self._answer = steps.Bounds(at.get(sort.low), at.get(sort.high))
        self._sort = None

    def kept(self, ticket: int) -> None:
        raise AssertionError(f"{self.me} has put nothing under {ticket}")

    def got(self, ticket: int, element: object) -> None:
        raise AssertionError(f"{self.me} has not asked for {element} under {ticket}")

    # --- anywhere ---------------------------------------------------------------------------------

    def initial(self) -> Selection:
        return Selection(self._k, self._plan)

    def assign(self, state: Selection, batch: steps.Answer) -> tuple[Selection, steps.Step]:
        return state, state.answered(batch)

    def combine(self, batches: Sequence[steps.Answer]) -> steps.Answer:
        return steps.combined(batches)

    def decompose(self, grant: steps.Step, batches: Sequence[steps.Answer]) -> list[steps.Step]:
        return steps.decomposed(grant, batches)
