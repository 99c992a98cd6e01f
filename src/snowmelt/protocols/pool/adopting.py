"""A producer takes over what another leaves behind, so that each object is with one (rule 12).

It asks as a consumer does, but what it is given is its own at once, as soon as it is safe here: the
one who leaves offers it to nobody else, unless it is given back. So nothing depends on whether the
settlement is heard. It is said until it is confirmed, or the one who left is gone; what is
remembered of it longer is only that an answer that comes again is not given back.

So it is on the disk, beside the objects or after them, where there is one: whoever lives again
there is asked once more by one who leaves, and answers as its former life would have (rule 16).
Once it is remembered for `REMEMBERED`, or of `TAKEN_MAX` answers, it takes over nothing more before
something is forgotten; nothing is forgotten before its time.

An answer that has begun to come is waited for, and held meanwhile, however slow its way is. Whoever
begins to leave takes over nothing more: what comes for it then goes back.
"""

from collections.abc import Callable
from typing import Final

import msgspec

from snowmelt.core.batch import Batch
from snowmelt.core.instant import Duration, Instant, later, milliseconds, seconds
from snowmelt.core.names import NodeId, OperationId
from snowmelt.core.node import Note, Reply, Send
from snowmelt.protocols.pool.alarms import Alarms, Effects
from snowmelt.protocols.pool.calls import Coming, NotReceived, Stopped
from snowmelt.protocols.pool.consumer import Consumer, batches_of
from snowmelt.protocols.pool.holding import HeldLoans
from snowmelt.protocols.pool.introduction import Introduction
from snowmelt.protocols.pool.messages import (
    Cancel,
    GiveBack,
    Hold,
    Invite,
    ObjectsLent,
    Request,
    SettleLoan,
)
from snowmelt.protocols.pool.producer import Producer
from snowmelt.protocols.pool.settings import LEASE_SHORTEST, REMEMBERED
from snowmelt.protocols.pool.shelf import TakenOver

ANSWER_WAIT: Final = seconds(2)
ASK_AGAIN: Final = milliseconds(300)
OBJECTS_MAX: Final = 1 << 20
BYTES_MAX: Final = 8 << 20
TAKEN_MAX: Final = 10_000
"""So many answers are remembered; more are not asked for."""
INVITE_EVERY: Final = milliseconds(200)
ON_THEIR_WAY: Final = milliseconds(100)
"""For so long after its time it waits for what was put into places that were told of ahead."""
LEAVE: Final = ("leave", None)


class _Adoption(msgspec.Struct):
    """One answer of one who leaves."""

    leaver: NodeId
    token: int | None = None
    """Under which its objects came; None while they are waited for."""
    coming: Coming | None = None
    """Its head, while the rest of it is on its way."""
    own: bool = False
    """Whether they are safe here, and this process' own."""
    until: Instant = Instant(0)
    """For how long it is remembered."""


