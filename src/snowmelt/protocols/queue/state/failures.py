"""How often items were delivered in vain, and why the last time (`core/failures.py`).

After too many failures an item is dead.
"""

from collections.abc import Iterable
from operator import itemgetter
from typing import Annotated, Final

import msgspec

from snowmelt.core.ahead import Count
from snowmelt.core.failures import failed
from snowmelt.core.interval import Interval, IntervalSet, without
from snowmelt.core.pieces import Pieces
from snowmelt.protocols.queue.api.calls import REASON_BYTES_MAX
from snowmelt.protocols.queue.state.batches import Batches

REASON_COST: Final = 100
"""What it takes to tell that some items failed, besides why."""


class Failure(msgspec.Struct, frozen=True, array_like=True):
    """How often an item was delivered in vain, and why the last time."""

    times: Count
    reason: Annotated[str, msgspec.Meta(max_length=REASON_BYTES_MAX)]
    dead: bool = False
    """Whether it is not delivered again."""


_NONE: Final = Failure(0, "")


def failed_again(
    failures: Pieces[Failure], some: Iterable[Interval], reason: str, most: int, *, ahead: bool
) -> list[tuple[Interval, Failure]]:
    """How often each of these has failed now, in order; after so many times it is dead."""
    result: list[tuple[Interval, Failure]] = []
    for where in some:
        known = failures.common(where)
        fresh = without([where], [part for part, _ in known])
        for part, was in sorted([*((part, _NONE) for part in fresh), *known], key=itemgetter(0)):
            times, why = failed(was.times, was.reason, reason, ahead=ahead)
            result.append((part, Failure(times, why, times >= most)))
    return result


def tellable(
    found: list[Interval], failures: Pieces[Failure], batches: Batches, room: int
) -> list[Interval]:
    """As many of these as can be told with why they failed, and one at least."""
    if not failures.starts:
        return found
    told: list[Interval] = []
    for interval in found:
        for where, failure in failures.common(interval):
            each = len(failure.reason.encode()) + REASON_COST
            for _, at, _ in batches.over(where):
                room -= each
                if room < 0 and (told or at > interval.start):
                    rest = Interval(interval.start, at)
                    return [*told, rest] if rest.size else told
        told.append(interval)
    return told


class Dead(IntervalSet):
    """Which items of a queue are, and how many bytes they have: these count in no bound.

    An item is added once.

    >>> from snowmelt.protocols.queue.state.batches import StoredBatch
    >>> batches = Batches({})
    >>> batches.add(StoredBatch(0, 3, 100, 1))
    >>> dead = Dead(batches)
    >>> dead.add(Interval(0, 2)); dead.remove(Interval(1, 9)); dead, dead.bytes
    (IntervalSet([0, 1)), 33)
    """

    def __init__(self, batches: Batches) -> None:
        super().__init__()
        self.bytes = 0
        self._batches = batches

    def add(self, interval: Interval) -> None:
        super().add(interval)
        self.bytes += self._size(interval)

    def remove(self, interval: Interval) -> None:
        self.bytes -= sum([self._size(part) for part in self.common(interval)])
        super().remove(interval)

    def _size(self, interval: Interval) -> int:
        """By the mean of each batch; the sum of its parts is the same however it is cut."""
        return sum(
            one.share(stop - one.start) - one.share(first - one.start)
            for one, first, stop in self._batches.over(interval)
        )
