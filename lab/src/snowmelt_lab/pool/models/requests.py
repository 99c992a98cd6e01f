"""What becomes of a request: equations 7 and 8, and how long all its messages take."""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from snowmelt_lab.pool.models.chain import LEAST, Array
from snowmelt_lab.pool.options import PoolOptions

SURE: Final = 1e-9
"""To so much of themselves equations have to hold."""

IDLE_LEAST: Final = 1e-9
"""Where more probes come than a producer can deal with, they take for ever."""


@dataclass(frozen=True)
class Requests:
    """Requests that find a producer empty with the chance `empty`, one entry a kind of consumer."""

    empty: Array
    """q."""
    hops: Array
    """h = 1 + q + … + q^(h_max - 1): equation 7."""
    blocks: Array
    """p_b = q^(h_max - 1) / h: equation 8."""

    @property
    def in_line(self) -> Array:
        """The chance that a request waits in line: q^h_max."""
        return self.empty * self.blocks * self.hops


def requests(empty: Array, max_hops: int) -> Requests:
    """How they fare.

    >>> fared = requests(np.array([0.5]), 3)
    >>> float(fared.hops[0]), float(fared.in_line[0])
    (1.75, 0.125)
    """
    with np.errstate(under="ignore"):
        powers = empty[:, None] ** np.arange(max_hops)
    hops = powers.sum(axis=1)
    return Requests(empty, hops, np.maximum(powers[:, -1] / hops, LEAST))


def hop_times(options: PoolOptions, asked: Array) -> Array:
    """What a probe takes: its way, and until a producer to which so many come has dealt with it.

    A producer deals with one probe after the other and needs d for each, which is a queue with
    random arrivals and one server: r + d / (1 - a d).

    >>> hop_times(PoolOptions(transit=1.0, process=2.0), np.array([0.25])).tolist()
    [5.0]
    """
    idle = np.maximum(1 - asked * options.process, IDLE_LEAST)
    return options.transit + options.process / idle


def agree(one: float, other: float) -> bool:
    """Whether two numbers are the same, to a billionth."""
    return math.isclose(one, other, rel_tol=SURE)
