"""Lines to stand in: rings of a fixed size, each who waits in it a number."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from snowmelt_lab.pool.kernel.compiled import compiled


class Line(NamedTuple):
    """First come, first served."""

    ring: NDArray[Any]
    ends: NDArray[Any]
    """How many have left, and how many have come."""


def line(places: int) -> Line:
    return Line(np.zeros(places, np.int64), np.zeros(2, np.int64))


@compiled
def waiting(line: Line) -> int:
    there: int = line.ends[1] - line.ends[0]
    return there


@compiled
def join(line: Line, one: int) -> None:
    line.ring[line.ends[1] % len(line.ring)] = one
    line.ends[1] += 1


@compiled
def first(line: Line) -> int:
    one: int = line.ring[line.ends[0] % len(line.ring)]
    line.ends[0] += 1
    return one
