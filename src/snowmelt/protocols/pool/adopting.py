"""A producer takes over what another leaves behind, so that each object is with one (rule 12).

It gets the objects as a consumer does, and they are its own once the settlement is confirmed. When
no confirmation comes, the one who left may or may not have heard of it; but either way it has given
these objects to nobody else while the loan lasted. So when it is known to be gone before the loan
can have ended, the objects are taken; and if that can't be known any more, they are let go.
"""

from collections.abc import Callable
from typing import Final

import msgspec

from snowmelt.core.batch import Batch
from snowmelt.core.instant import Duration, Instant, later, milliseconds, seconds
from snowmelt.core.names import NodeId
from snowmelt.core.node import Note, Send
from snowmelt.protocols.pool.alarms import Alarms, Effects
from snowmelt.protocols.pool.consumer import batches_of
from snowmelt.protocols.pool.messages import Cancel, Found, Request, Settle, Settled

ANSWER_WAIT: Final = seconds(2)
ASK_AGAIN: Final = milliseconds(300)
OBJECTS_MAX: Final = 1 << 20
BYTES_MAX: Final = 8 << 20


class _Adoption(msgspec.Struct):
    """One loan of one who leaves."""

    leaver: NodeId
    settle: Settle | None = None
    batches: list[Batch] = []
    certain_until: Instant = Instant(0)


class Adopter:
    """What is being taken over."""

    def __init__(self, me: NodeId, alarms: Alarms, number: Callable[[], int]) -> None:
        self._me = me
        self._alarms = alarms
        self._number = number
        self._adoptions: dict[int, _Adoption] = {}

    def __len__(self) -> int:
        return len(self._adoptions)

    def __contains__(self, number: int) -> bool:
        return number in self._adoptions

    def invited(self, leaver: NodeId, now: Instant) -> Effects:
        """Somebody leaves, and has objects."""
        if any(one.leaver == leaver for one in self._adoptions.values()):
            return []
        number = self._number()
        self._adoptions[number] = _Adoption(leaver)
        self._alarms.set(("adopt", number), later(now, ANSWER_WAIT))
        ask = Request(self._me, number, 1, 1, (), OBJECTS_MAX, BYTES_MAX, ANSWER_WAIT)
        return [Send(leaver, ask)]

    def found(self, source: NodeId, found: Found, now: Instant) -> Effects:
        """Objects came on loan; they are settled at once."""
        adoption = self._adoptions[found.number]
        batches = batches_of(found)
        if adoption.settle is not None or source != adoption.leaver or batches is None:
            return []
        adoption.settle = Settle(found.number, found.token)
        adoption.batches = batches
        adoption.certain_until = later(now, Duration(found.lease // 2))
        self._alarms.set(("adopt", found.number), later(now, ASK_AGAIN))
        return [Send(source, adoption.settle)]

    def settled(self, word: Settled) -> tuple[list[Batch], NodeId]:
        """What is this process' own now, and whose it was."""
        adoption = self._adoptions.pop(word.number)
        self._alarms.cancel(("adopt", word.number))
        return ([] if word.lost else adoption.batches), adoption.leaver

    def due(
        self, number: int, now: Instant, *, gone: Callable[[NodeId], bool]
    ) -> tuple[list[Batch], Effects]:
        """No answer yet. What is this process' own by now, and what is to be done."""
        adoption = self._adoptions.get(number)
        if adoption is None:
            return [], []
        leaver = adoption.leaver
        if adoption.settle is None:
            del self._adoptions[number]
            return [], [Send(leaver, Cancel(number, 1))]
        if gone(leaver):
            del self._adoptions[number]
            if now <= adoption.certain_until:
                return adoption.batches, []
            return [], [Note(f"what {leaver} left behind is let go: it may be another's")]
        self._alarms.set(("adopt", number), later(now, ASK_AGAIN))
        return [], [Send(leaver, adoption.settle)]
