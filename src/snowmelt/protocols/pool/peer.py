"""A process' whole part in a pool: who hears what. The rules stand in the package's docstring."""

from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any, Final

import msgspec

from snowmelt.core.instant import START, Instant, since
from snowmelt.core.names import NodeId, OperationId
from snowmelt.core.node import (
    Announce,
    Announced,
    Event,
    Expired,
    Halt,
    Loaded,
    Persisted,
    PersistFailed,
    Received,
    Reply,
    Requested,
    Send,
    Started,
)
from snowmelt.protocols.calling import Answer, Call, Declined, Lost
from snowmelt.protocols.pool import calls, messages
from snowmelt.protocols.pool.access import AccessList
from snowmelt.protocols.pool.adopting import Adopter, Departure
from snowmelt.protocols.pool.alarms import Alarms, Effects
from snowmelt.protocols.pool.consumer import Consumer
from snowmelt.protocols.pool.holding import HeldLoans
from snowmelt.protocols.pool.inquiry import Inquiry
from snowmelt.protocols.pool.introduction import BEAT, Introduction
from snowmelt.protocols.pool.introductions import Introduce
from snowmelt.protocols.pool.producer import Producer
from snowmelt.protocols.pool.rate import TakeRate
from snowmelt.protocols.pool.settings import PoolSettings
from snowmelt.protocols.pool.shelf import TakenOver
from snowmelt.protocols.pool.statistics import Stopwatch, described, reported

BOTH: Final = (True, True)
"""The roles of a process that produces and consumes."""
TAKEN: Final[tuple[type[msgspec.Struct], ...]] = (*messages.MESSAGES, *calls.MESSAGES, Answer)
"""Everything that reaches this machine as a message, for whoever puts it into a host."""


