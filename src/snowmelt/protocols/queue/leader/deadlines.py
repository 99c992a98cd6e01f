"""When leases and delays end. The next leader begins the time of leases anew."""

from typing import Final

from snowmelt.core.ends import Ends
from snowmelt.core.instant import Duration, Instant, later
from snowmelt.protocols.queue.outbox import Outbox

AS_ALL: Final = Duration(0)
"""In place of how long a lease lasts: as long as the queue's do."""


def delay(outbox: Outbox, due: int) -> int:
    """When that is due by the wall clock, and its queue is woken then; 0 where it has come."""
    moment = outbox.moment(due) if due else 0
    if moment <= outbox.wall:
        return 0
    outbox.wake(outbox.instant_of(moment))
    return moment


class Deadlines(Ends[int]):
    """By tokens. A lease that nobody was told of has no end yet.

    >>> ends = Deadlines(Duration(10))
    >>> ends.begin(7, Instant(0)), ends.begin(8, Instant(4)), ends.begin(7, Instant(5))
    (10, 14, 15)
    >>> ends.over(Instant(14)), ends.next, ends.left(7, Instant(14))
    ([8], 15, 1)
    >>> ends.forget(7); ends.next
    """

    def __init__(self, lease: Duration) -> None:
        super().__init__()
        self._lease = lease
        self._began: dict[int, Instant] = {}
        """When each was told first, in this term."""

    def begin(self, token: int, now: Instant, length: Duration = AS_ALL) -> Instant:
        """The whole time of a lease, from now on; of one of before, what it was given for."""
        end = later(now, length or self._lease)
        if token not in self._ends:
            self._began[token] = now
        self.put(token, end)
        return end

    def forget(self, name: int) -> None:
        """It ended before its time."""
        if name in self._ends:
            del self._ends[name]
            del self._began[name]

    def over(self, now: Instant) -> list[int]:
        """Those whose time has come to its end."""
        ended = super().over(now)
        for token in ended:
            del self._began[token]
        return ended

    def held(self, token: int, now: Instant) -> Duration:
        """How long ago it began; 0 for one that nobody was told of."""
        return Duration(now - self._began.get(token, now))

    def left(self, token: int, now: Instant) -> Duration:
        """How long it lasts from now on; below 0 when it is over."""
        return Duration(self._ends[token] - now)
