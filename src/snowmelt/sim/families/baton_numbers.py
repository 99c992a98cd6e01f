"""What is known of one counter of a simulated world, and what of it may never be seen.

"`next(1000)` gives an interval of numbers that nobody else gets, ever", and all are larger than any
given out before, "as long as the root keeps its disk". "There may be gaps": after a loss of the
baton, and where a program that took some died, or was told of an error; else there are none.
"""

import msgspec

from snowmelt.core.instant import Instant
from snowmelt.core.interval import Interval
from snowmelt.core.names import NodeId
from snowmelt.sim.families.baton_ledger import Ledger
from snowmelt.sim.world import Broken


class Taking(msgspec.Struct):
    """One hold in which numbers were taken."""

    made: int
    user: NodeId = NodeId("")
    numbers: Interval | None = None
    """What its program was given; None when it was told of an error, or of nothing."""
    at: Instant = Instant(0)


class Numbers:
    """The history of one counter."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        """That of its baton."""
        self._takings: dict[int, Taking] = {}
        self._given = 0

    def takes(self, fence: int, made: int) -> None:
        """A program begins to take some."""
        self._takings[fence] = Taking(made)

    def told(self, user: NodeId, fence: int, numbers: Interval, at: Instant) -> None:
        """A program was given these."""
        self.ledger.calls += 1
        taking = self._takings[fence]
        taking.user, taking.numbers, taking.at = user, numbers, at
        for other, before in self._takings.items():
            its = before.numbers
            if its is None or other == fence or self.ledger.undone(before.at, before.at):
                continue
            if its.start < numbers.stop and numbers.start < its.stop:
                text = f"{user} and {before.user} both got numbers of {self.ledger.name}"
                raise Broken(f"{text}: {numbers} and {its}", user)
            if (other < fence) != (its.start < numbers.start):
                text = f"{user} got {numbers} of {self.ledger.name} with fence {fence}"
                raise Broken(f"{text}, and {before.user} {its} with {other}", user)

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
