"""A process as producer: keeps what it made until a request finds it.

Two parts that know each other one way: `PutHandler` lets objects in, `Lender` gives them away.
Whenever an object has left, there may be room.
"""

from random import Random

from snowmelt.core.batch import Batch
from snowmelt.core.instant import Instant
from snowmelt.core.names import NodeId
from snowmelt.core.node import Note, Send
from snowmelt.core.record import Found, Record
from snowmelt.protocols.pool.alarms import Alarms, Effects
from snowmelt.protocols.pool.lending import Lender
from snowmelt.protocols.pool.messages import (
    HOPS_COUNTED,
    Inquire,
    Request,
    SettleLoan,
    Stocked,
)
from snowmelt.protocols.pool.object_store import DiskStore, MemoryStore, Then
from snowmelt.protocols.pool.put_handler import PutHandler
from snowmelt.protocols.pool.settings import PoolSettings
from snowmelt.protocols.pool.shelf import TakenOver


class Producer:
    """What a process has to give."""

    def __init__(self, settings: PoolSettings, chance: Random, alarms: Alarms) -> None:
        self._disk = DiskStore() if settings.spill else None
        keep = self._disk or MemoryStore()
        self._keep = keep
        self.lender = Lender(settings, chance, alarms, keep)
        self.intake = PutHandler(settings, alarms, keep, self.lender)

    # --- what its own process asks ----------------------------------------------------------------

    def leave(self) -> Effects:
        """Takes no more puts; who waits here is to go elsewhere."""
        self.lender.leave()
        return self.intake.leave()

    def adopt(self, batch: Batch, taken: TakenOver, stored: Then, now: Instant) -> Effects:
        """Objects of one who leaves are this one's once they are safe here."""
        return [*self.intake.adopt(batch, taken, stored, now), *self.intake.admit(now)]

    def forget_taken(self, number: int) -> Effects:
        """Nobody asks any more whose these were."""
        return self._disk.forget_taken(number) if self._disk is not None else []

    # --- what others ask --------------------------------------------------------------------------

    def requested(self, _: NodeId, request: Request, now: Instant) -> Effects:
        """A probe: it finds something, is passed on, or waits in line here."""
        self.lender.rate = self.intake.rate(now)
        effects = self.lender.requested(request, now)
        if effects is None:
            return [_passed_on(request)]
        return self._with_room(effects, now)

    def inquired(self, source: NodeId, _: Inquire, now: Instant) -> Effects:
        """Somebody asks what is here."""
        del now
        return [Send(source, Stocked(self.lender.free))]

    def settled(self, source: NodeId, word: SettleLoan, now: Instant) -> Effects:
        return self._with_room(self.lender.settled(source, word, now), now)

    def loan_due(self, token: int, now: Instant) -> Effects:
        return self._with_room(self.lender.due(token, now), now)

    def _with_room(self, effects: Effects, now: Instant) -> Effects:
        return [*effects, *self.intake.admit(now)] if self.intake.held_up else effects

    # --- the disk ---------------------------------------------------------------------------------

    def started(self, records: tuple[Record, ...]) -> Effects:
        if self._disk is None:
            return []
        effects = self._disk.started(records)
        self.intake.numbers = self._disk.stop
        self.intake.used = self.intake.used or bool(effects)
        return effects

    def loaded(self, found: tuple[Found, ...], now: Instant) -> Effects:
        assert self._disk is not None
        parcels, reasons = self._disk.loaded(found)
        for parcel in parcels:
            self.lender.stock.add(parcel)
        return [*(Note(reason) for reason in reasons), *self.intake.admit(now)]

    def completed(self, ticket: int, failure: str, now: Instant) -> Effects:
        """The disk has done what it was asked, or could not."""
        assert self._disk is not None
        return [*self._disk.completed(ticket, failure, now), *self.intake.admit(now)]

    # --- how it is --------------------------------------------------------------------------------

    @property
    def left(self) -> int:
        kept = self.lender.stock.count + self.lender.loans.count + self._keep.count
        return kept + self.intake.places.count

    @property
    def taken(self) -> tuple[TakenOver, ...]:
        """What was taken over in former lives, and may be asked about still (rule 16)."""
        return self._disk.taken if self._disk is not None else ()

    @property
    def spills(self) -> bool:
        return self._disk is not None

    def check(self) -> None:
        self.lender.check()
        self.intake.check()


def _passed_on(request: Request) -> Send[Request]:
    """The request on its way to the next producer of its route."""
    target, *route = request.route
    onward = Request(
        request.consumer,
        request.number,
        request.attempt,
        min(request.hop + 1, HOPS_COUNTED),
        tuple(route),
        request.objects_max,
        request.bytes_max,
        request.wait,
        request.once,
    )
    return Send(target, onward)
