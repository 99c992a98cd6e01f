"""What is to be written, for all copies of a node: one write at a time.

Whatever comes while a write is under way is the next one: so one flush serves all who came in the
meantime. A write that finds no room is tried again until there is some, before all others.
"""

from typing import Final

from snowmelt.core.instant import Instant, later, milliseconds
from snowmelt.core.node import Persist
from snowmelt.core.record import Change
from snowmelt.protocols.queue.words import Flush

FIRST_TICKET: Final = 1 << 40
"""Those of the desk are below."""
AGAIN_AFTER: Final = milliseconds(1000)

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

    @property
    def free(self) -> bool:
        """Whether nothing is being written."""
        return self._writing is None

    def write(self, queue: str, changes: tuple[Change, ...], flush: Flush) -> None:
        self._changes += changes
        self._waits.append((queue, flush))

    def begin(self, now: Instant) -> Persist | None:
        """The next write, if there is one and the disk is free."""
        if self._writing is not None or not self._waits:
            return None
        if self._again is not None and now < self._again:
            return None
        self._writing = tuple(self._changes), self._waits
        self._changes, self._waits, self._again = [], [], None
        self._ticket += 1
        return Persist(self._ticket, self._writing[0])

    def written(self) -> list[Waits]:
        """What was being written is flushed."""
        assert self._writing is not None
        (_, waits), self._writing, self.full = self._writing, None, ""
        return waits

    def failed(self, reason: str, now: Instant) -> Instant:
        """It found no room, and left no trace; when it is tried again."""
        assert self._writing is not None
        (changes, waits), self._writing, self.full = self._writing, None, reason
        self._changes, self._waits = [*changes, *self._changes], [*waits, *self._waits]
        self._again = again = later(now, AGAIN_AFTER)
        return again
