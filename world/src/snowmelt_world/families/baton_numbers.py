"""What is known of one counter of a simulated world, and what of it may never be seen.

"`next(1000)` gives an interval of numbers that nobody else gets, ever", and all are larger than any
given out before, "as long as the root keeps its disk". "There may be gaps": after a loss of the
baton, and where a program that took some died, or was told of an error; else there are none.

"Numbers are given out only below a limit that is on the coordinator's disk." So where that disk is
put back, those below a limit that it has no more may come again, whenever they were given out; and
those below one that it still has may not.
"""

import msgspec

from snowmelt.client.counter.state import CounterState
from snowmelt.core.instant import Instant
from snowmelt.core.interval import Interval
from snowmelt.core.names import NodeId
from snowmelt_world.families.baton_ledger import Ledger
from snowmelt_world.world import Broken


class Taking(msgspec.Struct):
    made: int
    user: NodeId = NodeId("")
    numbers: Interval | None = None
    """What its program was given; None when it was told of an error, or of nothing."""
    limit: tuple[int, int] = (0, 0)
    """Which baton's limit they lie below."""


class Numbers:
    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        """That of its baton."""
        self._takings: dict[int, Taking] = {}
        self._saves: dict[tuple[int, int], tuple[Instant, Instant | None]] = {}
        """From when to when each limit of each baton was on its way to the disk."""

    def takes(self, fence: int, made: int) -> None:
        self._takings[fence] = Taking(made)

    def reserves(self, value: bytes, at: Instant) -> None:
        """A program begins to save a limit; it may be on the disk though nobody is told."""
        self._saves.setdefault(_limit(value), (at, None))

    def reserved(self, value: bytes, at: Instant) -> None:
        since, until = self._saves[_limit(value)]
        self._saves[_limit(value)] = since, at if until is None else until

    def told(self, user: NodeId, fence: int, numbers: Interval, value: bytes, at: Instant) -> None:
        self.ledger.calls += 1
        limit = _limit(value)
        if limit not in self._saves or numbers.stop > limit[1]:
            text = f"{user} got {numbers} of {self.ledger.name}, and no limit above it is known"
            raise Broken(text, user)
        self.reserved(value, at)
        taking = self._takings[fence]
        taking.user, taking.numbers, taking.limit = user, numbers, limit
        for other, before in self._takings.items():
            its = before.numbers
            if its is None or other == fence:
                continue
            twice = its.start < numbers.stop and numbers.start < its.stop
            if not twice and (other < fence) == (its.start < numbers.start):
                continue
            if self._undone(before) or self._undone(taking):
                continue
            if twice:
                text = f"{user} and {before.user} both got numbers of {self.ledger.name}"
                raise Broken(f"{text}: {numbers} and {its}", user)
            text = f"{user} got {numbers} of {self.ledger.name} with fence {fence}"
            raise Broken(f"{text}, and {before.user} {its} with {other}", user)

    def _undone(self, taking: Taking) -> bool:
        """Whether the limit that they lie below may have been lost with the coordinator's disk."""
        since, until = self._saves[taking.limit]
        return until is not None and self.ledger.undone(since, until)

    def judge(self) -> None:
        """Where nothing went wrong there are no gaps."""
        before: Taking | None = None
        for fence in sorted(self._takings):
            taking = self._takings[fence]
            if before is not None and before.made == taking.made:
                self._judge_gap(before, taking)
            before = taking

    def _judge_gap(self, before: Taking, after: Taking) -> None:
        if before.numbers is None or after.numbers is None:
            return
        if before.numbers.stop != after.numbers.start:
            text = f"{after.user} got {after.numbers} of {self.ledger.name}, next to"
            raise Broken(f"{text} {before.numbers} of {before.user}", after.user)


def _limit(value: bytes) -> tuple[int, int]:
    """Which limit of which baton this value tells of."""
    tally = msgspec.msgpack.decode(value, type=CounterState)
    return tally.made, tally.limit