class PoolPeer:
    """One process in one pool.

    >>> from snowmelt.core.batch import Batch
    >>> from snowmelt.core.instant import seconds
    >>> peer = PoolPeer(NodeId("c-1"), "frames", PoolSettings(), Random(1))
    >>> frame = Batch.of([b"frame"])
    >>> put = calls.PoolPut(bytes(frame.offsets), bytes(frame.blob), seconds(1))
    >>> peer.handle(Requested(OperationId(NodeId("c-1"), 1), put), Instant(0))[0].message
    PoolReceipt(count=1, numbers=Interval(start=0, stop=1), closed=False)
    >>> ask = messages.Request(NodeId("c-2"), number=7, attempt=1, hop=1, route=())
    >>> peer.handle(Received(NodeId("c-2"), ask), Instant(5))[0].message.blob.tobytes()
    b'frame'
    """

    def __init__(
        self,
        me: NodeId,
        pool: str,
        settings: PoolSettings,
        chance: Random,
        contacts: tuple[NodeId, ...] = (),
        producer: str = "",
    ) -> None:
        self.me = me
        self._pool = pool
        self._name = producer or me
        self._settings = settings
        self._alarms = Alarms()
        self._introduction = Introduction(contacts, self._alarms)
        self._access = AccessList(settings.access, chance)
        self._holding = HeldLoans(self._alarms, settings.grace)
        self._producer = Producer(settings, chance, self._alarms)
        self._inquiry = Inquiry(chance, self._alarms, self._access, settings.wait)
        self._consumer = Consumer(
            me, settings, chance, self._alarms, self._access, self._inquiry, self._holding
        )
        self._adopter = Adopter(
            me, self._alarms, self._consumer.next_number, self._producer.forget_taken
        )
        self._departure = Departure(
            me,
            self._alarms,
            self._introduction,
            self._producer,
            self._consumer,
            self._holding,
            self._adopter,
        )
        self._roles = (False, False)
        self._using = Stopwatch()
        self._taking = TakeRate()
        self._begun: Instant | None = None
        self._hears: dict[type, Callable[[NodeId, Any, Instant], Effects]] = {
            messages.Request: self._producer.requested,
            messages.Inquire: self._producer.inquired,
            messages.SettleLoan: self._producer.settled,
            messages.Cancel: self._producer.lender.cancelled,
            messages.GiveBack: self._producer.lender.given_back,
            messages.Hold: self._producer.lender.held,
        }
        """What concerns only what is given here: nothing that is shown changes by it."""

    def handle(self, event: Event[Any], now: Instant) -> Effects:
        """One door in; what this process says to itself does not leave it."""
        effects = self._step(event, now)
        if self._roles == BOTH:
            effects = self._inside(effects, now)
        if self._alarms.sooner:
            effects += self._alarms.wake()
        return effects

    def _inside(self, effects: Effects, now: Instant) -> Effects:
        outside: Effects = []
        for effect in effects:  # it grows while it is walked
            if type(effect) is Send and effect.target == self.me:
                effects += self._step(Received(self.me, effect.message), now)
            else:
                outside.append(effect)
        return outside

    def _step(self, event: Event[Any], now: Instant) -> Effects:
        if isinstance(event, Received):
            self._access.heard(event.source)
            hear = self._hears.get(type(event.message))
            if hear is not None:
                return hear(event.source, event.message, now)
            effects = self._heard(event.source, event.message, now)
        elif isinstance(event, Requested):
            effects = self._requested(event.operation, event.message, now)
        else:
            effects = self._happened(event, now)
        self._show_roles(now)
        return effects

    def _happened(self, event: Event[Any], now: Instant) -> Effects:
        match event:
            case Expired():
                self._alarms.expired()
                effects = []
                for kind, key in self._alarms.due(now):
                    effects += self._due(kind, key, now)
            case Announced(fact):
                effects = self._announced(fact, now)
            case Persisted(ticket):
                effects = self._producer.completed(ticket, "", now)
            case PersistFailed(_, reason, fatal=True):  # rule 10 of `core.node`
                effects = [Halt(reason, "StoreError")]
            case PersistFailed(ticket, reason):
                effects = self._producer.completed(ticket, reason, now)
            case Loaded(_, found):
                effects = self._producer.loaded(found, now)
            case Started(records):
                effects = self._producer.started(records)
                effects += self._adopter.restored(self._producer.taken, now)
        return effects

    def check(self) -> None:
        self._producer.check()
        self._consumer.check()
        self._holding.check()

    # --- its own program --------------------------------------------------------------------------

    def _requested(self, operation: OperationId, message: calls.Local, now: Instant) -> Effects:
        producer, consumer = self._producer, self._consumer
        match message:
            case calls.PoolPut():
                return producer.intake.put(operation, message, now)
            case calls.PoolGet():
                if self._departure.begun:
                    return [Reply(operation, Declined("Closed", calls.CLOSED))]
                own_stock = producer.lender.stock.count > 0
                asked = consumer.get(operation, message, now, own_stock=own_stock)
                return [*self._holding.say(), *asked]
            case calls.Ack():
                return self._holding.ack(operation, message, consumer.next_number, now)
            case calls.AwaitRoom():
                return producer.intake.await_room(operation, message, now)
            case calls.GiveUp(size):
                gone = producer.intake.give_up(size, now)
                return gone if producer.intake.places.count else [*gone, *self._leave_further(now)]
            case calls.Nack():
                return self._holding.nack(operation, message)
            case calls.LetGo(token):
                return self._holding.let_go(token)
            case calls.Withdraw(number):
                other = OperationId(operation.client, number)
                return [*producer.intake.withdraw(other, now), *consumer.withdraw(other)]
            case calls.Stop(patience):
                began = self._departure.stop(operation, patience, now)
                return [*began, *self._leave_further(now)]
            case calls.DescribePeer():
                told = described(producer, consumer, self._holding, self._access, now)
                return [Reply(operation, told)]

    # --- others -----------------------------------------------------------------------------------

    def _heard(self, source: NodeId, message: Any, now: Instant) -> Effects:
        """What concerns several parts; none of them knows this one, so that nothing goes round."""
        match message:
            case messages.ObjectsLent():
                return self._found(source, message, now)
            case messages.Stocked():
                self._inquiry.answered(source, message.count, now)
                return self._consumer.go_by_answers(now)
            case messages.LoanSettled():
                return self._settled(source, message, now)
            case messages.Over():
                return self._holding.over(source, message)
            case messages.Invite() if not self._departure.begun:
                return self._adopter.invited(source, now)
            case Answer():
                return self._answered(message, now)
            case _:
                return []

    def _found(self, source: NodeId, found: messages.ObjectsLent, now: Instant) -> Effects:
        if found.number in self._adopter:
            batch, effects = self._adopter.found(source, found)
            if batch is None:
                return effects
            taken = TakenOver(source, found.number, found.token)
            stored = partial(self._adopter.stored, found.number)
            return self._producer.adopt(batch, taken, stored, now)
        return self._consumer.found(source, found, now)

    def _settled(self, source: NodeId, word: messages.LoanSettled, now: Instant) -> Effects:
        if word.number not in self._adopter:
            return self._holding.settled(source, word)
        effects = self._adopter.settled(source, word.number)
        if effects is None or self._departure.begun:
            return effects or []
        return [*effects, *self._adopter.invited(source, now)]  # there may be more

    def _answered(self, answer: Answer[Any], now: Instant) -> Effects:
        if self._introduction.address is None:
            return []  # it has asked nobody yet
        changed, effects = self._introduction.answered(answer, self._word(now))
        self._access.demanded(self._introduction.taken)
        return [*effects, *(self._met(now) if changed else [])]

    # --- who is there -----------------------------------------------------------------------------

    def _announced(self, fact: Any, now: Instant) -> Effects:
        match fact:
            case calls.PoolMembers(producers, known):
                self._introduction.meet(producers, known)
                return self._met(now)
            case calls.ListensAt(address):
                self._begun = now if self._begun is None else self._begun
                self._introduction.address = address
                return self._beat(now)
            case calls.Reachable(target):
                self._access.reached(target)
                return [*self._holding.reached(target), *self._consumer.met(now)]
            case Lost(target):
                return self._lost(target, now)
            case calls.Coming(_, number) if number in self._adopter:
                return self._adopter.coming(fact, now)
            case calls.Coming():
                return self._consumer.coming(fact, now)
            case calls.NotReceived(_, number) if number in self._adopter:
                return self._adopter.refused(fact)
            case calls.NotReceived():
                return self._consumer.refused(fact, now)
            case calls.Unsent(target, message):
                return self._unsent(target, message, now)
            case calls.Unused(target):
                return [Announce(calls.Need(target, self._needs(target, now)))]
            case _:
                return []

    def _needs(self, other: NodeId, now: Instant) -> bool:
        """Whether something is under way between the two, or may be at any time (rule 17)."""
        introduction = self._introduction
        return (
            (other in introduction.known and other in introduction.producers)
            or self._departure.begun
            or self._producer.lender.needs(other, now)
            or self._consumer.needs(other)
            or self._holding.needs(other)
            or self._adopter.needs(other)
        )

    def _lost(self, target: NodeId, now: Instant) -> Effects:
        self._introduction.lost(target, now)
        self._access.lost(target)
        self._producer.lender.lost(target, now)
        self._holding.lost(target, now)
        return [*self._adopter.lost(target), *self._consumer.lost(target, now)]

    def _unsent(self, target: NodeId, message: Any, now: Instant) -> Effects:
        """What never left is not out of sight: whoever counts on it does something else (rule 15).

        All other messages are said again, or are about a loan whose lease ends.
        """
        match message:
            case messages.ObjectsLent():
                return self._producer.lender.unsent(target, message, now)
            case messages.Request(consumer) if consumer == self.me:
                return self._consumer.unsent(message, now)
            case messages.Request():  # to the next of its way
                return self._producer.requested(self.me, message, now)
            case _:
                return []

    def _met(self, now: Instant) -> Effects:
        """The introducer has another roster."""
        introduction = self._introduction
        producers = introduction.producers
        known = tuple(one for one in introduction.known if one in producers)
        self._access.meet([producers[one] for one in known])
        addresses = {one.id: one.address for one in producers.values() if one.id != self.me}
        wanted = tuple(one for one in known if one != self.me)
        return [Announce(calls.Acquaintances(addresses, wanted)), *self._consumer.met(now)]

    def _word(self, now: Instant) -> Introduce:
        introduction, producer, consumer = self._introduction, self._producer, self._consumer
        assert introduction.address is not None
        produces, consumes = self._roles
        return Introduce(
            pool=self._pool,
            address=introduction.address,
            name=self._name,
            produces=produces,
            consumes=consumes,
            leaving=self._departure.begun,
            gone=self._departure.over,
            rate=producer.lender.rate,
            stock=producer.lender.stock.count,
            fan_out=self._settings.fan_out,
            known=introduction.known,
            version=introduction.version,
            taking=self._taking.rate,
            silent=introduction.silent(now),
            report=reported(
                self._settings,
                producer,
                consumer,
                age=since(self._begun or START, now),
                using=self._using.until(now),
                now=now,
            ),
        )

    def _beat(self, now: Instant) -> Effects:
        if self._introduction.address is None or self._departure.over:
            return []
        self._producer.lender.rate = self._producer.intake.rate(now)
        self._taking.seen(self._consumer.counts.got, now)
        word = self._word(now)
        return self._introduction.beat(word, now, impatient=self._consumer.idle)

    def _show_roles(self, now: Instant) -> None:
        """Others are to know at once when this process begins to produce, or to consume."""
        using = self._consumer.using or self._holding.any
        if using is not self._using.runs:
            self._using.show(using, now)
        produces, consumes = self._roles
        if self._producer.intake.used is not produces or self._consumer.used is not consumes:
            self._roles = (self._producer.intake.used, self._consumer.used)
            self._introduction.soon(now)

    # --- what is due ------------------------------------------------------------------------------

    def _due(self, kind: str, key: Any, now: Instant) -> Effects:
        match kind:
            case "loan":
                return self._producer.loan_due(key, now)
            case "put" | "room":
                return self._producer.intake.withdraw(key, now)
            case "promised":
                return self._producer.intake.admit(now)
            case "want":
                return self._consumer.due(key, now)
            case "inquiry":
                asked = self._inquiry.due(key, now)
                return [*asked, *self._consumer.go_by_answers(now)]
            case "coming":
                return self._consumer.still_coming(key, now)
            case "settle":
                return self._holding.settle_due(key, now)
            case "say":
                return self._holding.say()
            case "hold":
                return self._holding.hold_due(key, now)
            case "adopt":
                return self._adopter.due(key, now, gone=self._introduction.gone)
            case "leave":
                return self._leave_further(now)
            case "beat":
                return self._beat(now)
            case _:
                raise AssertionError(f"nobody waits for {kind}")

    # --- leaving ----------------------------------------------------------------------------------

    def _leave_further(self, now: Instant) -> Effects:
        if self._departure.over:
            return []
        effects = self._departure.further(now)
        if self._departure.over:
            self._alarms.cancel(BEAT)
            effects = [*self._last_word(now), *effects]
        return effects

    def _last_word(self, now: Instant) -> Effects:
        """It is gone; nobody answers any more."""
        target = self._introduction.target
        if target is None or self._introduction.address is None:
            return []
        return [Send(target, Call(0, self._word(now)))]
