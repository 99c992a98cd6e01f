"""How often items were delivered in vain, and why the last time (`core/failures.py`)."""

from typing import Final

import msgspec

from snowmelt.core.failures import failed
from snowmelt.core.interval import Interval, IntervalSet
from snowmelt.core.pieces import Pieces


class Failure(msgspec.Struct, frozen=True, array_like=True):
    """How often an item was delivered in vain, and why the last time."""

    times: int
    reason: str
    dead: bool = False
    """Whether it is not delivered again."""


_NONE: Final = Failure(0, "")


def failed_again(
    failures: Pieces[Failure], where: Interval, reason: str, most: int, *, ahead: bool
) -> list[tuple[Interval, Failure]]:
    """How often each of these has failed now; after so many times it is dead."""
    known = failures.common(where)
    fresh = IntervalSet([where])
    for part, _ in known:
        fresh.remove(part)
    result: list[tuple[Interval, Failure]] = []
    for part, was in [*((part, _NONE) for part in fresh), *known]:
        times, why = failed(was.times, was.reason, reason, ahead=ahead)
        result.append((part, Failure(times, why, times >= most)))
    return result
