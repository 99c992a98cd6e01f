"""What a producer does with its objects: gives them to requests, and knows who has them.

Rules 1, 2, 4, 5 and 6 from the producer's side. What is told twice is done once, and nothing that
anybody says about another's loan changes it.

The requests that wait in line at a producer: the paper's queue of blocked processes (rule 2).

Attempts that are over are remembered for a while: the word of it may overtake the request, which is
passed on from one to the next, and nothing is given to an attempt that is over (rule 6).
"""

from collections import OrderedDict
from random import Random
from typing import Final

import msgspec

from snowmelt.core.batch import Batch
from snowmelt.core.instant import Duration, Instant, later, seconds
from snowmelt.core.interval import Interval, IntervalSet
from snowmelt.core.names import NodeId
from snowmelt.core.node import Announce, Note, Send
from snowmelt.protocols.pool import messages
from snowmelt.protocols.pool.alarms import Alarms, Effects
from snowmelt.protocols.pool.calls import LoanExpired
from snowmelt.protocols.pool.loans import Loan, Loans
from snowmelt.protocols.pool.messages import Request
from snowmelt.protocols.pool.object_store import ObjectStore
from snowmelt.protocols.pool.settings import REMEMBERED, Delivery, PoolSettings
from snowmelt.protocols.pool.stock import Parcel, Stock, count_of, packed

OVER_MAX: Final = 10_000
LINE_MAX: Final = 20_000
"""Whoever comes when so many wait is not served; it tries again."""
DONE_KEPT: Final = seconds(60)
"""For so long a settlement that is asked again is confirmed again."""
DONE_MAX: Final = 100_000


class WaitingRequest(msgspec.Struct, frozen=True):
    request: Request
    until: Instant | None


class WaitingRequests:
    """First come, first served; a consumer's request stands in it once, with its last attempt."""

    def __init__(self) -> None:
        self._row: OrderedDict[tuple[NodeId, int], WaitingRequest] = OrderedDict()
        self._over: OrderedDict[tuple[NodeId, int], int] = OrderedDict()

    def __len__(self) -> int:
        return len(self._row)

    def has(self, consumer: NodeId, now: Instant) -> bool:
        return any(
            key[0] == consumer and (one.until is None or one.until > now)
            for key, one in self._row.items()
        )

    def join(self, request: Request, until: Instant | None) -> None:
        """To the end; one that comes again under a later attempt has lost its place."""
        key = request.consumer, request.number
        before = self._row.get(key)
        if before is not None:
            if before.request.attempt >= request.attempt:
                return
            del self._row[key]
        if len(self._row) < LINE_MAX:
            self._row[key] = WaitingRequest(request, until)

    def first(self, now: Instant) -> Request | None:
        """Who is next; those whose consumers are elsewhere by now are dropped."""
        while self._row:
            waiting = next(iter(self._row.values()))
            if waiting.until is None or waiting.until > now:
                return waiting.request
            self._row.popitem(last=False)
        return None

    def leave(self, consumer: NodeId, number: int, attempt: int) -> None:
        waiting = self._row.get((consumer, number))
        if waiting is not None and waiting.request.attempt <= attempt:
            del self._row[consumer, number]

    def cancel(self, consumer: NodeId, number: int, attempt: int) -> None:
        """This attempt is over, here and wherever it comes from still."""
        self.leave(consumer, number, attempt)
        key = consumer, number
        self._over[key] = max(attempt, self._over.pop(key, attempt))
        if len(self._over) > OVER_MAX:
            self._over.popitem(last=False)

    def is_over(self, request: Request) -> bool:
        """Whether its consumer wants nothing more for this attempt."""
        return self._over.get((request.consumer, request.number), -1) >= request.attempt

    def drop(self, consumer: NodeId) -> None:
        """Nothing can be sent there now; when it lives it asks anew."""
        for key in [key for key in self._row if key[0] == consumer]:
            del self._row[key]

    def clear(self) -> None:
        self._row.clear()


class LoanCounts(msgspec.Struct):
    """What has happened here, in objects; and how often requests came by."""

    given: int = 0
    settled: int = 0
    given_back: int = 0
    expired: int = 0
    probes_met: int = 0
    probes_empty: int = 0


class _Done(msgspec.Struct, frozen=True):
    """What was settled of a loan that is over, while it is remembered."""

    until: Instant
    intervals: IntervalSet | None
    """None for all of it."""


