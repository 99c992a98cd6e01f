"""A door's last step: what leases are settled with, and how gets are answered that have their own.

A get waits for what it was to settle first (door, rule 6), and for the others when no other node
had a part in it (`confirming.py`). If nobody hears it any more, what it has goes back (door, rule
4).
"""

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from snowmelt.core.instant import Duration, Instant, later
from snowmelt.core.names import NodeId, OperationId
from snowmelt.protocols.priority.calls import Counted, Get, Purge, Receipt, Settle, Settled
from snowmelt.protocols.priority.confirming import Confirming
from snowmelt.protocols.priority.desk import AGAIN_FIRST, Desk
from snowmelt.protocols.priority.ends import Ends
from snowmelt.protocols.priority.gets import Gets
from snowmelt.protocols.priority.hand import GetInHand, Hand
from snowmelt.protocols.priority.messages import Refusal, Word
from snowmelt.protocols.priority.placing import Placing
from snowmelt.protocols.priority.sending import Sending
from snowmelt.protocols.priority.settings import How, QueueSettings


class SettleInHand(msgspec.Struct, gc=False):
    call: Settle
    with_get: bool = False
    """Whether a get's answer tells of it: alone it is not answered."""
    waits: int = 0
    lost: list[Receipt] = []


class Settles:
    """Of one queue, at one door: what a client says of leases goes to their homes.

    It needs no anchor, and can be said again: a token is settled once. While a home has not
    answered it is not said anew: two answers of one home would count for two homes.
    """

    def __init__(self, settings: QueueSettings, ends: Ends) -> None:
        self._settings = settings
        self._ends = ends
        self.hand: dict[OperationId, SettleInHand] = {}

    def begin(
        self, operation: OperationId, call: Settle, placing: Placing, *, with_get: bool = False
    ) -> bool:
        """Tells the homes; whether there is anything to wait for."""
        if operation in self.hand:
            return True
        one = self.hand[operation] = SettleInHand(call, with_get)
        for receipt, how, time in self._words(call):
            one.waits += self._ends.say(
                sorted(placing.by_home(receipt.shares).items()),
                how,
                token=receipt.token,
                operation=operation,
                reason=call.reason,
                time=time,
            )
        if not one.waits:
            del self.hand[operation]
        return one.waits > 0

    def ended(
        self, operation: OperationId, word: Word, refusal: Refusal | None
    ) -> SettleInHand | None:
        """A home has done its part; all of it when that was the last."""
        one = self.hand.get(operation)
        if one is None:
            return None
        one.waits -= 1
        if refusal is not None:
            one.lost.append(Receipt(word.token, refusal.shares))
        if one.waits:
            return None
        return self.hand.pop(operation)

    def taken(self) -> list[tuple[OperationId, SettleInHand]]:
        """All that is in hand, to be begun again in another view."""
        hand, self.hand = self.hand, {}
        return list(hand.items())

    def _words(self, call: Settle) -> Iterator[tuple[Receipt, How, Duration]]:
        for receipt in call.done:
            yield receipt, How.DONE, Duration(0)
        failed = How.DEAD if call.dead else How.FAILED
        back = failed if call.reason else How.BACK
        for receipt in call.back:
            yield receipt, back, call.delay
        for receipt in call.renew:
            yield receipt, How.RENEW, self._settings.lease


SETTLE_SOON: Final = AGAIN_FIRST
"""So long what is to be settled first waits for the grant (door, rule 6): as long as a batch may be
on its way before it is sent again."""


