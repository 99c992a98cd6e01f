"""Confidence intervals for what depends on itself: batch means.

Theory of operation
-------------------
How long one request waits says something of the next one's wait, for both met the same pool. So a
run is cut into batches, each many times longer than the pool remembers; their means are as good as
independent, and scatter as the mean of the whole does, but more.

1. *Batches grow.* A run has 20 to 40 of them at any time: when there are 40, neighbours are joined,
   and those that follow are twice as long. So however long the memory is, a run that goes on has
   batches longer than it some day.
2. *Neighbours are compared.* If means depend on each other, neighbours differ by less than any two
   do (von Neumann's ratio). A run ends early only when that can't be seen.
3. *What can be seen is paid for.* A run that ends because it has as many objects as were asked for
   joins batches until nothing is seen, or few are left; and the interval is widened by as much as
   a dependence of neighbours would make it too narrow.
"""

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Final

MOST: Final = 40
LEAST: Final = 10
"""With fewer batches there is no interval."""
SIZE_LEAST: Final = 10
"""With shorter ones neither."""
NORMAL: Final = 1.959964
"""The 97.5 % point of the normal distribution."""
DEPENDENT_MOST: Final = 0.9
"""More than that is taken for so much: there is no telling how much more it is."""

Row = Sequence[float]


class Batches:
    """A run's batches, each a row of sums over equally many objects.

    >>> batches = Batches(100)
    >>> for _ in range(41):
    ...     batches.add([1.0])
    >>> batches.size, len(batches.rows), batches.rows[0], batches.rows[-1]
    (200, 21, [2.0], [1.0])
    """

    def __init__(self, size: int) -> None:
        self.size = size
        """Objects of the next batch."""
        self.rows: list[list[float]] = []

    def add(self, row: Row) -> None:
        if len(self.rows) == MOST:
            self.rows = joined(self.rows)
            self.size *= 2
        self.rows.append(list(row))

    def interval(self, measure: Callable[[Row], float]) -> float | None:
        """Half the width of a measure's interval."""
        if self.size < SIZE_LEAST:
            return None
        return half_width([measure(row) for row in self.rows])

    def narrow(self, measure: Callable[[Row], float], share: float) -> bool:
        """Whether half the width is no more than this share of the mean, and to be believed."""
        if 2 * len(self.rows) < MOST:
            return False
        means = [measure(row) for row in self.rows]
        half = half_width(means)
        if half is None or dependence(means) > _by_chance(len(means)):
            return False
        return half <= share * abs(sum(means)) / len(means)


def joined(rows: list[list[float]]) -> list[list[float]]:
    """Each two neighbours as one."""
    pairs = zip(rows[::2], rows[1::2], strict=True)
    return [[one + other for one, other in zip(*pair, strict=True)] for pair in pairs]


def dependence(means: Sequence[float]) -> float:
    """How much neighbours are alike: 0 when they are independent, 1 when they are the same.

    >>> dependence([1, 2, 3, 4, 5, 6, 7, 8]) > 0.8, dependence([1, 2] * 10) < 0
    (True, True)
    """
    middle = sum(means) / len(means)
    scatter = sum((one - middle) ** 2 for one in means)
    if not scatter > 0:
        return 0.0
    steps = sum((after - one) ** 2 for one, after in pairwise(means))
    return 1 - steps / (2 * scatter) * len(means) / (len(means) - 1)


def half_width(means: Sequence[float]) -> float | None:
    """Half the width of the mean's 95 % interval; `None` when there are too few of them.

    >>> round(half_width([1.0, -1.0] * 10), 3)
    0.48
    """
    if len(means) < LEAST:
        return None
    while len(means) >= 2 * LEAST and dependence(means) > _by_chance(len(means)):
        means = [sum(pair) / 2 for pair in zip(means[::2], means[1::2], strict=False)]
    count = len(means)
    middle = sum(means) / count
    variance = sum((one - middle) ** 2 for one in means) / (count - 1)
    alike = min(max(0.0, dependence(means)), DEPENDENT_MOST)
    wider = (1 + alike) / (1 - alike)
    return student(count - 1) * math.sqrt(variance / count * wider)


def student(freedom: int) -> float:
    """The 97.5 % point of Student's t, from that of the normal distribution (Fisher's series).

    >>> round(student(9), 2), round(student(39), 3)
    (2.26, 2.023)
    """
    z = NORMAL
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    return z + first / freedom + second / freedom**2


def _by_chance(count: int) -> float:
    """What independent means exceed in one of six cases."""
    return 1 / math.sqrt(count)
