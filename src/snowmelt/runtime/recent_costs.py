"""What accounts have cost lately, and whether the system holds this process up.

Where a process has a bound to its processor time, one account that uses all of it costs the others
more than their turns: the system makes the process wait for the rest of its period, whoever asks.
On a machine that is busy with other programs it is the same. Both are seen by two clocks: what
was heard, also of nodes, took much more by the clock on the wall than the thread had of the
processor.
"""

from time import thread_time
from typing import Final

WINDOW_SECONDS: Final = 0.1
HELD_UP_FACTOR: Final = 1.25
HELD_UP_SECONDS: Final = 2.0
"""For so long after such a window it is held up: while accounts rest the system need not do it. And
for so long whoever asked counts as one of several: who rests may be quiet for a window."""
LITTLE: Final = WINDOW_SECONDS / 5
"""Who has cost no more in a window has cost little."""


class RecentCosts:
    """By windows: what the last one had says who rests in this one.

    >>> costs = RecentCosts()
    >>> for now in (5.0, 5.09, 5.11):
    ...     costs.add("flood", 0.08, now - 0.01); costs.add("shop", 0.01, now)
    >>> costs.rests("flood"), costs.rests("shop")
    (True, False)
    """

    __slots__ = (
        "_asked",
        "_costs",
        "_cpu",
        "_debts",
        "_ends",
        "_held_up_until",
        "_resting",
        "clock",
    )

    def __init__(self) -> None:
        self.clock = 0.0
        """What was heard in this window, in seconds by the clock."""
        self._costs: dict[str, float] = {}
        self._asked: dict[str, float] = {}
        """When each of them asked last."""
        self._debts: dict[str, float] = {}
        """What each owes for what follows; half of it counts in the next window."""
        self._cpu = 0.0
        """What the thread had had of the processor when this window began."""
        self._ends = self._held_up_until = 0.0
        self._resting: frozenset[str] = frozenset()

    def add(self, account: str, seconds: float, now: float, owes: float = 0.0) -> None:
        """It has cost so much until now, by the clock, and owes so much for what follows."""
        self.clock += seconds
        self._costs[account] = self._costs.get(account, 0.0) + seconds + owes
        self._asked[account] = now
        if owes:
            self._debts[account] = self._debts.get(account, 0.0) + owes
        if now > self._ends:
            self._begin(now)

    def rests(self, account: str) -> bool:
        """Whether others need that it pauses: who owes a window, whether they ask in it or not."""
        if account in self._resting:
            return True
        owes = self._debts.get(account, 0.0) > WINDOW_SECONDS and len(self._asked) > 1
        return owes and self._asked[account] < self._held_up_until

    def _begin(self, now: float) -> None:
        """Another window."""
        cpu, costs = thread_time(), self._costs
        if self.clock > HELD_UP_FACTOR * (cpu - self._cpu):
            self._held_up_until = now + HELD_UP_SECONDS
        self._resting = frozenset()
        if now < self._held_up_until and now < self._ends + WINDOW_SECONDS:
            equal = sum(costs.values()) / len(costs)
            most = (one for one, cost in costs.items() if cost > max(equal, LITTLE))
            self._resting = frozenset(most)
        since = now - HELD_UP_SECONDS
        self._asked = {one: at for one, at in self._asked.items() if at > since}
        self._debts = {one: owes / 2 for one, owes in self._debts.items() if one in self._asked}
        self._costs, self._cpu, self._ends = {}, cpu, now + WINDOW_SECONDS
        self.clock = 0.0
