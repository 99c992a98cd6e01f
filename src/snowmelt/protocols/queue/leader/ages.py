"""How old items are: the oldest of those that wait, and what was delivered.

1. To look is O(log n) for each priority, and for each lease that was taken since the last look.
2. An age is counted from when the item got its place: by the time that lies with its body, if that
   is in memory, else by a mark (`put_times.py`).
3. What a get is told counts as delivered, whether or not it was before. Of one answer the first
   and the last item are looked at.
"""

from collections.abc import Callable, Iterator
from heapq import heapify, heappop, heappush, heapreplace
from typing import Final

import msgspec

from snowmelt.core.instant import SECOND, Instant, seconds
from snowmelt.core.interval import POSITION_MAX, Interval, IntervalSet
from snowmelt.protocols.queue.state.state import Lease, QueueState
from snowmelt.protocols.queue.state.tails import PRIORITY_BITS
from snowmelt.protocols.queue.store.bodies import Bodies

LATELY: Final = seconds(30)
SPARE: Final = 64
"""So many entries more may be kept than twice those that count."""


class DeliveryAges(msgspec.Struct):
    """How many items were, and how old they were together, by the leader's own clock.

    A get counts them here without a call, so all times are as they come.
    """

    count: int = 0
    age: int = 0
    until: int = 0
    """From then on what was counted is no news."""
    before: tuple[int, int] = (0, 0)
    """As both were when what is told as lately began, and then the next of it."""
    since: tuple[int, int] = (0, 0)

    def turn(self, now: Instant) -> None:
        """What was delivered from here on is the news."""
        self.before = self.since if now < self.until + LATELY else (self.count, self.age)
        self.since, self.until = (self.count, self.age), now + LATELY

    def mean(self, now: Instant, wall: int) -> float | None:
        """How old in seconds what was delivered lately was: in the last thirty, up to sixty."""
        if now >= self.until:
            self.turn(now)
        count, age = self.count - self.before[0], self.age - self.before[1]
        return (age / count + wall - now) / SECOND if count else None

    def total(self, now: Instant, wall: int) -> float:
        """All ages together, in seconds."""
        return max(0.0, (self.age + self.count * (wall - now)) / SECOND)


class Ages:
    """Of one queue, in one term."""

    def __init__(self, queue: str, state: QueueState, hand: Bodies) -> None:
        self._queue = queue
        self._state = state
        self._hand = hand
        self._heap: list[tuple[int, int]] = []
        """When the oldest item of each lease was put, and its token."""
        self._seen = 0
        """The last lease that was looked at."""

    def ready(self, wall: int) -> float | None:
        """How many seconds the oldest item is there that can be got now."""
        return self._age(_firsts(self._state.ready), wall)

    def delayed(self, wall: int) -> float | None:
        """The same of what is for later."""
        return self._age(_leasts(self._state.delays.following), wall)

    def leased(self, wall: int) -> float | None:
        """The same of what consumers hold."""
        leases, heap = self._state.leases, self._heap
        for token in reversed(leases):
            if token <= self._seen:
                break
            heappush(heap, (self._put_at(leases[token]), token))
        self._seen = next(reversed(leases), self._seen)
        if len(heap) > 2 * len(leases) + SPARE:
            heap[:] = [one for one in heap if one[1] in leases]
            heapify(heap)
        while heap:
            put_at, token = heap[0]
            lease = leases.get(token)
            if lease is None:
                heappop(heap)
            elif (now := self._put_at(lease)) > put_at:
                heapreplace(heap, (now, token))
            else:
                return self._age(_firsts(lease.left), wall)
        return None

    def _put_at(self, lease: Lease) -> int:
        return min([self._state.times.at(first) for first in _firsts(lease.left)], default=0)

    def _age(self, firsts: Iterator[int], wall: int) -> float | None:
        """Of the oldest of these; None where there is none, or it is not known."""
        found = min([(self._state.times.at(one), one) for one in firsts], default=None)
        if found is None:
            return None
        put_at = self._exact(found[1]) or found[0]
        return max(0, wall - put_at) / SECOND if put_at else None

    def _exact(self, position: int) -> int:
        """When it was put, if its body is at hand; what was staged has another time there."""
        for batch, _, _ in self._state.batches.over(Interval(position, position + 1)):
            segment = None if batch.shift else self._hand.of(self._queue, batch)
            return 0 if segment is None else segment.put_at
        return 0


def _firsts(some: IntervalSet) -> Iterator[int]:
    """The first of each priority.

    >>> list(_firsts(IntervalSet([Interval(3, 9), Interval(12, 13)])))
    [3]
    """
    return _leasts(lambda at: next((one.start for one in some.within(behind(at))), None))


def behind(position: int) -> Interval:
    """All from a position on."""
    return Interval(position, POSITION_MAX)


def _leasts(following: Callable[[int], int | None]) -> Iterator[int]:
    at = 0
    while at < POSITION_MAX and (first := following(at)) is not None:
        yield first
        at = ((first >> PRIORITY_BITS) + 1) << PRIORITY_BITS