class Adopter:
    def __init__(
        self,
        me: NodeId,
        alarms: Alarms,
        number: Callable[[], int],
        forget: Callable[[int], Effects],
    ) -> None:
        self._me = me
        self._alarms = alarms
        self._number = number
        self._forget = forget
        self._adoptions: dict[int, _Adoption] = {}

    def __contains__(self, number: int) -> bool:
        return number in self._adoptions

    def restored(self, taken: tuple[TakenOver, ...], now: Instant) -> Effects:
        """A former life took these over, and may not have been heard (rule 16)."""
        for one in taken[:TAKEN_MAX]:
            until = later(now, REMEMBERED)
            self._adoptions[one.number] = _Adoption(one.leaver, one.token, own=True, until=until)
            self._alarms.set(("adopt", one.number), later(now, ASK_AGAIN))
        return [effect for one in taken[TAKEN_MAX:] for effect in self._forget(one.number)]

    def busy(self, gone: Callable[[NodeId], bool]) -> bool:
        """Whether somebody who leaves waits for a word from here."""
        return any(not gone(one.leaver) for one in self._adoptions.values())

    def needs(self, leaver: NodeId) -> bool:
        """Whether something of this one's is being taken over."""
        return any(one.leaver == leaver for one in self._adoptions.values())

    def invited(self, leaver: NodeId, now: Instant) -> Effects:
        open_ = (one.leaver for one in self._adoptions.values() if not one.own)
        if leaver in open_ or len(self._adoptions) >= TAKEN_MAX:
            return []
        number = self._number()
        self._adoptions[number] = _Adoption(leaver)
        self._alarms.set(("adopt", number), later(now, ANSWER_WAIT))
        ask = Request(
            self._me, number, 1, 1, (), OBJECTS_MAX, BYTES_MAX, ANSWER_WAIT, takes_over=True
        )
        return [Send(leaver, ask)]

    def coming(self, fact: Coming, now: Instant) -> Effects:
        """The head of something large has come: it is waited for, and held meanwhile (rule 8)."""
        adoption = self._adoptions.get(fact.number)
        if adoption is None or adoption.leaver != fact.source or adoption.token is not None:
            return []
        adoption.coming = fact
        lease = max(fact.lease, LEASE_SHORTEST)
        self._alarms.set(("adopt", fact.number), later(now, Duration(lease // 3)))
        return [Send(fact.source, Hold((fact.token,)))]

    def refused(self, fact: NotReceived) -> Effects:
        """There was no room here for what came; who leaves has it still."""
        adoption = self._adoptions.get(fact.number)
        if adoption is None or adoption.leaver != fact.source or adoption.token is not None:
            return []
        return self._give_up(fact.number, adoption)

    def lost(self, leaver: NodeId) -> Effects:
        """The way to one who leaves has ended: nothing of what was asked for is on its way now."""
        asked = self._asked
        return [
            effect
            for number, one in asked
            if one.leaver == leaver
            for effect in self._give_up(number, one)
        ]

    def leave(self) -> Effects:
        """This process leaves too: it takes over nothing more."""
        return [effect for number, one in self._asked for effect in self._give_up(number, one)]

    @property
    def _asked(self) -> list[tuple[int, _Adoption]]:
        return [(number, one) for number, one in self._adoptions.items() if one.token is None]

    def _give_up(self, number: int, adoption: _Adoption) -> Effects:
        del self._adoptions[number]
        self._alarms.cancel(("adopt", number))
        return [Send(adoption.leaver, Cancel(number, 1))]

    def found(self, source: NodeId, found: ObjectsLent) -> tuple[Batch | None, Effects]:
        """Objects came; those that are to be made safe here, after which `stored` is called."""
        adoption = self._adoptions[found.number]
        if source != adoption.leaver or adoption.token not in (None, found.token):
            return None, [Send(source, GiveBack(found.token))]
        if adoption.token is not None:  # said twice
            settle = Send(source, SettleLoan(found.number, found.token))
            return None, [settle] if adoption.own else []
        batches = batches_of(found)
        if batches is None:
            return None, [Note(f"what {source} leaves behind does not add up")]
        adoption.token = found.token
        self._alarms.cancel(("adopt", found.number))
        if len(batches) == 1:
            return batches[0], []
        return Batch.of(bytes(body) for batch in batches for body in batch), []

    def stored(self, number: int, failure: str, now: Instant) -> Effects:
        """They are safe here; or they are not, and go back."""
        adoption = self._adoptions[number]
        assert adoption.token is not None
        if failure:
            del self._adoptions[number]
            back = Send(adoption.leaver, GiveBack(adoption.token))
            return [Note(f"objects taken over could not be kept: {failure}"), back]
        adoption.own = True
        adoption.until = later(now, REMEMBERED)
        self._alarms.set(("adopt", number), later(now, ASK_AGAIN))
        return [Send(adoption.leaver, SettleLoan(number, adoption.token))]

    def settled(self, leaver: NodeId, number: int) -> Effects | None:
        """One who leaves knows that they are not its own any more; None if it was not asked."""
        adoption = self._adoptions[number]
        if not adoption.own or adoption.leaver != leaver:
            return None
        del self._adoptions[number]
        self._alarms.cancel(("adopt", number))
        return self._forget(number)

    def due(self, number: int, now: Instant, *, gone: Callable[[NodeId], bool]) -> Effects:
        adoption = self._adoptions.get(number)
        if adoption is None:
            return []
        if adoption.token is None:
            if adoption.coming is not None and not gone(adoption.leaver):
                return self.coming(adoption.coming, now)
            return self._give_up(number, adoption)
        if now >= adoption.until:
            del self._adoptions[number]
            return self._forget(number)
        if gone(adoption.leaver):
            self._alarms.set(("adopt", number), adoption.until)
            return []
        self._alarms.set(("adopt", number), later(now, ASK_AGAIN))
        return [Send(adoption.leaver, SettleLoan(number, adoption.token))]


class Departure:
    def __init__(
        self,
        me: NodeId,
        alarms: Alarms,
        introduction: Introduction,
        producer: Producer,
        consumer: Consumer,
        holding: HeldLoans,
        adopter: Adopter,
    ) -> None:
        self.over = False
        """Whether it has left."""
        self._me = me
        self._alarms = alarms
        self._introduction = introduction
        self._producer = producer
        self._consumer = consumer
        self._holding = holding
        self._adopter = adopter
        self._deadline: Instant | None = None
        self._asked: list[OperationId] = []
        self._invitations = 0

    @property
    def begun(self) -> bool:
        return self._deadline is not None

    def stop(self, operation: OperationId, patience: Duration, now: Instant) -> Effects:
        """It is asked to leave; whoever asks again hears what became of it, too."""
        if self.over:
            return [Reply(operation, Stopped(self._producer.left))]
        self._asked.append(operation)
        if self.begun:
            return []
        self._deadline = later(now, patience)
        self._introduction.soon(now)
        return [
            *self._consumer.leave(),
            *self._holding.leave(),
            *self._adopter.leave(),
            *self._producer.leave(),
            *self._holding.say(),
        ]

    def further(self, now: Instant) -> Effects:
        """Until nothing is left here, or the time is over: others are invited in turn."""
        deadline = self._deadline
        if deadline is None or self.over:
            return []
        producer = self._producer
        # What is on a disk waits there; only who holds some of it is still to say so.
        left = producer.lender.loans.count if producer.spills else producer.left
        waits = left or self._holding.settling or self._adopter.busy(self._introduction.gone)
        end = later(deadline, ON_THEIR_WAY) if producer.intake.places.count else deadline
        if not waits or now >= end:
            self.over = producer.lender.gone = True
            return [Reply(operation, Stopped(producer.left)) for operation in self._asked]
        self._alarms.set(LEAVE, min(end, later(now, INVITE_EVERY)))
        heirs = self._introduction.heirs(self._me)
        if producer.spills or not producer.lender.stock.count or not heirs:
            return []
        self._invitations += 1
        return [Send(heirs[self._invitations % len(heirs)], Invite())]
