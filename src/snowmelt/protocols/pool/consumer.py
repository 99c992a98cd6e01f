"""A process as consumer: its open requests, each a want that is tried until it is met (rules 1, 6).

A want is at most at one place: a new attempt begins with the end of the one before. What comes for
an attempt that is over is never used, and goes back.
"""

from itertools import count
from random import Random
from typing import Final

import msgspec

from snowmelt.core.batch import ONE, Batch
from snowmelt.core.instant import Duration, Instant, later, milliseconds, seconds, since
from snowmelt.core.names import NodeId, OperationId
from snowmelt.core.node import Note, Reply, Send
from snowmelt.protocols.calling import Declined
from snowmelt.protocols.pool.access import AccessList
from snowmelt.protocols.pool.alarms import Alarms, Effects
from snowmelt.protocols.pool.calls import CLOSED, Coming, Got, NotReceived, PoolGet
from snowmelt.protocols.pool.holding import HeldLoans
from snowmelt.protocols.pool.inquiry import Inquiry
from snowmelt.protocols.pool.messages import Cancel, GiveBack, Hold, ObjectsLent, Request
from snowmelt.protocols.pool.settings import LEASE_SHORTEST, Delivery, PoolSettings

ANSWERED_KEPT: Final = seconds(120)
"""For so long it is remembered under which token a request was answered (rule 7)."""
ANSWERED_LONGEST: Final = seconds(3600)
ANSWERED_MAX: Final = 100_000
SHORTEST: Final = milliseconds(200)
"""A get without a time asks all the same, and its answer has so long to come."""


class PendingGet(msgspec.Struct):
    """A request that is not met yet."""

    number: int
    operation: OperationId
    get: PoolGet
    begun: Instant
    deadline: Instant
    attempt: int = 0
    route: tuple[NodeId, ...] = ()
    """Where this attempt may be; empty while answers are waited for, or nobody can give one."""
    coming: NodeId | None = None
    """Who is sending its objects right now."""
    in_vain: bool = False
    """Whether it waits in line, for nobody that was asked had anything."""

    def request(self, me: NodeId, wait: Duration, *, once: bool) -> Request:
        """What goes to the first of its route."""
        get, rest = self.get, self.route[1:]
        most = get.objects_max, get.bytes_max
        return Request(me, self.number, self.attempt, 1, rest, *most, wait, once)


class GetCounts(msgspec.Struct):
    requests: int = 0
    hops: int = 0
    tried_again: int = 0
    gets: int = 0
    """Those that were answered with objects."""
    got: int = 0
    waited: Duration = Duration(0)
    refused: int = 0
    asked: dict[NodeId, int] = {}
    had: dict[NodeId, int] = {}

    def add(self, source: NodeId, found: ObjectsLent, waited: Duration) -> None:
        self.hops += found.hop
        self.gets += 1
        self.got += sum([span.count for span in found.spans])
        self.waited = Duration(self.waited + waited)
        self.had[source] = self.had.get(source, 0) + 1


class Answered:
    """Under which token each request was answered, for a time (rule 7)."""

    def __init__(self) -> None:
        self._by_number: dict[int, tuple[int, Instant]] = {}

    def add(self, found: ObjectsLent, now: Instant) -> None:
        kept = max(ANSWERED_KEPT, 2 * min(found.lease, ANSWERED_LONGEST))
        known = self._by_number
        known[found.number] = found.token, later(now, Duration(kept))
        while known[oldest := next(iter(known))][1] <= now or len(known) > ANSWERED_MAX:
            del known[oldest]

    def has(self, found: ObjectsLent) -> bool:
        """Whether it was this very loan."""
        answered = self._by_number.get(found.number)
        return answered is not None and answered[0] == found.token


