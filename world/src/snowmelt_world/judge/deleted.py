"""What may never be seen of a name whose queues are deleted, one after the other.

A queue is known by the term with which it was made. Rules:

1. What was put into one queue comes out of no other.
2. Nothing is done in a queue for a call that is made after somebody was told that it is deleted.
3. No token is of two queues: those of a later one are larger.
4. What is told as acknowledged does not come for a call that is made after that.
5. What is told as put into the last queue comes out of it.

One of several partitions is deleted partition by partition. So it may be deleted in part, as long
as nobody was told that it is; 5 holds for one that was made after somebody tried that last. Its
leases are of partitions, so 3 does not apply.

Where disks are lost or damaged, 4 and 5 do not hold; 2 and 3 do not where the disk of whoever
decides is an older one, and others who know better may be away.
"""

from typing import NoReturn

import msgspec

from snowmelt.core.instant import Instant
from snowmelt_world.world import Broken

TOKEN_BITS = 40
"""Above these a token has the term of its lease."""


class Fate(msgspec.Struct):
    """What is known of one item."""

    since: int = 0
    """Into which queue it was put, where that was told; or from which it came."""
    told: bool = False
    """Whether it was told as put."""
    acking: bool = False
    """Whether somebody asked for it to be done: it may be, whatever was told."""
    acked: Instant | None = None


class DeletedLedger:
    """One name."""

    def __init__(self, queue: str, *, keeps: bool, knows: bool, partitions: int = 1) -> None:
        self.queue = queue
        self.partitions = partitions
        self._tried = Instant(-1)
        """When somebody tried last to delete it, where that is partition by partition."""
        self._keeps = keeps
        """Whether no disk is lost or damaged."""
        self._knows = knows
        """Whether who decides knows what was decided."""
        self.calls = 0
        self._fates: dict[str, Fate] = {}
        self._known: dict[int, Instant] = {}
        """Queues, and when they were first heard of."""
        self._dead: dict[int, Instant] = {}
        """Those that were deleted, and since when that is known."""
        self._tokens: dict[int, int] = {}
        """The terms of leases, and of which queue they are."""

    @property
    def excused(self) -> dict[str, int]:
        """None is."""
        return {}

    def wrong(self, sentence: str) -> NoReturn:
        raise Broken(f"{self.queue}: {sentence}", self.queue)

    def asked(self, value: str) -> None:
        """It is about to be put."""
        self._fates[value] = Fate()

    def done(self, since: int, called: Instant, at: Instant) -> None:
        """Something was done for a call, in this queue (rule 2)."""
        self.calls += 1
        self._known.setdefault(since, at)
        dead = self._dead.get(since)
        if self._knows and dead is not None and dead < called:
            self.wrong(f"what was made in term {since} was deleted, and lives")

    def put(self, value: str, since: int) -> None:
        """It is in."""
        fate = self._fates[value]
        fate.told = True
        self._is_of(value, since)

    def _is_of(self, value: str, since: int) -> None:
        """Rule 1."""
        fate = self._fates.get(value)
        if fate is None:
            self.wrong(f"{value} was never put")
        if fate.since not in (0, since):
            self.wrong(f"{value} is of the queue of term {fate.since}, and in that of {since}")
        fate.since = since

    def got(self, values: list[str], since: int, token: int, called: Instant) -> None:
        """These came."""
        for value in values:
            self._is_of(value, since)
            acked = self._fates[value].acked
            if self._keeps and acked is not None and acked < called:
                self.wrong(f"{value} was acknowledged, and comes again")  # rule 4
        if self.partitions > 1:
            return
        term = token >> TOKEN_BITS
        later = [one for one in self._known if since < one <= term]
        others = later or self._tokens.setdefault(term, since) != since
        if self._knows and (term < since or others):
            self.wrong(f"lease {token} of term {term} is of two queues")  # rule 3

    def acking(self, values: list[str]) -> None:
        """They are about to be acknowledged."""
        for value in values:
            self._fates[value].acking = True

    def acked(self, values: list[str], at: Instant) -> None:
        """They are done, it is told."""
        for value in values:
            self._fates[value].acked = self._fates[value].acked or at

    def tried(self, at: Instant) -> None:
        """It may be deleted in part."""
        self._tried = at

    def deleted(self, called: Instant, at: Instant) -> None:
        """It is told that the queue is deleted: all are that were known before."""
        self.calls += 1
        for since, first in self._known.items():
            if first < called:
                self._dead.setdefault(since, at)

    def drained(self, since: int) -> None:
        """The last queue is empty (rule 5)."""
        left = [
            value
            for value, one in self._fates.items()
            if one.told and one.since == since and not one.acking
        ]
        if left and self._keeps and self._known.get(since, Instant(0)) > self._tried:
            self.wrong(f"{left[0]} was put into the last queue, and never came")
