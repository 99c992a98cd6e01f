"""What a loop over a queue decides, the same for both faces: how many to take, and when to end.

How many. Without a `prefetch` of its own a loop takes what it works off in a moment. That is one
item at first, then as many as were settled in a fifth of a second, at most four times as many as
before. What takes long is taken one by one, and the rest is there for others; what is done at once
is taken a thousand at a time. An item is worked off when it is acknowledged or given back, so a
loop that only hands its items on learns from those who do the work.

What comes first, where something put later may be more urgent: see `urgent_check.py`.

How long. A loop that waits for ever goes on through whatever may end: masters that die, nodes that
start again. One with a time-out ends with the failure when that lasted until then. A cluster that
was never reached is not waited for.
"""

import logging
from typing import Final

from snowmelt.client.connection.session import checked
from snowmelt.client.connection.waits import EARLY
from snowmelt.client.leases.steps import ITEMS_HIGHEST, checked_count
from snowmelt.core.errors import Closed, OutcomeUnknown, SnowmeltError, Unavailable, Unreachable
from snowmelt.core.instant import Instant, later, milliseconds, seconds
from snowmelt.runtime.clock import seconds_until, steady_now
from snowmelt.runtime.logs import tell

POLL_SECONDS: Final = 20.0
"""How long one get of an endless loop waits, as the time of a call is bounded."""
MOMENT: Final = milliseconds(200)
AT_ONCE: Final = 1000
FASTER: Final = 4
WAITED: Final = milliseconds(100)
"""Who waited so long for items has learnt nothing of how long the work takes."""
PAUSE: Final = 0.2

PASSING: Final = (OutcomeUnknown, Unavailable, Unreachable)
"""Failures that may end by themselves."""


class PrefetchSize:
    """How many items a loop takes at once.

    >>> pace = PrefetchSize(None)
    >>> pace.came(Instant(0), Instant(0), 0)
    >>> pace.next(Instant(milliseconds(10)), 1), pace.next(Instant(milliseconds(20)), 5)
    (4, 16)
    >>> pace.next(Instant(milliseconds(900)), 6)
    1
    """

    def __init__(self, prefetch: int | None) -> None:
        self._learns = prefetch is None
        self.size = 1 if prefetch is None else prefetch
        self._since: Instant | None = None
        self._settled = 0

    def next(self, now: Instant, settled: int) -> int:
        """How many to ask for, when so many were settled in all."""
        done = settled - self._settled
        if self._learns and done and self._since is not None:
            worked = done * MOMENT // max(1, now - self._since)
            self.size = max(1, min(worked, FASTER * self.size, AT_ONCE))
            self._since, self._settled = now, settled
        return self.size

    def came(self, asked: Instant, now: Instant, settled: int) -> None:
        if self._since is None or now - asked > WAITED:
            self._since, self._settled = now, settled


class LoopDeadline:
    """For how long a loop asks for its next item, whatever fails meanwhile."""

    def __init__(self, queue: str, timeout: float | None, reach: float = 0.0) -> None:
        self._queue = queue
        self._reach = later(steady_now(), seconds(reach))
        """Until then somebody may be reached for the first time."""
        self._timeout = None if timeout is None else max(0.0, checked(timeout))
        self._end: Instant | None = None
        self.reached = False
        """Whether anybody ever was there."""
        self._failing = False

    def begin(self) -> None:
        if self._timeout is not None:
            self._end = later(steady_now(), seconds(self._timeout))

    @property
    def left(self) -> float:
        return POLL_SECONDS if self._end is None else min(POLL_SECONDS, seconds_until(self._end))

    def over(self) -> bool:
        """A get brought nothing: whether that was all."""
        self.answered()
        return self._end is not None and steady_now() + EARLY >= self._end

    def answered(self) -> None:
        self.reached, self._failing = True, False

    def failed(self, error: SnowmeltError) -> float:
        """A get failed; for how long to pause, or it is raised."""
        if isinstance(error, Closed):
            raise error
        if self._end is not None:
            if steady_now() >= self._end:
                raise error
            return min(PAUSE, seconds_until(self._end))
        if not isinstance(error, Unreachable):  # else somebody was there, though silent since
            self.reached = True
        elif not self.reached and steady_now() >= self._reach:
            raise error
        if not self._failing:  # said once, for it may last
            tell("a loop waits", logging.WARNING, queue=self._queue, reason=str(error))
        self._failing = True
        return PAUSE


def checked_prefetch(prefetch: int | None) -> int | None:
    if prefetch is not None:
        checked_count("prefetch", prefetch, ITEMS_HIGHEST)
    return prefetch