class Consumer:
    """The gets of one process, and where it asks for objects."""

    def __init__(
        self,
        me: NodeId,
        settings: PoolSettings,
        chance: Random,
        alarms: Alarms,
        access: AccessList,
        inquiry: Inquiry,
        holding: HeldLoans,
    ) -> None:
        self.counts = GetCounts()
        self.used = False
        """Whether anything was ever wanted here."""
        self.using = False
        """Whether its program was given what it wanted last, and wants nothing more yet."""
        self._first = chance.getrandbits(48) + 1  # so that no earlier life's are the same
        self._numbers = count(self._first)
        self._last = self._first
        self._me = me
        self._settings = settings
        self._alarms = alarms
        self._access = access
        self._inquiry = inquiry
        self._holding = holding
        self._hungry: Instant | None = None
        """Since when nothing came that was wanted, or all were asked last."""
        self._once = settings.delivery is Delivery.AT_MOST_ONCE
        self._wants: dict[int, PendingGet] = {}
        self._answered = Answered()

    def next_number(self) -> int:
        """For a word that is answered."""
        self._last = next(self._numbers)
        return self._last

    # --- what its own program asks ----------------------------------------------------------------

    def get(
        self, operation: OperationId, get: PoolGet, now: Instant, *, own_stock: bool
    ) -> Effects:
        """Objects are wanted. Those that the process made itself are nearest."""
        self.used = True
        self.using = False
        self.counts.requests += 1
        deadline = later(now, get.patience or SHORTEST)
        want = PendingGet(self.next_number(), operation, get, now, deadline)
        self._wants[want.number] = want
        begun = self._hungry = now if self._hungry is None else self._hungry
        way = self._way()
        if self._settings.wait and later(begun, self._settings.wait) <= now:
            way, begun = (), now  # those before it have waited long enough
        return self._try(want, (self._me, *way) if own_stock else way, now, begun)

    def withdraw(self, operation: OperationId) -> Effects:
        for want in self._wants.values():
            if want.operation == operation:
                return self._give_up(want)
        return []

    def leave(self) -> Effects:
        closed = Declined("Closed", CLOSED)
        wants = list(self._wants.values())
        self._inquiry.leave()
        return [effect for want in wants for effect in self._give_up(want, closed)]

    # --- what others tell -------------------------------------------------------------------------

    def found(self, source: NodeId, found: ObjectsLent, now: Instant) -> Effects:
        self._access.learnt(source, found.rate)
        want = self._wants.get(found.number)
        if want is None or want.attempt != found.attempt:
            return self._refuse(source, found)
        if not _sound(found):
            want.coming = None
            return [Note(f"what {source} gave does not add up")]
        del self._wants[want.number]
        self.using = not self._wants
        self._hungry = None
        self._alarms.cancel(("want", want.number))
        self._answered.add(found, now)
        waited = since(want.begun, now)
        self.counts.add(source, found, waited)
        settled = self._once and not want.get.hold
        token = 0 if settled else found.token
        got = Got(source, token, found.spans, found.blob, found.hop, waited)
        reply = Reply(want.operation, got)
        if settled:
            self._holding.settle_soon(source, found.token, now)
            return [reply]
        self._holding.begin(source, found, now)
        return [reply]

    def coming(self, fact: Coming, now: Instant) -> Effects:
        """The head of something large has come: it is worth waiting for, and held meanwhile."""
        want = self._wants.get(fact.number)
        if want is None or want.attempt != fact.attempt:
            return []
        want.coming = fact.source
        want.in_vain = False
        lease = max(fact.lease or self._settings.lease, LEASE_SHORTEST)
        self._alarms.set(("coming", fact), later(now, Duration(lease // 3)))
        return [Send(fact.source, Hold((fact.token,)))]

    def still_coming(self, fact: Coming, now: Instant) -> Effects:
        """It is to be held still, unless it is here or the way from there has ended."""
        want = self._wants.get(fact.number)
        awaited = want is not None and want.coming == fact.source
        return self.coming(fact, now) if awaited else []

    def refused(self, fact: NotReceived, now: Instant) -> Effects:
        """There was no room here for what came: it goes back, and is asked for again soon."""
        self._soon(fact.number, fact.attempt, now)
        return [Send(fact.source, GiveBack(fact.token))]

    def unsent(self, request: Request, now: Instant) -> Effects:
        """A request never left this process: it is sent another way soon."""
        self._soon(request.number, request.attempt, now)
        return []

    def lost(self, producer: NodeId, now: Instant) -> Effects:
        """The way to a producer has ended; what may have been there is asked for elsewhere."""
        self._inquiry.lost(producer, now)
        effects = self.go_by_answers(now)
        for want in list(self._wants.values()):
            if producer in want.route and want.coming in (None, producer):
                effects += self._again(want, self._way(), now)
        return effects

    def met(self, now: Instant) -> Effects:
        """There may be producers now for those that had nobody to ask."""
        effects: Effects = []
        for want in self._wants.values():
            if not want.route and (way := self._way()):
                effects += self._try(want, way, now)
        return effects

    def go_by_answers(self, now: Instant) -> Effects:
        """Producers have said what they have, or need not any more: what waited for that goes on.

        So does what waits in line in vain, when an answer that somebody has something comes late.
        """
        if self._inquiry.runs:
            return []
        effects: Effects = []
        in_vain = self._inquiry.in_vain
        for want in list(self._wants.values()):
            waits = not want.route or (want.in_vain and not in_vain)
            if waits and (way := self._inquiry.way()):
                effects += self._again(want, way, now)
                want.in_vain = in_vain
        self._inquiry.gone_by()
        return effects

    def due(self, number: int, now: Instant) -> Effects:
        """A want has waited for long, or its time is over."""
        want = self._wants.get(number)
        if want is None:
            return []
        if now >= want.deadline:
            return self._give_up(want)
        if want.coming is not None:  # until it is here, or the way from there ends
            self._alarms.set(("want", number), want.deadline)
            return []
        return self._again(want, () if self._settings.wait else self._way(), now)

    def needs(self, producer: NodeId) -> bool:
        """Whether a request may be there, or something comes from there."""
        return any(
            producer in want.route or producer == want.coming for want in self._wants.values()
        )

    @property
    def idle(self) -> bool:
        """Whether somebody wants something and there is nobody to ask."""
        return not self._inquiry.runs and any(not want.route for want in self._wants.values())

    def check(self) -> None:
        """Every want is looked at again."""
        for want in self._wants.values():
            assert self._alarms.at(("want", want.number)) is not None, f"{want} is forgotten"

    # --- attempts ---------------------------------------------------------------------------------

    def _way(self) -> tuple[NodeId, ...]:
        """A way drawn by chance, unless all are being asked just now."""
        return () if self._inquiry.runs else self._access.way(self._settings.max_hops)

    def _try(
        self, want: PendingGet, way: tuple[NodeId, ...], now: Instant, begun: Instant | None = None
    ) -> Effects:
        """A new attempt, its old one being over; with no way, all are asked.

        Its `wait` began then, or begins now.
        """
        wait = self._settings.wait
        begun = now if begun is None else begun
        due = min(want.deadline, later(begun, wait)) if wait else want.deadline
        self._alarms.set(("want", want.number), due)
        want.route = way
        want.coming = None
        want.in_vain = False
        want.attempt += 1  # with no way, too: the old one is over
        if not way:
            self._hungry = now
            return self._inquiry.begin(now)
        asked = self.counts.asked
        asked[way[0]] = asked.get(way[0], 0) + 1
        return [Send(way[0], want.request(self._me, wait, once=self._once))]

    def _soon(self, number: int, attempt: int, now: Instant) -> None:
        want = self._wants.get(number)
        if want is not None and want.attempt == attempt:
            want.coming = None
            self._alarms.set(("want", number), min(want.deadline, later(now, SHORTEST)))

    def _again(self, want: PendingGet, way: tuple[NodeId, ...], now: Instant) -> Effects:
        self.counts.tried_again += bool(want.route)
        return [*self._cancel(want), *self._try(want, way, now)]

    def _cancel(self, want: PendingGet) -> Effects:
        """Wherever it may be: it waits in line, or found something that never came here."""
        word = Cancel(want.number, want.attempt)
        return [Send(producer, word) for producer in dict.fromkeys(want.route)]

    def _give_up(self, want: PendingGet, why: Declined | None = None) -> Effects:
        del self._wants[want.number]
        self._alarms.cancel(("want", want.number))
        if why is None:
            text = self._access.nobody or "nothing was found in the time given"
            why = Declined("Empty", text)
        return [*self._cancel(want), Reply(want.operation, why)]

    # --- what came --------------------------------------------------------------------------------

    def _refuse(self, source: NodeId, found: ObjectsLent) -> Effects:
        """For an attempt that is over, or said twice."""
        if found.token in self._holding or self._answered.has(found):
            return []  # rule 7: this very loan is held, or was used
        self.counts.refused += 1
        return [Send(source, GiveBack(found.token, used=self._unknown(found)))]

    def _unknown(self, found: ObjectsLent) -> bool:
        """Whether a former life may have taken it over, and nobody knows any more (rule 16).

        Where there is a disk it is known, and what was taken over never comes here.
        """
        mine = self._first <= found.number <= self._last
        return found.heir and not mine and not self._settings.spill


def _sound(found: ObjectsLent) -> bool:
    if len(found.spans) == 1 and found.spans[0].offsets == ONE.pack(0, len(found.blob)):
        return True  # one object, and most are
    return batches_of(found) is not None


def batches_of(found: ObjectsLent) -> list[Batch] | None:
    """What came, span by span; None when its edges do not fit: another process wrote them."""
    blob = memoryview(found.blob)
    batches: list[Batch] = []
    at = 0
    try:
        for span in found.spans:
            size = span.size
            batches.append(Batch(span.offsets, blob[at : at + size]))
            at += size
    except ValueError:
        return None
    sound = at == len(blob) and batches and all(map(len, batches))
    return batches if sound else None
