"""Gets that nobody waits for any more, as their door tells the anchor (rule 17 of the package)."""

import msgspec

from snowmelt.core.instant import Instant, later
from snowmelt.core.names import OperationId
from snowmelt.protocols.queue import calls
from snowmelt.protocols.queue.deadlines import Ends
from snowmelt.protocols.queue.desk import Desk
from snowmelt.protocols.queue.parted.names import part_name, whole_of
from snowmelt.protocols.queue.parted.words import Leave, Left, Post
from snowmelt.protocols.queue.waiting import SILENT_MAX


class Leaves(msgspec.Struct):
    """One of them."""

    queue: str
    call: OperationId | None
    """By which its client says so; None where its connections closed."""
    since: Instant = Instant(0)
    """Then it is when this door began to ask."""


class LeftGets:
    """Of one node, for all queues with several partitions."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._open: dict[OperationId, Leaves] = {}
        self._ends: Ends[OperationId] = Ends()
        """When nobody is asked about them any more."""

    def gone(self, get: OperationId, queue: str, since: Instant) -> None:
        """The connections of its client closed."""
        self._leave(get, Leaves(queue, None, since))

    def leave(self, get: OperationId, queue: str, call: OperationId) -> None:
        """Its client says so, or says so again."""
        self._leave(get, Leaves(queue, call))

    def _leave(self, get: OperationId, known: Leaves) -> None:
        if get not in self._open and len(self._open) >= self._desk.limits.waiting_gets:
            if known.call is not None:
                text = f"{len(self._open)} gets leave at this node already"
                self._desk.decline(known.call, "Unavailable", text)
            return
        self._open[get] = known
        self._ends.put(get, later(self._desk.now, SILENT_MAX))
        self._desk.wake(later(self._desk.now, SILENT_MAX))
        self._say(get, known)

    def _say(self, get: OperationId, known: Leaves) -> None:
        anchor = part_name(known.queue, 0)
        self._desk.inside.append(Post(anchor, Leave(anchor, get, known.since)))

    def lives(self, get: OperationId) -> bool:
        """Whether a get is asked again by one whose connections had closed, and not left by it."""
        known = self._open.get(get)
        if known is None:
            return True
        if known.call is None:
            self._forget(get)
        return known.call is None

    def heard(self, queue: str) -> None:
        """Another is its anchor."""
        for get, known in self._open.items():
            if known.queue == queue:
                self._say(get, known)

    def left(self, word: Left) -> None:
        """It waits no more, and holds nothing."""
        known = self._open.get(word.operation)
        if known is None or known.queue != whole_of(word.queue):
            return
        self._forget(word.operation)
        if known.call is not None:
            self._desk.reply(known.call, calls.Left())

    def _forget(self, get: OperationId) -> None:
        del self._open[get]
        self._ends.forget(get)

    def tick(self) -> None:
        """What nobody confirmed is given up: a lease ends by itself."""
        for get in self._ends.over(self._desk.now):
            del self._open[get]
        if self._ends.next is not None:
            self._desk.wake(self._ends.next)
