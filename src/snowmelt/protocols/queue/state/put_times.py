"""Since when items are in a queue: marks, some hundreds at most, however many items there are.

Rules:

1. A mark is a position, and when it was given by the leader's wall clock. An item is as old as the
   last mark that is not behind it, of its own priority.
2. A put makes a mark where the last of its priority is a second old, and the first put of a term
   does. So a mark may be a second older than an item.
3. Of old marks fewer are kept: neighbours are a second apart, or a thirtieth of their age.
4. A mark behind which nothing lives until the next is dropped. The last of a priority stays.
5. So an item was put at most two seconds after its mark, and a thirty-second part of its age.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from itertools import groupby
from typing import Final

import msgspec

from snowmelt.core.ahead import Number
from snowmelt.core.instant import SECOND
from snowmelt.core.interval import Interval
from snowmelt.protocols.queue.state.blocks import Living
from snowmelt.protocols.queue.state.tails import PRIORITY_BITS

KIND: Final = b"t"
SHARE: Final = 32
FEW: Final = 32
"""So many are not looked through."""
_ENCODE: Final = msgspec.msgpack.Encoder().encode
_DECODE: Final = msgspec.msgpack.Decoder(Number).decode


class PutTimes:
    """Of one queue.

    >>> from snowmelt.protocols.queue.state.batches import StoredBatch, Batches
    >>> batches, times = Batches({}), PutTimes({}, 1)
    >>> for second in range(3):
    ...     batches.add(StoredBatch(10 * second, 10 * second + 10, 30, 1))
    ...     times.mark(10 * second, second * SECOND + 7, batches.live)
    >>> times.at(9), times.at(10), times.due
    (7, 1000000007, [3000000007])
    """

    def __init__(self, changed: dict[bytes, None], priorities: int) -> None:
        self.due = [0] * (priorities or 1)
        """From when on a put of each priority makes a mark."""
        self._changed = changed
        self._starts: list[int] = []
        self._walls: list[int] = []
        self._most = FEW

    def mark(self, start: int, wall: int, live: Living) -> None:
        """What is put from this position on is put now."""
        self.due[start >> PRIORITY_BITS] = wall + SECOND
        at = bisect_left(self._starts, start)
        self._starts.insert(at, start)
        self._walls.insert(at, wall)
        self._changed[_key(start)] = None
        if len(self._starts) > self._most:
            self._thin(wall, live)

    def _thin(self, wall: int, live: Living) -> None:
        """Rules 3 and 4; they are not looked through again before they are twice as many."""
        starts: list[int] = []
        walls: list[int] = []
        marks = list(zip(self._starts, self._walls, strict=True))
        for (start, begun), (after, ended) in zip(marks, [*marks[1:], (1 << 63, 0)], strict=True):
            if _of_one(start, after):
                near = max(SECOND, (wall - ended) // SHARE)
                between = starts and _of_one(starts[-1], start) and ended - walls[-1] <= near
                if between or not live.touches(Interval(start, after)):
                    self._changed[_key(start)] = None
                    continue
            starts.append(start)
            walls.append(begun)
        self._starts, self._walls = starts, walls
        self._most = max(FEW, 2 * len(starts))

    def at(self, position: int) -> int:
        """When an item was put, about; 0 where that is not known. O(log marks)."""
        at = bisect_right(self._starts, position) - 1
        return self._walls[at] if at >= 0 and _of_one(self._starts[at], position) else 0

    def before(self, wall: int, now: int) -> Iterator[Interval]:
        """Where only items lie that were put before `wall`: of each priority those up to a mark.

        What has a mark was put before the next was made, and little later than its own (rule 5).

        >>> times = PutTimes({}, 1)
        >>> times.mark(10, 5 * SECOND, None); times.mark(20, 9 * SECOND, None)
        >>> [list(times.before(at * SECOND, at * SECOND)) for at in (4, 5, 8)]
        [[], [Interval(start=0, stop=10)], [Interval(start=0, stop=20)]]
        >>> next(times.before(12 * SECOND, 12 * SECOND)).stop == 1 << PRIORITY_BITS
        True
        """
        marks = zip(self._starts, self._walls, strict=True)
        for priority, those in groupby(marks, lambda mark: mark[0] >> PRIORITY_BITS):
            first = stop = priority << PRIORITY_BITS
            latest = 1 << 63
            for start, made in those:
                if min(latest, made) > wall:
                    break
                stop, latest = start, made + 2 * SECOND + max(0, now - made) // SHARE
            else:
                stop = stop if latest > wall else (priority + 1) << PRIORITY_BITS
            if stop > first:
                yield Interval(first, stop)

    # --- as it is written down --------------------------------------------------------------------

    def keys(self) -> Iterator[bytes]:
        return map(_key, self._starts)

    def record(self, key: bytes) -> bytes | None:
        """When a mark was made; None when it is there no more."""
        start = int.from_bytes(key[1:])
        at = bisect_left(self._starts, start)
        there = at < len(self._starts) and self._starts[at] == start
        return _ENCODE(self._walls[at]) if there else None

    def restore(self, key: bytes, value: bytes) -> None:
        """From a record; they come in the order of their keys."""
        start = int.from_bytes(key[1:])
        if self._starts and start <= self._starts[-1]:
            raise ValueError(f"position {start} has its time behind {self._starts[-1]}")
        self._starts.append(start)
        self._walls.append(_DECODE(value))


def _of_one(start: int, other: int) -> bool:
    """Whether two positions are of one priority."""
    return start >> PRIORITY_BITS == other >> PRIORITY_BITS


def _key(start: int) -> bytes:
    return KIND + start.to_bytes(8)
