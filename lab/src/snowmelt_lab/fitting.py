"""What grows with the number of nodes: the sizes it is measured at, and the line that fits."""

from collections.abc import Sequence
from math import log2
from statistics import fmean
from typing import Final

import msgspec

from snowmelt.core.errors import BadOption

SIZES: Final = (10, 32, 100, 316, 1_000, 3_162, 10_000, 31_623, 100_000)
SIZES_MIN: Final = 3
SALTS: Final = 5
"""One overlay of a size says little: heights differ by a third from salt to salt."""


def sizes_up_to(nodes: int) -> list[int]:
    """Two a decade, enough for a line.

    >>> sizes_up_to(500)
    [10, 32, 100, 316]
    """
    found = [size for size in SIZES if size <= nodes]
    if len(found) < SIZES_MIN:
        raise BadOption("--nodes", nodes, "100 or more, for a curve")
    return found


class Fit(msgspec.Struct, frozen=True):
    """Values as a + b log2 n, with what is left over at each size."""

    start: float
    per_doubling: float
    residuals: tuple[float, ...]

    @property
    def worst(self) -> float:
        """How far off it is at most."""
        return max(map(abs, self.residuals))


def fitted(sizes: Sequence[int], values: Sequence[float]) -> Fit:
    """The best straight line against the logarithm.

    >>> fitted([2, 4, 8], [3.0, 5.0, 7.0])
    Fit(start=1.0, per_doubling=2.0, residuals=(0.0, 0.0, 0.0))
    """
    logs = [log2(size) for size in sizes]
    middle, mean = fmean(logs), fmean(values)
    pairs = [(log - middle, value - mean) for log, value in zip(logs, values, strict=True)]
    slope = sum(log * value for log, value in pairs) / sum(log * log for log, _ in pairs)
    start = mean - slope * middle
    left = [value - start - slope * log for log, value in zip(logs, values, strict=True)]
    return Fit(round(start, 2), round(slope, 2), tuple(round(one, 2) + 0.0 for one in left))
