"""What a producer does with its objects: gives them to requests, and knows who has them.

Rules 1, 2, 4, 5 and 6 from the producer's side. What is told twice is done once, and nothing that
anybody says about another's loan changes it.
"""

from random import Random
from typing import Final

import msgspec

from snowmelt.core.instant import Duration, Instant, later, seconds
from snowmelt.core.interval import Interval
from snowmelt.core.names import NodeId
from snowmelt.core.node import Note, Send
from snowmelt.protocols.pool.alarms import Alarms, Effects
from snowmelt.protocols.pool.keep import Keep
from snowmelt.protocols.pool.line import Line
from snowmelt.protocols.pool.loans import Loan, Loans
from snowmelt.protocols.pool.messages import (
    Cancel,
    Found,
    GiveBack,
    Hold,
    Over,
    Request,
    Settle,
    Settled,
)
from snowmelt.protocols.pool.settings import Delivery, PoolSettings
from snowmelt.protocols.pool.stock import Parcel, Stock, count_of, packed

DONE_KEPT: Final = seconds(60)
"""For so long a settlement that is asked again is confirmed again."""
LEASE_LEAVING: Final = seconds(10)
"""A producer that leaves lends for so long at least: whoever takes over must be able to tell."""


class Counts(msgspec.Struct):
    """What has happened here, in objects; and how often requests came by."""

    given: int = 0
    settled: int = 0
    given_back: int = 0
    expired: int = 0
    probes_met: int = 0
    probes_empty: int = 0


