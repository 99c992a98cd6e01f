"""The anchor of a queue with any priorities: phases one after another, for gets and for looks.

1. A batch has its positions as soon as it comes; it is answered when its gets have their ranks. A
   batch without gets is answered at once.
2. A phase is over when all homes have heard its last step; only then the next begins (seap, rule
   3). Its batch is answered as soon as that step is known.
3. A look is a phase that takes nothing; those that show the first ones share one.
   Gets and looks take turns. A look has the number of the last phase that took something: the next
   one, which may have come up before the look, has a greater one.
4. A phase takes one number of the order for each element, and one where there was none: thousands
   who wait for many elements each are asked for them time and again, and an epoch has to do.
"""

from collections import deque
from collections.abc import Callable, Sequence

import msgspec

from snowmelt.core.interval import Interval
from snowmelt.core.names import NodeId
from snowmelt.protocols.overlay.climbing import Arrival
from snowmelt.protocols.priority.anchor import Anchor
from snowmelt.protocols.priority.batches import Batch, Grant, GrantedRun, Run, Share, Shares
from snowmelt.protocols.priority.desk import Desk
from snowmelt.protocols.priority.limits import Limits
from snowmelt.protocols.priority.messages import Look, Looked
from snowmelt.protocols.priority.waves import Waves
from snowmelt.protocols.seap.phase import Phase
from snowmelt.protocols.seap.steps import Answer, Assign, Release, Step
from snowmelt.protocols.select.elements import Element

LOOKS_MAX = 1_000
"""So many wait for their phase; who asks later asks again."""


class RankAnchor(Anchor):
    """Gives positions to puts, as any anchor does; what there is to be got is the homes' to tell.

    >>> from snowmelt.protocols.priority.batches import Some
    >>> anchor = RankAnchor(0, 1)
    >>> run = anchor.granted(Batch((Run((Some(0, 3),), 2),))).runs[0]
    >>> run.puts[0].total, run.got_order, run.gets
    (3, 4, ())
    """

    @property
    def order(self) -> int:
        return self._order

    def served(self, number: int, taken: int) -> None:
        """Of a phase: the numbers that its gets found nothing for are the next ones' (rule 4)."""
        self._order = number + max(1, taken)

    def _run(self, run: Run, *, patient: bool) -> GrantedRun:
        del patient
        order, puts, got_order = self._order, self._put(run.puts), self._order
        self._order += run.gets
        return GrantedRun(order, puts, got_order, ())

    def _back(self, shares: Shares) -> None:
        """It is free with its home."""


