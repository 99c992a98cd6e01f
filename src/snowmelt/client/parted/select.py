"""The item of a rank in several sorted rows, which are asked for one item by its rank at a time.

Each row has a stretch in which the item may lie. The middles of all stretches are sorted. Of a row
whose middle has so many items behind it, or before it, that the rank can't be there, a half is left
out. Only of a row that lost a half the middle is asked anew: so it takes as many questions as rows,
for each bit of their lengths.
"""

from collections.abc import Callable, Sequence
from decimal import ROUND_CEILING, Decimal
from typing import Any, TypeVar

from snowmelt.client.connection.steps import Steps
from snowmelt.protocols.queue.api.calls import Select

T = TypeVar("T")


def selected(
    ready: Sequence[int],
    ask: Select,
    nth: Callable[[int, int], Steps[T | None]],
    place: Callable[[T], Any],
) -> Steps[T | None]:
    """The item that is asked for; None when there are fewer.

    `nth` is the item of a row by its rank there, from 1 on; `place` is what orders them.
    """
    rank = ask.rank or share_rank(ask.share, sum(ready))
    low, high = [0] * len(ready), [min(rank, one) for one in ready]
    middles: dict[int, T] = {}
    while True:
        for row in [row for row in range(len(ready)) if row not in middles]:
            while low[row] < high[row]:
                found = yield from nth(row, _middle(low[row], high[row]) + 1)
                if found is not None:
                    middles[row] = found
                    break
                high[row] = _middle(low[row], high[row])  # it became shorter meanwhile
        rows = sorted(middles, key=lambda row: place(middles[row]))
        left = rank - sum(low)
        total = sum(high[row] - low[row] for row in rows)
        if not 1 <= left <= total:
            return None
        if total == 1:
            return middles[rows[0]]
        for row in _halved(rows, low, high, left, total):
            del middles[row]


def share_rank(share: float, total: int) -> int:
    """Of so large a part of so many it is the last, or it is the first (as `queue/keyed.py`).

    >>> share_rank(0.07, 100), share_rank(0.0, 100), share_rank(1.0, 100)
    (7, 1, 100)
    """
    part = Decimal(repr(float(share))) * total
    return max(1, int(part.to_integral_value(ROUND_CEILING)))


def _middle(low: int, high: int) -> int:
    return (low + high) // 2


def _halved(
    rows: Sequence[int], low: list[int], high: list[int], left: int, total: int
) -> set[int]:
    """Leaves out what can't be it; in which rows another item is the middle now."""
    lows, highs = list(low), list(high)
    behind, before, changed = 0, 0, set[int]()
    for row in reversed(rows):
        middle = _middle(lows[row], highs[row])
        behind += highs[row] - middle  # the middle, and all that is known to be behind it
        if left > total - behind + 1:
            low[row] = middle + 1
        elif left > total - behind:
            low[row] = middle
        if low[row] != lows[row]:
            changed.add(row)
    for row in rows:
        middle = _middle(lows[row], highs[row])
        before += middle - lows[row] + 1  # the same, before it
        if left < before:
            high[row] = middle
        elif left == before:
            high[row] = middle + 1
        if high[row] != highs[row]:
            changed.add(row)
        high[row] = max(low[row], high[row])
    assert changed, "a half of some row can always be left out"
    return changed