class Lender:
    """Objects, who waits for them, and who has them."""

    def __init__(self, settings: PoolSettings, chance: Random, alarms: Alarms, keep: Keep) -> None:
        self.stock = Stock()
        self.line = Line()
        self.loans = Loans(chance)
        self.counts = Counts()
        self.rate = 0.0
        self.leaving = False
        self._settings = settings
        self._alarms = alarms
        self._keep = keep
        self._done: dict[int, Instant] = {}  # tokens settled, and until when that is remembered

    # --- what consumers ask -----------------------------------------------------------------------

    def requested(self, request: Request, now: Instant) -> Effects | None:
        """Serves a request, or has it wait in line; None when it is to be passed on."""
        self.counts.probes_met += 1
        if self.loans.given(request.consumer, request.number, request.attempt) is not None:
            return []  # it was said twice, and is answered
        if self.stock.count:
            return self._lend(request, now)
        self.counts.probes_empty += 1
        if request.route:
            return None
        if not self.leaving:
            self.line.join(request, later(now, request.wait) if request.wait else None)
        return []

    def cancelled(self, source: NodeId, word: Cancel, now: Instant) -> Effects:
        """An attempt is over. What was given for it was not used, and never will be."""
        self.line.leave(source, word.number, word.attempt)
        loan = self.loans.given(source, word.number, word.attempt)
        return [] if loan is None else self._take_back(loan, (), now)

    def given_back(self, source: NodeId, word: GiveBack, now: Instant) -> Effects:
        """Objects were not used, or in vain."""
        loan = self.loans.held(word.token, source)
        return [] if loan is None else self._take_back(loan, word.intervals, now)

    def settled(self, source: NodeId, word: Settle, now: Instant) -> Effects:
        """Objects are done."""
        loan = self.loans.held(word.token, source)
        if loan is None:
            return _confirmed(source, word, lost=word.token not in self._done)
        if loan.settling:
            return []  # the disk is being told of others; it is asked again
        parcels = loan.named(word.intervals)
        if not parcels:  # these are settled already, others of the loan are not
            return _confirmed(source, word, lost=False)
        loan.settling = True

        def then(failure: str, now: Instant) -> Effects:
            loan.settling = False
            if failure:  # nothing is told, so it is asked again
                return [Note(f"a settlement could not be kept: {failure}")]
            self.counts.settled += count_of(self.loans.take(loan, word.intervals))
            if not loan.parcels:
                self._remember(loan.token, now)
            return _confirmed(source, word, lost=False)

        return self._keep.settle(parcels, then, now)

    def held(self, source: NodeId, word: Hold, now: Instant) -> Effects:
        """A consumer lives, and has these still."""
        over = []
        for token in word.tokens:
            loan = self.loans.held(token, source)
            if loan is None:
                over.append(token)
            else:
                self._extend(loan, later(now, self.lease))
        return [Send(source, Over(tuple(over)))] if over else []

    # --- what is noticed --------------------------------------------------------------------------

    def lost(self, consumer: NodeId, now: Instant) -> None:
        """The way to a consumer has ended: it has a grace to come back."""
        self.line.drop(consumer)
        until = later(now, self._settings.grace)
        for loan in self.loans:
            if loan.consumer == consumer and loan.until > until:
                self._extend(loan, until)

    def due(self, token: int, now: Instant) -> Effects:
        """A consumer was not heard of for the whole lease."""
        loan = self.loans.get(token)
        if loan is None:
            return []
        if loan.settling:
            self._extend(loan, later(now, self.lease))
            return []
        self.counts.expired += count_of(loan.parcels)
        note = Note(f"loan {token} of {loan.consumer} is over, it was not heard of")
        if loan.once:
            dropped = self.loans.take(loan)
            return [note, *self._keep.settle(dropped, lambda _, __: [], now)]
        return [note, *self._take_back(loan, (), now)]

    def serve(self, now: Instant) -> Effects:
        """Gives what is there to those in line."""
        effects: Effects = []
        while self.stock.count and (request := self.line.first(now)) is not None:
            self.line.leave(request.consumer, request.number, request.attempt)
            effects += self._lend(request, now)
        return effects

    def leave(self) -> None:
        """Who waits here is to go elsewhere, and what is lent is lent for longer."""
        self.leaving = True
        self.line.clear()

    @property
    def lease(self) -> Duration:
        """How long a loan lasts."""
        lease = self._settings.lease
        return max(lease, LEASE_LEAVING) if self.leaving else lease

    def check(self) -> None:
        """Nobody waits in line beside objects; what is counted is there."""
        self.stock.check()
        self.loans.check()
        assert not (self.stock.count and len(self.line)), "a request waits in line beside objects"

    # --- loans begin and end ----------------------------------------------------------------------

    def _lend(self, request: Request, now: Instant) -> Effects:
        parcels = self.stock.take(request.objects_max, request.bytes_max)
        once = request.once or self._settings.delivery is Delivery.AT_MOST_ONCE
        loan = self.loans.lend(
            request.consumer, request.number, request.attempt, parcels, later(now, self.lease), once
        )
        self._alarms.set(("loan", loan.token), loan.until)
        self.counts.given += count_of(parcels)
        spans, blob = packed(parcels)
        found = Found(
            request.number,
            request.attempt,
            request.hop,
            loan.token,
            self.lease,
            self.rate,
            spans,
            blob,
        )
        return [Send(request.consumer, found)]

    def _take_back(self, loan: Loan, intervals: tuple[Interval, ...], now: Instant) -> Effects:
        if loan.settling:  # it is done, the disk is only being told
            return []
        taken = self.loans.take(loan, intervals)
        if not loan.parcels:
            self._alarms.cancel(("loan", loan.token))
        self.counts.given_back += count_of(taken)
        self.stock.put_back(taken)
        return self.serve(now)

    def _extend(self, loan: Loan, until: Instant) -> None:
        loan.until = until
        self._alarms.set(("loan", loan.token), until)

    def _remember(self, token: int, now: Instant) -> None:
        self._alarms.cancel(("loan", token))
        self._done[token] = later(now, DONE_KEPT)
        while (oldest := next(iter(self._done))) and self._done[oldest] <= now:
            del self._done[oldest]

    def add(self, parcel: Parcel) -> None:
        """An object is to be given away."""
        self.stock.add(parcel)


def _confirmed(source: NodeId, word: Settle, *, lost: bool) -> Effects:
    return [Send(source, Settled(word.number, lost))] if word.number else []
