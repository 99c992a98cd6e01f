"""When leases and delays end. The next leader begins the time of leases anew."""

from heapq import heapify, heappop, heappush
from typing import Final

from snowmelt.core.instant import Duration, Instant, later
from snowmelt.protocols.fifo.desk import Desk

SPARE: Final = 64
"""So many deadlines more may be kept than twice those that count."""


def delay(desk: Desk, due: int) -> int:
    """When that is due by the wall clock, and its queue is woken then; 0 where it has come."""
    moment = desk.moment(due) if due else 0
    if moment <= desk.wall:
        return 0
    desk.wake(desk.instant_of(moment))
    return moment


class Deadlines:
    """By tokens. A lease that nobody was told of has no end yet.

    >>> ends = Deadlines(Duration(10))
    >>> ends.begin(7, Instant(0)), ends.begin(8, Instant(4)), ends.begin(7, Instant(5))
    (10, 14, 15)
    >>> ends.over(Instant(14)), ends.next, ends.left(7, Instant(14))
    ([8], 15, 1)
    >>> ends.forget(7); ends.next
    """

    def __init__(self, lease: Duration) -> None:
        self._lease = lease
        self._ends: dict[int, Instant] = {}
        self._heap: list[tuple[Instant, int]] = []

    def __contains__(self, token: int) -> bool:
        return token in self._ends

    def begin(self, token: int, now: Instant) -> Instant:
        """The whole time of a lease, from now on."""
        end = self._ends[token] = later(now, self._lease)
        heappush(self._heap, (end, token))
        if len(self._heap) > 2 * len(self._ends) + SPARE:  # one was prolonged many times
            self._heap = [(end, token) for token, end in self._ends.items()]
            heapify(self._heap)
        return end

    def forget(self, token: int) -> None:
        """A lease ended before its time."""
        self._ends.pop(token, None)

    def left(self, token: int, now: Instant) -> Duration:
        """How long it lasts from now on; below 0 when it is over."""
        return Duration(self._ends[token] - now)

    def over(self, now: Instant) -> list[int]:
        """Those whose time has come to its end."""
        ended: list[int] = []
        while self._heap and self._heap[0][0] <= now:
            end, token = heappop(self._heap)
            if self._ends.get(token) == end:
                del self._ends[token]
                ended.append(token)
        return ended

    @property
    def next(self) -> Instant | None:
        """When the next one may end."""
        while self._heap and self._ends.get(self._heap[0][1]) != self._heap[0][0]:
            heappop(self._heap)
        return self._heap[0][0] if self._heap else None
