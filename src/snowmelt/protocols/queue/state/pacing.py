"""How many items a second a queue gives out: `per_second` and `per_second_by_key` (`by_key.py`).

1. An item counts at the moment at which its leader leases it, by the leader's own clock, which
   never goes back. In no second that begins at any moment more are leased than the limit says, of
   all items or of one key. What is told again under the same lease does not count again; what is
   leased again does. What was chosen and did not fit its answer counts, too: so it is fewer, never
   more.
2. Who begins to lead, or leads again with other settings, does not know what the one before leased
   in its last second. So it leases nothing in its own first second.
3. Nothing of it is written down. A key that has had its share rests until its second has passed.
"""

from collections import Counter, deque
from heapq import heappop, heappush
from typing import Final

from snowmelt.core.instant import SECOND, Instant
from snowmelt.protocols.queue.api.settings import QueueSettings
from snowmelt.protocols.queue.outbox import Outbox

_NO_LIMIT: Final = 1 << 62


class Pace:
    """Of one queue, in one term.

    >>> from random import Random
    >>> outbox = Outbox("n1", Random(1)); pace = Pace(outbox, QueueSettings(per_second=2))
    >>> outbox.now = Instant(SECOND - 1); pace.room()
    0
    >>> outbox.now = Instant(SECOND)
    >>> pace.room(), pace.take(1, b"a"), pace.take(0, b""), pace.room()
    (2, True, True, 0)
    >>> outbox.now = Instant(2 * SECOND); pace.room()
    2
    """

    def __init__(self, outbox: Outbox, settings: QueueSettings) -> None:
        self._outbox = outbox
        self._all = settings.per_second_each
        self._each = settings.per_second_by_key
        self._begins = Instant(outbox.now + SECOND)
        """Nothing is leased before (rule 2)."""
        self._times: deque[Instant] = deque()
        """When each of the last second was leased."""
        self._of: dict[bytes, deque[Instant]] = {}
        """The same by keys: one may go, and come again, within a second."""
        self._swept = outbox.now
        """When keys were looked through for those that had nothing in the last second."""
        self._rest: list[tuple[Instant, int]] = []
        """When each key that rests goes on."""

    def room(self) -> int:
        """How many of all may be leased now; where it is none, the queue is woken when it is."""
        now = self._outbox.now
        if now < self._begins:
            self._outbox.wake(self._begins)
            return 0
        if not self._all:
            return _NO_LIMIT
        _drop(self._times, now)
        room = self._all - len(self._times)
        if room <= 0:
            self._outbox.wake(Instant(self._times[0] + SECOND))
        return room

    def take(self, number: int, name: bytes) -> bool:
        """One of this key is leased, if it may be; else the queue is woken when it goes on.

        Without a name it has no key. A number may be another's later, and a name is not.
        """
        now = self._outbox.now
        if self.left(number, name) <= 0:
            return False
        if self._each and name:
            self._of.setdefault(name, deque()).append(now)
            if self._swept + SECOND <= now:
                self._sweep(now)
        if self._all:
            self._times.append(now)
        return True

    def left(self, number: int, name: bytes) -> int:
        """How many of this key may be leased now; where it is none, the queue is woken."""
        times = self._of.get(name) if self._each and name else None
        if times is None:
            return self._each or _NO_LIMIT if name else _NO_LIMIT
        _drop(times, self._outbox.now)
        if len(times) >= self._each:
            until = Instant(times[0] + SECOND)
            heappush(self._rest, (until, number))
            self._outbox.wake(until)
        return self._each - len(times)

    def _sweep(self, now: Instant) -> None:
        self._swept = now
        for name in [
            one for one, times in self._of.items() if not times or times[-1] + SECOND <= now
        ]:
            del self._of[name]

    def rested(self) -> list[int]:
        """The numbers of keys that go on; the queue is woken for the next of them in any case."""
        rested: list[int] = []
        while self._rest and self._rest[0][0] <= self._outbox.now:
            rested.append(heappop(self._rest)[1])
        if self._rest:
            self._outbox.wake(self._rest[0][0])
        return rested


class LookAhead(Pace):
    """The same pace for who only looks what may be leased: by that, nothing is."""

    def __init__(self, pace: Pace) -> None:
        self._pace = pace
        self._took = Counter[bytes]()

    def room(self) -> int:
        """As it is, without what was looked at."""
        return self._pace.room() - self._took.total()

    def take(self, number: int, name: bytes) -> bool:
        """Whether it might be leased after those that were looked at."""
        if self._pace.left(number, name) <= self._took[name]:
            return False
        self._took[name] += 1
        return True

    def rested(self) -> list[int]:
        """As it is."""
        return self._pace.rested()


def pace_of(outbox: Outbox, settings: QueueSettings) -> Pace | None:
    """None where no setting asks for one."""
    limited = settings.per_second > 0 or settings.per_second_by_key > 0
    return Pace(outbox, settings) if limited else None


def _drop(times: deque[Instant], now: Instant) -> None:
    while times and times[0] + SECOND <= now:
        times.popleft()
