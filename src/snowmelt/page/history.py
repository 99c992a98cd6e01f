"""What came in and went out of each queue, minute by minute, for the last hour.

A queue takes 480 bytes of counts, however much happens, and as many queues have their hour as a
cluster may have. One that is not there any more loses it.
"""

from array import array
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

MINUTES: Final = 60
QUEUES_MAX: Final = 10_000
UNKNOWN: Final = -1
MOST: Final = 2**31 - 1


class QueueTotals(msgspec.Struct, frozen=True, array_like=True):
    """How many items ever came into a queue, and were given out."""

    queue: str
    put: int
    delivered: int


class QueueHour(msgspec.Struct, frozen=True, array_like=True):
    """Of one queue, the oldest minute first; `UNKNOWN` of one in which it was not looked at."""

    queue: str
    came: list[int]
    went: list[int]


class _Ring:
    __slots__ = ("came", "last", "went")

    def __init__(self) -> None:
        self.came = array("i", [UNKNOWN] * MINUTES)
        self.went = array("i", [UNKNOWN] * MINUTES)
        self.last: QueueTotals | None = None


class History:
    """Of all queues.

    >>> history = History()
    >>> for put in (10, 15, 75):
    ...     history.add([QueueTotals("orders", put, put)])
    >>> one, = history.hours(last=3)
    >>> one.came, history.minute
    ([-1, 5, 60], 3)
    """

    def __init__(self) -> None:
        self.minute = 0
        """The number of the last minute that was added; they count from 1."""
        self._rings: dict[str, _Ring] = {}

    def add(self, counted: Iterable[QueueTotals]) -> None:
        """A minute is over; so many there are by now. A queue that is not named is gone."""
        rings: dict[str, _Ring] = {}
        self.minute += 1
        at = self.minute % MINUTES
        for one in counted:
            if len(rings) == QUEUES_MAX:
                break
            ring = rings[one.queue] = self._rings.get(one.queue) or _Ring()
            ring.came[at], ring.went[at] = _between(ring.last, one)
            ring.last = one
        self._rings = rings

    def miss(self) -> None:
        """A minute is over, and nobody could be asked."""
        self.minute += 1
        at = self.minute % MINUTES
        for ring in self._rings.values():
            ring.came[at] = ring.went[at] = UNKNOWN
            ring.last = None

    def hours(self, last: int = MINUTES) -> Iterator[QueueHour]:
        """Of each queue the last minutes."""
        places = [(self.minute + one + 1) % MINUTES for one in range(MINUTES - last, MINUTES)]
        for name, ring in self._rings.items():
            came, went = ring.came, ring.went
            yield QueueHour(name, [came[at] for at in places], [went[at] for at in places])


def _between(before: QueueTotals | None, now: QueueTotals) -> tuple[int, int]:
    """What came and went; another queue of the name, or one that lost some, has none yet."""
    if before is None or now.put < before.put or now.delivered < before.delivered:
        return UNKNOWN, UNKNOWN
    return min(now.put - before.put, MOST), min(now.delivered - before.delivered, MOST)
