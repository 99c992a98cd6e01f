"""Known bugs of the fifo's own machine, which its lives must find.

Each was there once, or might have been: a part of the machine without one of its rules. A machine
with such a bug is one whose part has been replaced by that.
"""

from random import Random
from typing import Any

from snowmelt.core.instant import Duration, Instant
from snowmelt.core.interval import Interval
from snowmelt.core.names import NodeId, OperationId
from snowmelt.core.node import Effect, Event
from snowmelt.protocols.calling import Declined
from snowmelt.protocols.fifo.admission import Admission
from snowmelt.protocols.fifo.calls import Changed, Settle, Settled
from snowmelt.protocols.fifo.doubting import Doubting, Place
from snowmelt.protocols.fifo.extents import Run
from snowmelt.protocols.fifo.intake import Intake
from snowmelt.protocols.fifo.leases import Lease, Leases
from snowmelt.protocols.fifo.limits import Limits
from snowmelt.protocols.fifo.master import Master
from snowmelt.protocols.fifo.messages import Broken, Entry, Extent, Home
from snowmelt.protocols.fifo.node import FifoNode
from snowmelt.protocols.fifo.producers import Producer, Producers
from snowmelt.protocols.fifo.reign import Reign
from snowmelt.protocols.fifo.repair import Order, Repair
from snowmelt.protocols.fifo.streams import Presence
from snowmelt.sim.planted import FIFO_BUGS, Bug


class GhostAdmission(Admission):
    """Takes what a run offered that has ended since, and may have lost it."""

    def _is_here(self, stream: str) -> bool:
        del stream
        return self._desk.presence is not None


class StrippingRepair(Repair):
    """Takes a keeper off a whole stream as soon as it can't read a part of it, living or not."""

    def broken(self, message: Broken) -> None:
        for run in self._queue.runs.after(0, self._queue.tail):
            for lane in run.lanes:
                others = tuple(one for one in lane.keepers if one != message.keeper)
                named = lane.stream == message.extent.stream and message.keeper in lane.keepers
                if named and others:
                    self._queue.rehouse(run, lane, others)
                    self.watch(others)


class StubbornRepair(Repair):
    """Asks the same keeper for a copy for ever, whether it can be reached or not."""

    def _others(self, order: Order, presence: Presence) -> bool:
        del order, presence
        return False


class MergingProducers(Producers):
    """With too many intervals, takes what lies between two of them for put."""

    def _bound(self, known: Producer) -> None:
        while known.numbers.pieces > self._limits.producer_gaps:
            first, second, *_ = known.numbers
            known.numbers.add(Interval(first.start, second.stop))


class LateMaster(Master):
    """Tells a lease with the whole of its time, however much of it is over."""

    def _time_left(self, lease: Lease) -> Duration:
        del lease
        return self.journal.queue.settings.lease


class ForgetfulMaster(Master):
    """Asked again what it has settled, it settles it again, or finds nothing to settle."""

    def _settle_once(self, operation: OperationId, settle: Settle) -> Settled | Changed | Declined:
        refused = self._settled(operation, settle)
        lease = self.journal.queue.leases.held(settle.token)
        left = 0 if lease is None else lease.left.total
        return Declined("LeaseLost", refused) if refused else Settled(left)


class ForgetfulLeases(Leases):
    """Does not know what ended a lease."""

    def end_by(self, token: int, operation: OperationId) -> None:
        """It is forgotten."""


class PatientReign(Reign):
    """Waits for a mirror that it can't reach, and asks for no other."""

    def _complain(self, queue: str, home: Home, silent: str | None) -> None:
        pass


class PassingIntake(Intake):
    """Says that what came too early has a verdict, when something behind it is on offer."""

    def _low(self, queue: str) -> int:
        """The first that was offered and not answered, whatever waits."""
        return next(iter(self._offered[queue].values())).segment.first


class TrustingAdmission(Admission):
    """Takes what has its verdict for put, as it did when that intake was shipped."""

    def _is_forgotten(self, entry: Entry) -> bool:
        del entry
        return False


class PartialDoubting(Doubting):
    """Has whoever is new on a lane copy what is in doubt of it alone, and names it for all."""

    def lacked(self, run: Run, place: Place, keeper: str) -> Extent:
        """As if it were named already."""
        del keeper
        return super().lacked(run, place, run.lanes[place[1]].keepers[0])


class Spoiled(FifoNode):
    """A machine some of whose parts have been replaced."""

    def __init__(self, bug: Bug, me: NodeId, chance: Random, limits: Limits) -> None:
        super().__init__(me, chance, limits=limits)
        self._bug = bug
        if bug is Bug.EARLY_PASSED_OVER:
            self._intake.__class__ = PassingIntake

    def handle(self, event: Event[Any], now: Instant) -> list[Effect[Any]]:
        """As the machine does, with what it then consists of."""
        effects = super().handle(event, now)
        for master in self._scribe.masters.values():
            self._spoil(master)
        return effects

    def _spoil(self, master: Master) -> None:
        queue = master.journal.queue
        match self._bug:
            case Bug.GHOST_ADMITTED:
                master.admission.__class__ = GhostAdmission
            case Bug.EARLY_PASSED_OVER:
                master.admission.__class__ = TrustingAdmission
            case Bug.PART_COPIED:
                master.repair.doubting.__class__ = PartialDoubting
            case Bug.STRIPPED_COPIES:
                master.repair.__class__ = StrippingRepair
            case Bug.MERGED_NUMBERS:
                queue.producers.__class__ = MergingProducers
            case Bug.LATE_LEASE:
                master.__class__ = LateMaster
            case Bug.FORGOTTEN_ANSWER:
                master.__class__, queue.leases.__class__ = ForgetfulMaster, ForgetfulLeases
            case Bug.CUT_ENDURED:
                self._reign.__class__, master.repair.__class__ = PatientReign, StubbornRepair
            case _:
                pass


def machine(
    bug: Bug | None, me: NodeId, chance: Random, limits: Limits, *, on_disk: bool = True
) -> FifoNode:
    """The fifo machine, with this bug in it if it is one of its own."""
    if bug in FIFO_BUGS:
        return Spoiled(bug, me, chance, limits)
    return FifoNode(me, chance, limits=limits, on_disk=on_disk)
