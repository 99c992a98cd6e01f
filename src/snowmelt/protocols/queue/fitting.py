"""What fits one answer: it must fit a frame, or nobody gets it."""

from typing import Final

from snowmelt.core.interval import Interval
from snowmelt.core.pieces import Pieces
from snowmelt.protocols.queue.batches import Batches
from snowmelt.protocols.queue.calls import Part
from snowmelt.protocols.queue.failures import Failure

REASON_COST: Final = 100
"""What it takes to tell that some items failed, besides why."""


def tellable(
    found: list[Interval], failures: Pieces[Failure], batches: Batches, room: int
) -> list[Interval]:
    """As many of these as can be told with why they failed, and one at least."""
    if not failures.count:
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


def fitting(parts: list[Part], most: int) -> list[Part]:
    """As many of these as fit so many bytes, and the first.

    >>> some = [Part(at, bytes(8), b"body") for at in range(3)]
    >>> [part.start for part in fitting(some, 25)], len(fitting(some, 1))
    ([0, 1], 1)
    """
    size = 0
    for at, part in enumerate(parts):
        size += len(part.blob) + len(part.headers) + len(part.offsets)
        if size > most and at:
            return parts[:at]
    return parts