class Phases:
    """Of one queue, at its anchor's node, in one view."""

    def __init__(self, desk: Desk, queue: str, anchor: RankAnchor, waves: Waves, limits: Limits):
        self._desk = desk
        self._queue = queue
        self._anchor = anchor
        self._waves = waves
        self._limits = limits
        self._arrival: Arrival[Batch] | None = None
        self._grant = Grant()
        self._phase: Phase | None = None
        self._looks: deque[tuple[NodeId, Look]] = deque()
        self._served: list[tuple[NodeId, Look]] = []
        """Whom the phase is for, if it is for looks."""
        self._looked_last = False
        self._own: Callable[[Step], Answer] | None = None
        self._number = anchor.order - 1
        """Of the last phase for gets: what comes in during a look comes after that one."""
        self.answered: list[tuple[int, Grant]] = []
        """Batches that have all they get, by their numbers."""
        self.feeds = False
        """Whether there is something for those who wait."""

    def arrived(self, arrival: Arrival[Batch]) -> None:
        self._grant = self._anchor.granted(arrival.batch)
        if arrival.batch.fresh and self._anchor.hungry:
            self._anchor.hungry, self.feeds = False, True
        if _wanted(arrival.batch):
            self._arrival = arrival
        else:
            self.answered.append((arrival.number, self._grant))

    def look(self, source: NodeId, message: Look) -> None:
        waiting = [*self._looks, *self._served]
        known = any(source == door and message.serial == one.serial for door, one in waiting)
        if not known and len(self._looks) < LOOKS_MAX:
            self._looks.append((source, message))

    def go_on(self, own: Callable[[Step], Answer] | None) -> bool:
        """The next step, if it can be taken now; all of a phase, where `own` answers for all."""
        self._own = own
        if self._phase is not None:
            return self._step(self._phase)
        arrival = self._arrival
        if self._looks and (arrival is None or not self._looked_last):
            self._looked_last = True
            self._look(self._looks.popleft())
        elif arrival is not None:
            self._looked_last = False
            wanted, self._number = _wanted(arrival.batch), self._grant.runs[0].got_order
            patient = arrival.batch.patient
            self._begin(self._new(self._number, wanted=wanted, patient=patient))
        else:
            return False
        return True

    def _look(self, first: tuple[NodeId, Look]) -> None:
        """The next look, and all that can share its phase."""
        self._served = [first]
        rank, share = first[1].rank, first[1].share
        if not rank and share is None:
            plain = [one for one in self._looks if not one[1].rank and one[1].share is None]
            self._served += plain
            self._looks = deque([one for one in self._looks if one not in plain])
            most = max([look.count for _, look in self._served])
            rank = min(most, self._limits.least)
        self._begin(self._new(self._number, rank=rank, share=share))

    def _new(
        self,
        number: int,
        wanted: int = 0,
        rank: int = 0,
        share: float | None = None,
        *,
        patient: bool = False,
    ) -> Phase:
        return Phase(
            number, wanted=wanted, rank=rank, share=share, least=self._limits.least,
            sample=self._limits.sample, patient=patient,
        )  # fmt: skip

    def _begin(self, phase: Phase) -> None:
        phase.waited_for = self._anchor.hungry
        step = phase.step
        assert step is not None, "a phase begins with a step"
        if self._own is None:
            self._phase = phase
            self._waves.ask(step)
            return
        if phase.wanted:  # nobody else is to be asked (waves, rule 1)
            phase.answered(self._own(phase.alone()))
            self._over(phase)
            return
        while step is not None:
            step = self._next(phase, self._own(step))

    def _step(self, phase: Phase) -> bool:
        answer = self._waves.result
        if answer is None:
            return False
        step = self._next(phase, answer)
        if step is None:
            self._phase = None
        else:
            self._waves.ask(step)
        return True

    def _next(self, phase: Phase, answer: Answer) -> Step | None:
        step = phase.answered(answer)
        if type(step) is Assign or type(step) is Release:
            self._over(phase)
        return step

    def _over(self, phase: Phase) -> None:
        """It is known what there is (rule 2)."""
        if self._served:
            for source, look in self._served:
                self._desk.send(source, self._looked(phase, look))
            self._served = []
            return
        arrival, self._arrival = self._arrival, None
        assert arrival is not None, "a phase takes something for a batch"
        self._anchor.hungry = phase.hungry
        self._anchor.served(phase.number, phase.taken)
        ranks = Interval(phase.number, phase.number + phase.taken)
        gets = (Share(0, (ranks,)),) if phase.taken else ()
        run = msgspec.structs.replace(self._grant.runs[0], gets=gets)
        grant = msgspec.structs.replace(self._grant, runs=(run,), phase=phase.number)
        self.answered.append((arrival.number, grant))

    def _looked(self, phase: Phase, look: Look) -> Looked:
        found: Sequence[Element] = phase.least[: look.count]
        if look.rank or look.share is not None:
            found = () if phase.value is None else (phase.value,)
        shares = tuple([Share(0, (Interval(one.id, one.id + 1),)) for one in found])
        return Looked(self._desk.era, self._queue, look.serial, shares)


def _wanted(batch: Batch) -> int:
    return sum([run.gets for run in batch.runs])
