"""What is to be written, for all copies of a node: one write at a time.

1. Whatever comes while a write is under way is the next one: so one flush serves all who came in
   the meantime.
2. A write that finds no room is tried again until there is some, before all others.
3. What may linger waits so long for company, unless there is much of it. Whoever reads meanwhile is
   given its bodies from here.
"""

from typing import Final

from snowmelt.core.instant import Duration, Instant, later, milliseconds
from snowmelt.core.node import Persist
from snowmelt.core.record import BULK, Change, Write
from snowmelt.protocols.queue.desk import merged
from snowmelt.protocols.queue.settings import LINGER_LONGEST
from snowmelt.protocols.queue.words import Flush

FIRST_TICKET: Final = 1 << 40
"""Those of the desk are below."""
AGAIN_AFTER: Final = milliseconds(1000)
LINGERING_BYTES: Final = 32 << 20
"""So much of bodies lingers at most."""
NOW: Final = Duration(0)

Waits = tuple[str, Flush]
"""A queue, and what a flush is for."""


class Disk:
    """What waits to be written, and what is being written."""

    def __init__(self) -> None:
        self.full = ""
        """Why the last write found no room; empty when it did."""
        self._again: Instant | None = None
        """When to try once more."""
        self._ticket = FIRST_TICKET
        self._changes: list[Change] = []
        self._waits: list[Waits] = []
        self._writing: tuple[tuple[Change, ...], list[Waits]] | None = None
        self._linger = LINGER_LONGEST
        """The shortest of what came since it was looked at last."""
        self._due: Instant | None = None
        """When the next write must begin; None while that is not known."""
        self._bodies: dict[bytes, bytes] = {}
        """What lingers (rule 3), and how many bytes it has."""
        self._bytes = 0

    @property
    def free(self) -> bool:
        """Whether nothing is being written."""
        return self._writing is None

    @property
    def crowded(self) -> bool:
        """Whether no more may linger (rule 3)."""
        return self._bytes > LINGERING_BYTES

    def write(
        self, queue: str, changes: tuple[Change, ...], flush: Flush, linger: Duration = NOW
    ) -> None:
        self._changes += changes
        self._waits.append((queue, flush))
        self._linger = min(self._linger, linger)
        if linger:
            bodies = [one for one in changes if type(one) is Write and one.key[:1] == BULK]
            self._bodies.update([(one.key, one.value) for one in bodies])
            self._bytes += sum([len(one.value) for one in bodies])

    def lingers(self, key: bytes) -> bytes | None:
        """A body that is not flushed yet (rule 3)."""
        return self._bodies.get(key)

    def begin(self, now: Instant) -> Persist | None:
        """The next write, if there is one, its time has come, and the disk is free."""
        if not self._waits:
            return None
        due = later(now, self._linger)
        self._due = due if self._due is None else min(self._due, due)
        self._linger = LINGER_LONGEST
        if self._writing is not None or (now < self._due and not self.crowded):
            return None
        if self._again is not None and now < self._again:
            return None
        changes = merged(self._changes) if self._bodies else tuple(self._changes)
        self._writing = changes, self._waits
        self._changes, self._waits, self._again, self._due = [], [], None, None
        self._ticket += 1
        return Persist(self._ticket, changes)

    @property
    def due(self) -> Instant | None:
        """When to look again whether a write is to begin."""
        if self._writing is not None or self._due is None:
            return None
        return self._due if self._again is None else max(self._due, self._again)

    def written(self) -> list[Waits]:
        """What was being written is flushed."""
        assert self._writing is not None
        (changes, waits), self._writing, self.full = self._writing, None, ""
        for change in changes if self._bodies else ():
            if type(change) is Write:
                self._bytes -= len(self._bodies.pop(change.key, b""))
        return waits

    def failed(self, reason: str, now: Instant) -> Instant:
        """It found no room, and left no trace; when it is tried again."""
        assert self._writing is not None
        (changes, waits), self._writing, self.full = self._writing, None, reason
        self._changes, self._waits = [*changes, *self._changes], [*waits, *self._waits]
        self._again = again = later(now, AGAIN_AFTER)
        self._linger = NOW
        return again
