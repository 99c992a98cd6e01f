"""What a backup must have, what it may not have, and what comes out of a queue that is made of it.

Rules:

1. What was told as put before the backup was asked for is in it, unless somebody asked by its
   beginning that it be done.
2. What was told as done before it was asked for is not in it.
3. What is in it was asked to be put before it had begun, and is in it once.
4. It has the items of one moment: of two that one client acknowledged one after the other, it does
   not lack the later one and have the earlier one.
5. A queue that is made of it gives what it has, in its order, and nothing else.

Where disks are lost or damaged only 3 holds.
"""

from collections.abc import Callable

import msgspec

from snowmelt.core.instant import Instant
from snowmelt_world.judge.deleted import DeletedLedger


class Copied(msgspec.Struct):
    """A backup as it was read."""

    called: Instant
    begun: Instant
    """When its first piece was answered."""
    values: list[str]
    lost: int
    in_part: list[str] = []
    """What came out of the queue that is made of it, in tries that broke off."""


class BackupLedger(DeletedLedger):
    """Of one queue that is backed up."""

    def __init__(self, queue: str, *, keeps: bool, now: Callable[[], Instant]) -> None:
        super().__init__(queue, keeps=keeps, knows=keeps)
        self.keeps = keeps
        self._now = now
        self._asked_at: dict[str, Instant] = {}
        self._told_at: dict[str, Instant] = {}
        self._acking_at: dict[str, Instant] = {}
        self._acked_at: dict[str, Instant] = {}

    def asked(self, value: str) -> None:
        super().asked(value)
        self._asked_at[value] = self._now()

    def put(self, value: str, since: int) -> None:
        super().put(value, since)
        self._told_at[value] = self._now()

    def acking(self, values: list[str]) -> None:
        super().acking(values)
        for value in values:
            self._acking_at.setdefault(value, self._now())

    def acked(self, values: list[str], at: Instant) -> None:
        super().acked(values, at)
        for value in values:
            self._acked_at.setdefault(value, at)

    def copied(self, one: Copied) -> None:
        """A backup was read."""
        self.calls += 1
        there = dict.fromkeys(one.values)
        if len(there) < len(one.values):
            self.wrong("a backup has something twice")
        for value in one.values:
            if self._asked_at.get(value, one.begun) >= one.begun:
                self.wrong(f"a backup has {value}, which was put after it began")
        if not self.keeps:
            return
        if one.lost:
            self.wrong(f"a backup lacks {one.lost} items that nobody could read")
        for value, at in self._told_at.items():
            done = self._acking_at.get(value, one.begun) < one.begun
            if at < one.called and not done and value not in there:
                self.wrong(f"{value} was put before a backup, and is not in it")
        for value, at in self._acked_at.items():
            if at < one.called and value in there:
                self.wrong(f"{value} was done before a backup, and is in it")
        self._of_one_moment(one, there)

    def _of_one_moment(self, one: Copied, there: dict[str, None]) -> None:
        """Rule 4."""
        earliest = min(
            (self._acked_at[value] for value in there if value in self._acked_at), default=None
        )
        for value, at in self._acking_at.items():
            told = self._told_at.get(value)
            lacks = value not in there and told is not None and told < one.called
            if earliest is not None and lacks and at > earliest:
                self.wrong(f"a backup lacks {value}, and has what was done before that")

    def restored(self, one: Copied, came: list[str]) -> None:
        """All of a queue that was made of it came."""
        self.calls += 1
        if not self.keeps:
            return
        if one.in_part:
            missing = [value for value in one.values if value not in {*one.in_part, *came}]
            wrong = bool(missing) or not {*came} <= {*one.values}
        else:
            wrong = list(dict.fromkeys(came)) != one.values
        if wrong:
            self.wrong(f"a backup of {one.values} was restored, and {one.in_part + came} came")
