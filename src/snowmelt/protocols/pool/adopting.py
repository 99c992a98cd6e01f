"""A producer takes over what another leaves behind, so that each object is with one (rule 12).

It asks as a consumer does, but what it is given is its own at once, as soon as it is safe here: the
one who leaves offers it to nobody else, unless it is given back. So nothing depends on whether the
settlement is heard. It is said until it is confirmed, or the one who left is gone; what is
remembered of it longer is only that an answer that comes again is not given back.
"""

from collections.abc import Callable
from typing import Final

import msgspec

from snowmelt.core.batch import Batch
from snowmelt.core.instant import Instant, later, milliseconds, seconds
from snowmelt.core.names import NodeId
from snowmelt.core.node import Note, Send
from snowmelt.protocols.pool.alarms import Alarms, Effects
from snowmelt.protocols.pool.consumer import batches_of
from snowmelt.protocols.pool.messages import Cancel, Found, GiveBack, Request, Settle

ANSWER_WAIT: Final = seconds(2)
ASK_AGAIN: Final = milliseconds(300)
REMEMBERED: Final = seconds(600)
OBJECTS_MAX: Final = 1 << 20
BYTES_MAX: Final = 8 << 20


class _Adoption(msgspec.Struct):
    """One answer of one who leaves."""

    leaver: NodeId
    token: int | None = None
    """Under which its objects came; None while they are waited for."""
    own: bool = False
    """Whether they are safe here, and this process' own."""
    until: Instant = Instant(0)
    """For how long it is remembered."""


class Adopter:
    """What is being taken over."""

    def __init__(self, me: NodeId, alarms: Alarms, number: Callable[[], int]) -> None:
        self._me = me
        self._alarms = alarms
        self._number = number
        self._adoptions: dict[int, _Adoption] = {}

    def __contains__(self, number: int) -> bool:
        return number in self._adoptions

    def busy(self, gone: Callable[[NodeId], bool]) -> bool:
        """Whether somebody who leaves waits for a word from here."""
        return any(not gone(one.leaver) for one in self._adoptions.values())

    def invited(self, leaver: NodeId, now: Instant) -> Effects:
        """Somebody leaves, and has objects."""
        open_ = (one.leaver for one in self._adoptions.values() if not one.own)
        if leaver in open_:
            return []
        number = self._number()
        self._adoptions[number] = _Adoption(leaver)
        self._alarms.set(("adopt", number), later(now, ANSWER_WAIT))
        ask = Request(
            self._me, number, 1, 1, (), OBJECTS_MAX, BYTES_MAX, ANSWER_WAIT, takes_over=True
        )
        return [Send(leaver, ask)]

    def found(self, source: NodeId, found: Found) -> tuple[Batch | None, Effects]:
        """Objects came; those that are to be made safe here, after which `stored` is called."""
        adoption = self._adoptions[found.number]
        if source != adoption.leaver or adoption.token not in (None, found.token):
            return None, [Send(source, GiveBack(found.token))]
        if adoption.token is not None:  # said twice
            settle = Send(source, Settle(found.number, found.token))
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
        return [Send(adoption.leaver, Settle(number, adoption.token))]

    def settled(self, leaver: NodeId, number: int) -> bool:
        """One who leaves knows that they are not its own any more; whether it was so."""
        adoption = self._adoptions[number]
        if not adoption.own or adoption.leaver != leaver:
            return False
        del self._adoptions[number]
        self._alarms.cancel(("adopt", number))
        return True

    def due(self, number: int, now: Instant, *, gone: Callable[[NodeId], bool]) -> Effects:
        """No answer yet."""
        adoption = self._adoptions.get(number)
        if adoption is None:
            return []
        if adoption.token is None:
            del self._adoptions[number]
            return [Send(adoption.leaver, Cancel(number, 1))]
        if now >= adoption.until:
            del self._adoptions[number]
            return []
        if gone(adoption.leaver):
            self._alarms.set(("adopt", number), adoption.until)
            return []
        self._alarms.set(("adopt", number), later(now, ASK_AGAIN))
        return [Send(adoption.leaver, Settle(number, adoption.token))]
