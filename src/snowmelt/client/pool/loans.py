"""What came of a pool, and who looks after it until its producer hears what became of it.

1. What comes is handed out or goes back, whatever interrupts in between. Until it is handed out it
   is its call's (`runtime/peer/asking.py`), from then on its `ClientLoan`'s.
2. A loan that nobody holds any more is nobody's: it is not renewed.
3. At most once, what is handed out is settled then; what was only asked ahead, or came for a call
   that was given up, goes back unused.
4. A fork leaves it to the parent.
"""

from typing import Final

import msgspec

from snowmelt.core.errors import LeaseLost
from snowmelt.core.instant import Duration
from snowmelt.core.names import NodeId
from snowmelt.protocols.pool.calls import Ack, Got, LetGo
from snowmelt.runtime.peer.asking import NOBODYS, PendingCall, Words

AT_ONCE: Final = Duration(0)


class ClientLoan:
    """What came together under one token; holding this object keeps it on loan.

    Objects that were dropped without an acknowledgement can't be acknowledged any more. Their loan
    is not renewed, and they come to others when its lease is over.
    """

    __slots__ = ("__weakref__", "_watch", "_words", "ended", "left", "producer", "token", "untold")

    def __init__(self, words: Words, producer: NodeId, token: int, count: int) -> None:
        self._words = words
        self.producer = producer
        self.token = token
        self.left = count
        """How many of them are neither acknowledged nor given back."""
        self.ended: set[int] = set()
        """Those that are, by their numbers, where they are ended one by one."""
        self.untold = 0
        """How many are, and the machine has not heard of it."""
        self._watch = words.watch(self, LetGo(token)) if token else None

    def settled(self) -> None:
        """At most once, there is nothing to settle of what was handed out."""
        self._words.leave(Ack(self.token, (), AT_ONCE), soon=False)
        self.token = NOBODYS
        self._unwatched()

    def check_process(self) -> None:
        """Raises `LeaseLost` in a child of the process that took the loan."""
        if self._words.left:
            raise LeaseLost(
                f"loan {self.token} is held by the process that this one was forked from: "
                "acknowledge there, or get objects in this one"
            )

    def begin(self, count: int) -> "ClientLoan":
        """So many of them are about to be settled; `told` follows."""
        self.check_process()
        self.untold += 1
        self.left -= count
        return self

    def told(self) -> None:
        self.untold -= 1
        if not (self.left or self.untold):
            self._unwatched()

    def _unwatched(self) -> None:
        if self._watch is not None:
            self._words.forget(self._watch)
            self._watch = None  # or it would still be called


def taken(asked: PendingCall, me: NodeId, *, once: bool) -> tuple[ClientLoan, Got]:
    """What a get has brought; from now on the holder of the loan looks after it.

    Bodies that this very process has put are copied where they may still be changed.
    """
    got: Got = asked.body
    spans = got.spans
    count = spans[0].count if len(spans) == 1 else sum([span.count for span in spans])
    loan = ClientLoan(asked.words, got.producer, got.token, count)
    if once:
        loan.settled()
    asked.take()
    if got.producer == me and type(memoryview(got.blob).obj) is not bytes:
        got = msgspec.structs.replace(got, blob=bytes(got.blob))
    return loan, got
