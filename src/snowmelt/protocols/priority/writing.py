"""One node's disk: one write at a time, and who waits for it.

What changes while it writes gathers, and goes in one piece when it is done. A write that found no
room is tried again, with all that has changed since; but without bodies, whoever they came from:
there is room for small records where there is none for bodies, and it is those that make room.
"""

from collections.abc import Iterable
from enum import IntEnum
from typing import Final

import msgspec

from snowmelt.core.instant import Instant, later, milliseconds
from snowmelt.core.node import Persist
from snowmelt.core.record import BULK, Change, Write

NO_ROOM: Final = milliseconds(1_000)
"""After so long without room on the disk it is tried again."""


class Part(IntEnum):
    """Who waits for the disk."""

    HOME = 0
    COPIES = 1
    REPAIR = 2
    LOOKS = 3
    QUEUES = 4


class Task(msgspec.Struct, frozen=True, gc=False):
    """Who waits, of which queue, and under which number, in which view: in another nobody does."""

    part: Part
    queue: str
    number: int
    era: int


class _UnderWay(msgspec.Struct, gc=False):
    number: int
    tasks: list[Task]
    changes: list[Change]


class Writing:
    """What is written, what is to be written again, and who waits."""

    def __init__(self) -> None:
        self.tasks: list[Task] = []
        """Who waits for the next write."""
        self._number = 0
        self._under_way: _UnderWay | None = None
        self._again: list[Change] = []
        """What found no room."""
        self._not_before = Instant(0)
        self._held_up: dict[str, None] = {}

    @property
    def busy(self) -> bool:
        """Whether it has not flushed yet what it was last given."""
        return self._under_way is not None

    def hold_up(self, queue: str) -> None:
        """This queue goes on when the disk is not busy any more."""
        self._held_up[queue] = None

    def held_up(self) -> Iterable[str]:
        queues, self._held_up = self._held_up, {}
        return queues

    def may_begin(self, now: Instant) -> bool:
        return self._under_way is None and now >= self._not_before

    def begin(self, changes: list[Change]) -> Persist | list[Task]:
        """Writes what has changed; when nothing has, the tasks that need not wait."""
        changes = [*self._again, *changes]
        tasks, self.tasks, self._again = self.tasks, [], []
        if not changes:
            return tasks
        self._number += 1
        self._under_way = _UnderWay(self._number, tasks, changes)
        return Persist(self._number, tuple(changes))

    def written(self, ticket: int) -> list[Task]:
        done, self._under_way = self._under_way, None
        assert done is not None
        assert done.number == ticket, "writes are answered in the order asked"
        return done.tasks

    def refused(self, now: Instant) -> tuple[list[Task], Instant]:
        """There was no room: who waited for it, and when what is not taken back is tried again."""
        refused, self._under_way = self._under_way, None
        assert refused is not None
        self._again = refused.changes
        self._not_before = later(now, NO_ROOM)
        return refused.tasks, self._not_before

    def take_back(self, keys: tuple[bytes, ...], now: Instant) -> None:
        """These found no room, and are not to be written any more."""
        self._again = [one for one in self._again if not (type(one) is Write and one.key in keys)]
        self._not_before = now  # the rest may find room

    @property
    def large(self) -> tuple[bytes, ...]:
        """The keys of bodies that found no room, and that nobody has taken back."""
        return tuple(
            [one.key for one in self._again if type(one) is Write and one.key.startswith(BULK)]
        )

    @property
    def holds_bodies(self) -> bool:
        """Whether some are on their way to the disk (settling, rule 5)."""
        under_way = self._under_way.changes if self._under_way is not None else ()
        changes = (*under_way, *self._again)
        return any(type(one) is Write and one.key.startswith(BULK) for one in changes)

    def put_back(self, tasks: list[Task]) -> None:
        self.tasks[:0] = tasks
