"""Gets that nobody waits for any more, as their door tells the anchor: `leader/parted`, rule 17."""

import msgspec

from snowmelt.core.ends import Ends
from snowmelt.core.instant import Instant, later
from snowmelt.core.names import OperationId
from snowmelt.protocols.queue.api import calls
from snowmelt.protocols.queue.api.partition_names import part_name, whole_of
from snowmelt.protocols.queue.leader.waiting import SILENT_MAX
from snowmelt.protocols.queue.messages.partition_words import (
    CancelPartedGet,
    PartedGetCancelled,
    Post,
)
from snowmelt.protocols.queue.outbox import Outbox


class CancelledGet(msgspec.Struct):
    """A get that its client gave up, and since when."""

    queue: str
    call: OperationId | None
    """By which its client says so; None where its connections closed."""
    since: Instant = Instant(0)
    """Then it is when this door began to ask."""


class CancelledGets:
    """Of one node, for all queues with several partitions."""

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self._open: dict[OperationId, CancelledGet] = {}
        self._ends: Ends[OperationId] = Ends()
        """When nobody is asked about them any more."""

    def gone(self, get: OperationId, queue: str, since: Instant) -> None:
        """The connections of its client closed."""
        self._leave(get, CancelledGet(queue, None, since))

    def leave(self, get: OperationId, queue: str, call: OperationId) -> None:
        """Its client says so, or says so again."""
        self._leave(get, CancelledGet(queue, call))

    def _leave(self, get: OperationId, known: CancelledGet) -> None:
        if get not in self._open and len(self._open) >= self._outbox.limits.waiting_gets:
            if known.call is not None:
                text = f"{len(self._open)} gets leave at this node already"
                self._outbox.decline(known.call, "Unavailable", text)
            return
        again = get in self._open
        self._open[get] = known
        self._ends.put(get, later(self._outbox.now, SILENT_MAX))
        self._outbox.wake(later(self._outbox.now, SILENT_MAX))
        self._say(get, known, again=again)

    def _say(self, get: OperationId, known: CancelledGet, *, again: bool = False) -> None:
        anchor = part_name(known.queue, 0)
        self._outbox.inside.append(Post(anchor, CancelPartedGet(anchor, get, known.since), again))

    def lives(self, get: OperationId) -> bool:
        """Whether a get is asked again by one whose connections had closed, and not left by it."""
        known = self._open.get(get)
        if known is None:
            return True
        if known.call is None:
            self._forget(get)
        return known.call is None

    def heard(self, queue: str) -> None:
        for get, known in self._open.items():
            if known.queue == queue:
                self._say(get, known)

    def left(self, word: PartedGetCancelled) -> None:
        """It waits no more, and holds nothing."""
        known = self._open.get(word.operation)
        if known is None or known.queue != whole_of(word.queue):
            return
        self._forget(word.operation)
        if known.call is not None:
            self._outbox.reply(known.call, calls.GetCancelled())

    def _forget(self, get: OperationId) -> None:
        del self._open[get]
        self._ends.forget(get)

    def tick(self) -> None:
        """What nobody confirmed is given up: a lease ends by itself."""
        for get in self._ends.over(self._outbox.now):
            del self._open[get]
        if self._ends.next is not None:
            self._outbox.wake(self._ends.next)
