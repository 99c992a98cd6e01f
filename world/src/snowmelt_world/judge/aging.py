"""What may never be seen of a queue that keeps items for a time, and whose items are changed.

1. None ends early: what is found to have ended, and was neither acknowledged nor dropped, was put
   that long before.
2. None is given late: what comes for the first time was put, or was last with somebody, no longer
   before than the queue keeps it and `within` may go over it.
3. What nobody acknowledged and nobody dropped has aged, and `aged` counts it; what was acknowledged
   has not. So `aged` lies between the two.
4. What was dropped does not come for a call that is made after that was told.
5. What lives can be dropped, and says so.
6. Whose lease was ended by "ready" can't acknowledge by it any more, while the item lives.

Clocks of nodes that leap say nothing of ages (1, 2, 3, 5); lost disks nothing of anything.
"""

from typing import Final

import msgspec

from snowmelt.core.instant import SECOND, Duration, Instant, seconds
from snowmelt_world.check.history import NEVER, Ended, Kind, Operation, Value
from snowmelt_world.world import Broken

DROP: Final = "dropped"
READY: Final = "ready"


class Change(msgspec.Struct, frozen=True):
    """Somebody had an item be dropped, or ready."""

    value: str
    to: str
    called: Instant
    returned: Instant | None
    """None where no answer came."""
    done: bool = False
    """Whether there was anything to do."""


class Look(msgspec.Struct, frozen=True):
    """An item was looked at, or was to be dropped, and had ended."""

    value: str
    returned: Instant
    drop: Change | None = None


LEASED: Final = seconds(9)
"""So long a lease may last of which nobody was told: one of three seconds, and with two leaders."""


def within(kept: Duration) -> Duration:
    """So much later an item ends, at most (`protocols/queue/leader/retention.py`, rule 2)."""
    return Duration(kept // 10 + seconds(3))


class Aging(msgspec.Struct):
    """What was seen of one such queue."""

    queue: str
    kept: Duration
    leaps: bool
    seen: list[Operation]
    changes: list[Change] = msgspec.field(default_factory=list)
    ended: list[Look] = msgspec.field(default_factory=list)
    in_vain: list[Instant] = msgspec.field(default_factory=list)
    """When a get ended without an answer: it may have leased whatever came later."""
    aged: int | None = None
    """How many the queue says have aged, once nothing is in it any more."""

    def judge(self) -> None:
        """Raises `Broken` for what may not be."""
        self._dropped()
        self._readied()
        if not self.leaps:
            self._early()
            self._late()
            self._counted()

    def _broken(self, what: str) -> None:
        raise Broken(f"{self.queue}: {what}", self.queue)

    def _of(self, kind: Kind) -> list[Operation]:
        return [one for one in self.seen if one.kind is kind]

    def _asked(self) -> dict[Value, int]:
        """When each was first asked to end."""
        first: dict[Value, int] = {}
        for one in self._of(Kind.ACK):
            for value in one.values:
                first[value] = min(first.get(value, NEVER), one.called)
        for change in self.changes:
            if change.to == DROP:
                first[change.value] = min(first.get(change.value, NEVER), change.called)
        return first

    def _puts(self) -> dict[Value, Operation]:
        return {value: one for one in self._of(Kind.PUT) for value in one.values}

    def _early(self) -> None:
        """Rules 1 and 5: what is gone, and nobody else had end, is old."""
        puts = self._puts()
        for look in self.ended:
            if not self._asked_before(look) and look.returned < puts[look.value].called + self.kept:
                self._broken(f"{look.value} ended early")

    def _asked_before(self, look: Look) -> bool:
        """Whether somebody had asked for its end."""
        acks = [one for one in self._of(Kind.ACK) if look.value in one.values]
        drops = [one for one in self.changes if (one.value, one.to) == (look.value, DROP)]
        called = [one.called for one in acks]
        called += [one.called for one in drops if one is not look.drop]
        return any(one < look.returned for one in called)

    def _late(self) -> None:
        """Rule 2."""
        puts, came = self._puts(), set[Value]()
        for one in sorted(self._of(Kind.GET), key=lambda get: get.called):
            for value in one.values:
                put = puts[value]
                if value in came or put.returned is None:
                    continue
                came.add(value)
                end = max(put.returned + self.kept, self._with_others(value, one.called))
                if one.called > end + within(self.kept):
                    self._broken(f"{value} came {(one.called - end) / SECOND:.1f} s after its time")

    def _with_others(self, value: Value, before: int) -> int:
        """Until when it may have been leased, though nobody was told."""
        ends = [at + LEASED for at in self.in_vain if at <= before]
        ends += [
            before if one.returned is None else one.returned
            for one in self.changes
            if one.value == value and one.called < before
        ]
        return max(ends, default=0)

    def _counted(self) -> None:
        """Rule 3."""
        if self.aged is None:
            return
        asked = self._asked()
        puts = self._puts()
        sure = {value for value, one in puts.items() if one.ended is Ended.SUCCEEDED}
        least = len([value for value in sure if value not in asked])
        done = {
            value
            for one in self._of(Kind.ACK)
            if one.ended is Ended.SUCCEEDED
            for value in one.values
        }
        done |= {one.value for one in self.changes if one.to == DROP and one.done}
        most = len(puts.keys() - done)
        if not least <= self.aged <= most:
            self._broken(f"{self.aged} have aged, it says, and it is {least} to {most}")

    def _dropped(self) -> None:
        """Rule 4."""
        gone = {one.value: one.returned for one in self.changes if one.to == DROP and one.done}
        for get in self._of(Kind.GET):
            for value in map(str, get.values):
                told = gone.get(value)
                if told is not None and told < get.called:
                    self._broken(f"{value} was dropped, and comes")

    def _readied(self) -> None:
        """Rule 6."""
        for change in self.changes:
            if change.to != READY or not change.done or change.returned is None:
                continue
            tokens = {
                get.token
                for get in self._of(Kind.GET)
                if change.value in get.values and (get.returned or NEVER) < change.called
            }
            for ack in self._of(Kind.ACK):
                told = change.value in ack.values and ack.ended is Ended.SUCCEEDED
                late = told and ack.token in tokens and ack.called > change.returned
                if late and self._lives(change.value, ack):
                    self._broken(f"{change.value} was acknowledged under a lease that had ended")

    def _lives(self, value: str, ack: Operation) -> bool:
        """Whether nothing else can have ended it before this was answered."""
        if self.leaps or (ack.returned or NEVER) >= self._puts()[value].called + self.kept:
            return False
        acks = [one.called for one in self._of(Kind.ACK) if value in one.values and one is not ack]
        drops = [one.called for one in self.changes if (one.value, one.to) == (value, DROP)]
        return all(called > (ack.returned or NEVER) for called in (*acks, *drops))
