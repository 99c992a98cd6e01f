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
"""For so long after such a window it is held up: while accounts rest the system need not do it."""
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

    __slots__ = ("_costs", "_cpu", "_ends", "_held_up_until", "_resting", "clock")

    def __init__(self) -> None:
        self.clock = 0.0
        """What was heard in this window, in seconds by the clock."""
        self._costs: dict[str, float] = {}
        self._cpu = 0.0
        """What the thread had had of the processor when this window began."""
        self._ends = self._held_up_until = 0.0
        self._resting: frozenset[str] = frozenset()

    def add(self, account: str, seconds: float, now: float, owes: float = 0.0) -> None:
        """It has cost so much until now, by the clock, and owes so much for what follows."""
        self.clock += seconds
        self._costs[account] = self._costs.get(account, 0.0) + seconds + owes
        if now > self._ends:
            self._begin(now)

    def rests(self, account: str) -> bool:
        """Whether others need that it pauses."""
        return account in self._resting

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
        self._costs, self._cpu, self._ends = {}, cpu, now + WINDOW_SECONDS
        self.clock = 0.0
