"""When leases and delays end. The next leader begins the time of leases anew."""

from heapq import heapify, heappop, heappush
from typing import Final, Generic, TypeVar

from snowmelt.core.instant import Duration, Instant, later
from snowmelt.core.names import OperationId
from snowmelt.protocols.queue.outbox import Outbox

AS_ALL: Final = Duration(0)
"""In place of how long a lease lasts: as long as the queue's do."""
SPARE: Final = 64
"""So many deadlines more may be kept than twice those that count."""


def delay(outbox: Outbox, due: int) -> int:
    """When that is due by the wall clock, and its queue is woken then; 0 where it has come."""
    moment = outbox.moment(due) if due else 0
    if moment <= outbox.wall:
        return 0
    outbox.wake(outbox.instant_of(moment))
    return moment


K = TypeVar("K", int, tuple[str, int], OperationId)


class Ends(Generic[K]):
    """By names: none looks at all of them."""

    def __init__(self) -> None:
        self._ends: dict[K, Instant] = {}
        self._heap: list[tuple[Instant, K]] = []

    def __contains__(self, name: K) -> bool:
        return name in self._ends

    def put(self, name: K, end: Instant) -> None:
        """It ends then, whatever was said before."""
        self._ends[name] = end
        heappush(self._heap, (end, name))
        many = len(self._heap) > SPARE
        if many and len(self._heap) > 2 * len(self._ends) + SPARE:  # one was prolonged many times
            self._heap = [(end, name) for name, end in self._ends.items()]
            heapify(self._heap)

    def forget(self, name: K) -> None:
        """It ended before its time."""
        self._ends.pop(name, None)

    def over(self, now: Instant) -> list[K]:
        """Those whose time has come to its end."""
        ended: list[K] = []
        while self._heap and self._heap[0][0] <= now:
            end, name = heappop(self._heap)
            if self._ends.get(name) == end:
                del self._ends[name]
                ended.append(name)
        return ended

    @property
    def next(self) -> Instant | None:
        """When the next one may end."""
        while self._heap and self._ends.get(self._heap[0][1]) != self._heap[0][0]:
            heappop(self._heap)
        return self._heap[0][0] if self._heap else None


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
