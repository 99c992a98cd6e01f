"""Known bugs of queues with any priorities (`protocols/seap`), which their lives must find."""

from collections.abc import Iterable, Mapping

import msgspec

from snowmelt.core.names import NodeId
from snowmelt.protocols.priority.anchor import first_of
from snowmelt.protocols.priority.batches import GrantedRun, Run, Share, Shares
from snowmelt.protocols.priority.messages import Ended, Stored
from snowmelt.protocols.priority.phases import RankAnchor
from snowmelt.protocols.priority.queue import Here
from snowmelt.protocols.priority.urgency import Urgency
from snowmelt.protocols.seap import runs
from snowmelt.protocols.seap.free import Free
from snowmelt.protocols.select.elements import Element
from snowmelt.sim.planted import Bug


class ReusingAnchor(RankAnchor):
    """Begins with the same rank in each phase, as the paper's h(pos) does."""

    def _run(self, run: Run, *, patient: bool) -> GrantedRun:
        granted = super()._run(run, patient=patient)
        return msgspec.structs.replace(granted, got_order=first_of(granted.got_order >> 40))


class ShortFree(Free):
    """Takes what is less than the k-th, as printed."""

    def _upto(self, element: Element) -> int:
        return self.row.rank(element)


class ForgetfulUrgency(Urgency):
    """Does not know what lies with others as a view begins."""

    def know(self, keys: Mapping[int, int]) -> None:
        """Not even when it comes."""

    def begin(self, shares: Iterable[Share]) -> None:
        super().begin(self._shelf.rows.present(tuple(shares)))

    def add(self, shares: Shares) -> None:
        super().add(self._shelf.rows.present(shares))


class OpenFree(Free):
    """Lets in what comes while a phase runs."""

    def add(self, one: Element | runs.Run) -> None:
        self.row.add(one)


class EarlierUrgency(Urgency):
    """Says that it came in before the phase that could not take it."""

    def tell(self, door: NodeId, answer: Stored | Ended) -> None:
        if isinstance(answer, Stored):
            answer = msgspec.structs.replace(answer, phase=max(0, answer.phase - 1))
        super().tell(door, answer)


URGENCIES: Mapping[Bug, type[Urgency]] = {
    Bug.FORGOTTEN_KEYS: ForgetfulUrgency,
    Bug.EARLIER_PHASE: EarlierUrgency,
}
FREES: Mapping[Bug, type[Free]] = {Bug.ONE_SHORT: ShortFree, Bug.OPEN_PHASE: OpenFree}


def spoil_phases(bug: Bug, here: Here) -> None:
    """Replaces a part of what a view has made of a queue."""
    anchor = here.gathering.anchor
    if bug is Bug.REUSED_RANK and type(anchor) is RankAnchor:
        anchor.__class__ = ReusingAnchor
    elif bug in URGENCIES and here.home.urgency is not None:
        here.home.urgency.__class__ = URGENCIES[bug]
    elif bug in FREES and here.home.urgency is not None:
        here.home.urgency.free.__class__ = FREES[bug]
