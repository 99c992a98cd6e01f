"""Which queues are being made, and which wait until others are.

A queue that is made goes through several flushes, its leader's and its followers'. Of thousands
that begin together each is ready only when all are, and nobody else is heard in between.

1. So many are made at once, and a few of each who asks: between them nodes do what others ask. The
   rest wait in line, and begin as one ends. One who asks may have four times the places it leaves.
2. Each who asks has a line of its own, and the lines take turns: who asks for thousands of queues
   stands before nobody but itself, however many clients it has.
3. One ends with its first active home; or after a while, as its leader may have died on the way.
4. Who waits is asked for again (`metadata_cache.py`). For whom that has not been for a while,
   nobody waits any more, and no queue is made.
"""

from itertools import islice
from typing import Final

import msgspec

from snowmelt.core.instant import Instant, later, seconds
from snowmelt.core.names import NodeId
from snowmelt.core.shares import SHARE, has_share
from snowmelt.protocols.queue.messages.home_words import LocateQueue
from snowmelt.protocols.queue.metadata.metadata_cache import PATIENCE
from snowmelt.protocols.queue.outbox import Outbox

LONGEST: Final = seconds(2)
"""So long the making of one queue keeps others waiting (rule 3)."""


class CreationRequest(msgspec.Struct, frozen=True):
    """A node asks for a queue that is to be made."""

    source: NodeId
    where: LocateQueue
    until: Instant


class Foundations:
    """The queues that are being made, and those that wait.

    >>> from random import Random
    >>> from snowmelt.protocols.queue.limits import QueueLimits
    >>> foundations = Foundations(Outbox(NodeId("n1"), Random(1), QueueLimits(foundations=1)))
    >>> for queue, client in (("a", "c1"), ("b", "c1"), ("c", "c1"), ("d", "c2")):
    ...     foundations.begins(NodeId("n1"), LocateQueue(queue, None, client))
    True
    False
    False
    False
    >>> foundations.ended("a"); [wish.where.queue for wish in iter(foundations.next, None)]
    ['b', 'd', 'c']
    """

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self._begun: dict[str, tuple[str, Instant]] = {}
        """Those that are being made: for whom, and until when they count."""
        self._lines: dict[str, dict[str, CreationRequest]] = {}
        """By who asks, and by queue."""
        self.waiting = 0

    def begins(self, source: NodeId, where: LocateQueue) -> bool:
        """Whether this queue is to be made now; else it waits, if there is room."""
        outbox, queue = self._outbox, where.queue
        if queue in self._begun or self._has_room(where.asker):
            self._begun[queue] = where.asker, later(outbox.now, LONGEST)
            return True
        line = self._lines.get(where.asker, {})
        left = outbox.limits.questions - self.waiting
        if not self.waits(source, where) and has_share(len(line), 1, left, SHARE if line else 1):
            self.waiting += 1
            line[queue] = CreationRequest(source, where, later(outbox.now, PATIENCE))
            self._lines[where.asker] = line
        return False

    def waits(self, source: NodeId, where: LocateQueue) -> bool:
        """Whether this queue has to wait on; who asks again keeps its place (rule 4)."""
        queue, line = where.queue, self._lines.get(where.asker, {})
        if queue not in line or queue in self._begun or self._has_room(where.asker):
            return False
        line[queue] = CreationRequest(source, where, later(self._outbox.now, PATIENCE))
        return True

    def ended(self, queue: str) -> None:
        self._begun.pop(queue, None)

    def next(self) -> CreationRequest | None:
        """Whose turn it is, if there is one and room for it (rule 2)."""
        most = self._outbox.limits.foundations  # no more lines than that can be without room
        while (asker := next(filter(self._has_room, islice(self._lines, most)), None)) is not None:
            line = self._lines.pop(asker)
            wish = line.pop(next(iter(line)))
            self.waiting -= 1
            if line:
                self._lines[asker] = line
            if wish.until > self._outbox.now:  # rule 4
                return wish
        return None

    def _has_room(self, asker: str) -> bool:
        limits, now = self._outbox.limits, self._outbox.now
        self._begun = {queue: one for queue, one in self._begun.items() if one[1] > now}  # rule 3
        own = sum([one == asker for one, _ in self._begun.values()])
        return own < limits.foundations_each and len(self._begun) < limits.foundations