class Answering:
    """Of one queue, at one door."""

    def __init__(
        self,
        desk: Desk,
        settings: QueueSettings,
        sending: Sending,
        hand: Hand,
        gets: Gets,
        ends: Ends,
    ) -> None:
        self._desk = desk
        self._queue = settings.queue
        self._hand = hand
        self._gets = gets
        self._settles = Settles(settings, ends)
        self._confirming = Confirming(desk, settings, sending)
        self._unsettled: dict[OperationId, Instant] = {}
        """Gets that have yet to settle what comes first, and until when they wait."""

    # --- leases -----------------------------------------------------------------------------------

    def settle(self, operation: OperationId, call: Settle) -> None:
        if operation in self._settles.hand or self._hand.placing is None:
            return
        if not self._settles.begin(operation, call, self._hand.placing):
            self._desk.reply(operation, Settled())

    def settle_soon(self, one: GetInHand) -> None:
        """What this get has to settle first waits for its grant, though not for long."""
        one.settled = False
        at = later(self._desk.now, SETTLE_SOON)
        self._unsettled.pop(one.operation, None)
        self._unsettled[one.operation] = at
        self._desk.wake(at, self._queue)

    def settle_first(self, operation: OperationId) -> None:
        """It has its grant, or has waited for that long enough."""
        if operation not in self._unsettled or self._hand.placing is None:
            return
        del self._unsettled[operation]
        one = self._hand.all.get(operation)
        if isinstance(one, GetInHand) and isinstance(one.call, Get) and one.call.settle is not None:
            settle, placing = one.call.settle, self._hand.placing
            one.settled = not self._settles.begin(operation, settle, placing, with_get=True)
            if one.settled and one.ready:
                self._answer_sure(one)

    def ended(self, operation: OperationId, word: Word, refusal: Refusal | None) -> None:
        settled = self._settles.ended(operation, word, refusal)
        if settled is not None:
            self._settled(operation, settled)

    def tick(self, now: Instant) -> None:
        for operation, at in list(self._unsettled.items()):
            if at > now:  # they stand in their order
                self._desk.wake(at, self._queue)
                break
            self.settle_first(operation)

    # --- gets -------------------------------------------------------------------------------------

    def answer(self, one: GetInHand) -> None:
        """It has its own, or there is nothing for it."""
        if self._confirming.needed(one):  # door, rule 11
            one.waits = 1
            self._confirming.waiting.append(one.operation)
        else:
            self._answer_sure(one)

    def leave(self) -> None:
        if self._confirming.waiting:
            self._confirming.leave()

    def confirmed(self) -> None:
        """A member has said that this view still is (door, rule 11)."""
        for operation in self._confirming.heard():
            one = self._hand.all.get(operation)
            if isinstance(one, GetInHand):
                one.waits = 0
                self._answer_sure(one)

    # --- a new view -------------------------------------------------------------------------------

    def viewed(self, placing: Placing | None, anchor: NodeId | None) -> Iterable[OperationId]:
        """A view begins: which gets were to be confirmed in the one before."""
        return self._confirming.viewed(placing, anchor)

    def settle_anew(self, placing: Placing) -> None:
        """What was on its way to homes when the last view ended goes to those of this one."""
        for operation, was in self._settles.taken():
            if not self._settles.begin(operation, was.call, placing, with_get=was.with_get):
                self._settled(operation, was)

    # --- within -----------------------------------------------------------------------------------

    def _answer_sure(self, one: GetInHand) -> None:
        one.ready = True
        if not one.settled:
            return
        if one.pieces and one.unheard(self._desk.now):  # door, rule 4
            self._gets.give_back(one, self._hand.at())
            return
        self._hand.leave(one.operation)
        if isinstance(one.call, Purge):
            counted = Counted(one.purged)
            self._hand.answered.keep(one.operation, counted, self._desk.now)
            self._desk.reply(one.operation, counted)
            return
        answer = self._gets.leased(one)
        if one.unheard(self._desk.now):
            return
        self._hand.remember(one, answer, self._desk.now)
        self._desk.reply(one.operation, answer)

    def _settled(self, operation: OperationId, settled: SettleInHand) -> None:
        one = self._hand.all.get(operation)
        if isinstance(one, GetInHand):
            one.settled = True
            one.lost = settled.lost
            if one.ready:
                self._answer_sure(one)
        elif not settled.with_get:  # else the get is in hand at another door
            self._desk.reply(operation, Settled(tuple(settled.lost)))
