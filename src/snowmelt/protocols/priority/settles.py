"""A door's settling of leases: what a client says of each goes to its homes, and comes back as one.

It needs no anchor, and can be said again: a token is settled once. While a home has not answered it
is not said anew for a client that asks again: two answers of one home would count for two homes.
"""

from collections.abc import Iterator

import msgspec

from snowmelt.core.instant import Duration
from snowmelt.core.names import OperationId
from snowmelt.protocols.priority.calls import Receipt, Settle
from snowmelt.protocols.priority.ends import Ends
from snowmelt.protocols.priority.messages import Refusal, Word
from snowmelt.protocols.priority.placing import Placing
from snowmelt.protocols.priority.settings import How, QueueSettings


class SettleInHand(msgspec.Struct, gc=False):
    call: Settle
    with_get: bool = False
    """Whether a get's answer tells of it: alone it is not answered."""
    waits: int = 0
    lost: list[Receipt] = []
    away: list[Receipt] = []


class Settles:
    """Of one queue, at one door."""

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
            if refusal.away:
                one.away.append(Receipt(word.token, refusal.away))
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
        for receipt in call.keep:
            yield receipt, How.KEEP, Duration(0)
        for receipt in call.publish:
            yield receipt, How.PUBLISH, Duration(0)
