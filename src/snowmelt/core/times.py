"""When items were put: one number a stored batch, told to whoever reads them.

1. The time is that of the queue's leader, by its wall clock, in the turn in which a put gets its
   place. Not the producer's: there are many, and nobody looks after their clocks.
2. It is written down with the bodies. So every copy has the same number, and
   neither a lease, nor a return to the queue, nor a takeover touches it.
3. In one run of one node it never goes back: the wall clock is looked at once, when the node
   begins, and goes on with the steady one. Between nodes it differs as their clocks do. What was
   staged has the time of when it came, not that of its place.
4. Items that were put before this was written down have none: 0 here, nothing for people.
5. To readers it goes as runs of items of one time, sixteen bytes for each stored batch: less than
   what an answer has room for beside a batch, however many are joined.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import accumulate
from struct import Struct, pack
from typing import Annotated, Final

import msgspec

TIME_MAX: Final = 2**63 - 1
Time = Annotated[int, msgspec.Meta(ge=0, le=TIME_MAX)]
"""Nanoseconds since 1970; 0 for unknown."""
RUN: Final = Struct("<qq")
"""How many items, and when they were put."""

whole: Final = RUN.pack
"""So many items that were put together."""


def pairs(row: Sequence[int]) -> bytes:
    """Of several that were put together: how many, and when; and so on.

    >>> pairs([2, 70, 1, 80]) == whole(2, 70) + whole(1, 80)
    True
    """
    return pack(f"<{len(row)}q", *row)


def runs(times: bytes) -> Iterator[tuple[int, int]]:
    """How many items, and when they were put; nothing for bytes that are no runs."""
    return RUN.iter_unpack(times) if len(times) % RUN.size == 0 else iter(())


def ends(times: bytes) -> tuple[int, int, int]:
    """Of how many items they are, and when the first and the last were put. O(runs).

    >>> ends(whole(2, 70) + whole(1, 80))
    (3, 70, 80)
    """
    known = list(runs(times))
    return sum([count for count, _ in known]), known[0][1], known[-1][1]


def at(times: bytes, index: int) -> int:
    """When one of the items was put. O(log runs), after one look at all of them.

    >>> times = whole(2, 70) + whole(1, 80)
    >>> at(times, 1), at(times, 2), at(b"", 0)
    (70, 80, 0)
    """
    stops, known = _unpacked(times)
    place = bisect_right(stops, index)
    return known[place] if place < len(known) else 0


def sliced(times: bytes, first: int, stop: int) -> bytes:
    """Those of some of the items. O(log runs), and the bytes of the answer.

    >>> list(runs(sliced(whole(2, 70) + whole(3, 80), 1, 4)))
    [(1, 70), (2, 80)]
    """
    stops, known = _unpacked(times)
    low, high = bisect_right(stops, first), bisect_left(stops, stop)
    if first >= stop or high >= len(known):
        return b""
    if low == high:
        return whole(stop - first, known[low])
    between = times[(low + 1) * RUN.size : high * RUN.size]
    head = whole(stops[low] - first, known[low])
    return b"".join((head, between, whole(stop - stops[high - 1], known[high])))


# Items of a part ask one by one, and many callers are dealt what came in one.
@lru_cache(maxsize=16)
def _unpacked(times: bytes) -> tuple[list[int], list[int]]:
    """Behind how many items each run ends, and when they were put."""
    pairs = list(runs(times))
    return list(accumulate([count for count, _ in pairs])), [time for _, time in pairs]


def chained(rows: Iterable[tuple[int, bytes]]) -> bytes:
    """Those of several rows of items, each with how many it has.

    >>> list(runs(chained([(2, b""), (3, whole(3, 80))]))), chained([(2, b"")])
    ([(2, 0), (3, 80)], b'')
    """
    rows = list(rows)
    if not any(times for _, times in rows):
        return b""
    return b"".join([times or whole(count, 0) for count, times in rows])