class Lender:
    """Objects, who waits for them, and who has them."""

    def __init__(
        self, settings: PoolSettings, chance: Random, alarms: Alarms, keep: ObjectStore
    ) -> None:
        self.stock = Stock()
        self.line = WaitingRequests()
        self.loans = Loans(chance)
        self.counts = LoanCounts()
        self.rate = 0.0
        self.leaving = False
        self.gone = False
        """Whether this process has left, and gives nothing more."""
        self._settings = settings
        self._alarms = alarms
        self._keep = keep
        self._done: dict[int, _Done] = {}
        """Loans that are over and of which something was settled."""

    # --- what consumers ask -----------------------------------------------------------------------

    def requested(self, request: messages.Request, now: Instant) -> Effects | None:
        """Serves a request, or has it wait in line; None when it is to be passed on."""
        self.counts.probes_met += 1
        if request.objects_max < 1:
            return []  # another process wrote it, and it asks for nothing
        if request.takes_over and not (self.leaving and self._keep.at_once):
            return []  # meant for one who had this name before; and a disk hands nothing over
        if self.line.is_over(request):
            return []  # it was overtaken by the word that it is over
        if self.loans.given(request.consumer, request.number, request.attempt) is not None:
            return []  # it was said twice, and is answered
        if self.free:
            return self._lend(request, now)
        self.counts.probes_empty += 1
        if request.route:
            return None
        if not self.leaving:
            self.line.join(request, later(now, request.wait) if request.wait else None)
        return []

    def cancelled(self, source: NodeId, word: messages.Cancel, now: Instant) -> Effects:
        """An attempt is over. What was given for it was not used, and never will be."""
        self.line.cancel(source, word.number, word.attempt)
        loan = self.loans.given(source, word.number, word.attempt)
        return [] if loan is None else self._take_back(loan, (), now)

    def unsent(self, target: NodeId, found: messages.ObjectsLent, now: Instant) -> Effects:
        """What was given never left this process; so it was not used, however it is delivered."""
        loan = self.loans.held(found.token, target)
        if loan is None or loan.tellings != 1:
            return []  # it is over, or it was told before and may have come
        return self._take_back(loan, (), now)

    def given_back(self, source: NodeId, word: messages.GiveBack, now: Instant) -> Effects:
        """Objects were not used, or in vain."""
        loan = self.loans.held(word.token, source)
        if loan is None:
            return []
        if loan.heir_until is not None and (word.used or now >= loan.heir_until):
            return []  # rule 16: whoever says so does not know what became of them
        if loan.once and word.used:
            dropped = self.loans.settle(loan, word.intervals)
            drop = messages.SettleLoan(0, word.token, word.intervals)
            return self._settle(loan, dropped, drop, source, now)
        return self._take_back(loan, word.intervals, now)

    def settled(self, source: NodeId, word: messages.SettleLoan, now: Instant) -> Effects:
        loan = self.loans.settleable(word.token, source)
        if loan is None:
            done = self._done.get(word.token)
            lost = done is None or not _covers(done.intervals, word.intervals)
            return _confirmed(source, word, lost=lost)
        parcels = self.loans.settle(loan, word.intervals)
        if parcels:
            return self._settle(loan, parcels, word, source, now)
        if loan.settling:
            return []  # the disk is being told, perhaps of these; it is asked again
        done_before = loan.done is not None and _covers(loan.done, word.intervals)
        return _confirmed(source, word, lost=not done_before)

    def held(self, source: NodeId, word: messages.Hold, now: Instant) -> Effects:
        """A consumer lives, and has these still."""
        over = []
        for token in dict.fromkeys(word.tokens):
            loan = self.loans.held(token, source)
            if loan is None:
                over.append(token)
            else:
                loan.compact()
                self._extend(loan, later(now, self.lease))
        return [Send(source, messages.Over(tuple(over)))] if over else []

    # --- what is noticed --------------------------------------------------------------------------

    def lost(self, consumer: NodeId, now: Instant) -> None:
        """The way to a consumer has ended: it has a grace to come back."""
        self.line.drop(consumer)
        until = later(now, self._settings.grace)
        for loan in self.loans:
            if loan.consumer == consumer and loan.until > until and not loan.heir:
                self._extend(loan, until)

    def due(self, token: int, now: Instant) -> Effects:
        loan = self.loans.get(token)
        if loan is None or not loan.parcels:
            return []
        if loan.heir:  # the answer was lost, or the word that it has come
            self._extend(loan, later(now, self.lease))
            return [self._told(loan, 1)]
        self.counts.expired += count_of(loan.parcels)
        told: Effects = [
            Note(f"loan {token} of {loan.consumer} is over, it was not heard of"),
            Announce(LoanExpired(loan.consumer, token)),
        ]
        if loan.once:
            dropped, drop = self.loans.settle(loan, ()), messages.SettleLoan(0, token)
            return [*told, *self._settle(loan, dropped, drop, loan.consumer, now)]
        return [*told, *self._take_back(loan, (), now)]

    def serve(self, now: Instant) -> Effects:
        effects: Effects = []
        while self.stock.count and (request := self.line.first(now)) is not None:
            self.line.leave(request.consumer, request.number, request.attempt)
            effects += self._lend(request, now)
        return effects

    def needs(self, consumer: NodeId, now: Instant) -> bool:
        """Whether it has something from here, or waits here for it."""
        return self.line.has(consumer, now) or any(loan.consumer == consumer for loan in self.loans)

    def leave(self) -> None:
        """Who waits here is to go elsewhere."""
        self.leaving = True
        self.line.clear()

    @property
    def free(self) -> int:
        """How many objects are here for whoever asks."""
        return 0 if self.gone else self.stock.count

    @property
    def lease(self) -> Duration:
        return self._settings.lease

    def check(self) -> None:
        """Nobody waits in line beside objects; what is counted is there."""
        self.stock.check()
        self.loans.check()
        assert not (self.stock.count and len(self.line)), "a request waits in line beside objects"

    # --- loans begin and end ----------------------------------------------------------------------

    def _lend(self, request: messages.Request, now: Instant) -> Effects:
        return self._give(request, self.stock.take(request.objects_max, request.bytes_max), now)

    def _give(self, request: messages.Request, parcels: list[Parcel], now: Instant) -> Effects:
        once = request.once or self._settings.delivery is Delivery.AT_MOST_ONCE
        loan = self.loans.lend(
            request.consumer,
            request.number,
            request.attempt,
            parcels,
            later(now, self.lease),
            once,
            later(now, REMEMBERED) if request.takes_over else None,
        )
        self._alarms.set(("loan", loan.token), loan.until)
        self.counts.given += count_of(parcels)
        return [self._told(loan, request.hop)]

    def _told(self, loan: Loan, hop: int) -> Send[messages.ObjectsLent]:
        loan.tellings += 1
        spans, blob = packed(loan.parcels)
        found = messages.ObjectsLent(
            loan.number,
            loan.attempt,
            hop,
            loan.token,
            self.lease,
            self.rate,
            spans,
            blob,
            loan.heir,
        )
        return Send(loan.consumer, found)

    def _take_back(self, loan: Loan, intervals: tuple[Interval, ...], now: Instant) -> Effects:
        taken = self.loans.take(loan, intervals)
        if loan.over:
            self._ended(loan, now)
        self.counts.given_back += count_of(taken)
        self.stock.put_back(taken)
        return self.serve(now)

    def _settle(
        self,
        loan: Loan,
        parcels: list[Parcel],
        word: messages.SettleLoan,
        source: NodeId,
        now: Instant,
    ) -> Effects:
        """Objects are done as soon as that is safe, and then it is told."""

        def then(failure: str, now: Instant) -> Effects:
            if failure:  # nothing is told, so it is asked again
                self.loans.unsettled(loan, parcels)
                self._extend(loan, later(now, self.lease))
                return [Note(f"a settlement could not be kept: {failure}")]
            self.loans.settled(loan, parcels, word.intervals)
            self.counts.settled += count_of(parcels)
            if loan.over:
                self._ended(loan, now, asked=word.number != 0)
            return _confirmed(source, word, lost=False)

        return self._keep.settle(parcels, then, now)

    def _extend(self, loan: Loan, until: Instant) -> None:
        loan.until = until
        self._alarms.set(("loan", loan.token), until)

    def _ended(self, loan: Loan, now: Instant, *, asked: bool = False) -> None:
        """Remembers what was settled of it, where that may be asked again."""
        self._alarms.cancel(("loan", loan.token))
        if asked or loan.done is not None:
            self._done[loan.token] = _Done(later(now, DONE_KEPT), loan.done)
            while self._done[oldest := next(iter(self._done))].until <= now or self._crowded:
                del self._done[oldest]

    @property
    def _crowded(self) -> bool:
        return len(self._done) > DONE_MAX

    def arrived(self, parcel: Parcel, now: Instant) -> Effects:
        """Objects are to be given away: to the first in line, if anybody waits."""
        first = None if self.stock.count else self.line.first(now)
        if first is not None and fits(parcel.batch, first):
            return self.hand_over(first, parcel, now)
        self.stock.add(parcel)
        return self.serve(now)

    def hand_over(self, request: messages.Request, parcel: Parcel, now: Instant) -> Effects:
        """Objects go straight to a request that stands in line."""
        self.line.leave(request.consumer, request.number, request.attempt)
        return self._give(request, [parcel], now)


def fits(batch: Batch, request: messages.Request) -> bool:
    count = len(batch)
    return count == 1 or (count <= request.objects_max and batch.size <= request.bytes_max)


def _covers(done: IntervalSet | None, intervals: tuple[Interval, ...]) -> bool:
    """Whether what is asked about, all of a loan when nothing is named, was settled."""
    if done is None:
        return True
    return bool(intervals) and all(done.covers(interval) for interval in intervals)


def _confirmed(source: NodeId, word: messages.SettleLoan, *, lost: bool) -> Effects:
    return [Send(source, messages.LoanSettled(word.number, lost))] if word.number else []
