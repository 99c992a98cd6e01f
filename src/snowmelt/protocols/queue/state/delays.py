"""What is given later: when each delay ends, and which are over. Many begin and end in one go."""

from bisect import bisect_left, insort
from collections.abc import Sequence
from typing import Final

from snowmelt.core.interval import Interval, merged
from snowmelt.core.pieces import Pieces

WOKEN: Final = 1_024
"""So many delays end in one turn."""
SPARE: Final = 64
"""So many moments more may be kept than twice those that count."""
Dues = list[tuple[int, int, int]]
"""When what ends, the first first: a moment, a start and a stop."""


def begin(delays: Pieces[int], dues: Dues, parts: Sequence[Interval], due: int) -> None:
    """These, in order, are not given before that moment."""
    delays.put_all([(where, due) for where in parts])
    if len(parts) < SPARE:
        for one in parts:
            insort(dues, (due, one.start, one.stop))
    else:
        dues += [(due, one.start, one.stop) for one in parts]
        dues.sort()
    if len(dues) > 2 * len(delays.starts) + SPARE:  # many ended before their time
        dues[:] = sorted((due, one.start, one.stop) for one, due in delays)


def ended(delays: Pieces[int], dues: Dues, wall: int) -> list[Interval]:
    """What is over by then, in order; of very many the first, and the others next time."""
    at = min(bisect_left(dues, (wall + 1, 0, 0)), WOKEN)
    over = list[Interval]()
    for due, start, stop in dues[:at]:
        found = delays.common(Interval(start, stop))
        over += [where for where, until in found if until == due]
    del dues[:at]
    delays.clear_all(over)
    return merged(over)
