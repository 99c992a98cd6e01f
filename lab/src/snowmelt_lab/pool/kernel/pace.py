"""How long everything takes."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from snowmelt_lab.pool.kernel.chance import CONSTANT, EXPONENTIAL, UNIFORM
from snowmelt_lab.pool.options import PoolOptions, Times

KINDS = {Times.EXPONENTIAL: EXPONENTIAL, Times.UNIFORM: UNIFORM, Times.CONSTANT: CONSTANT}


class Pace(NamedTuple):
    """Means in ticks, and how times scatter round them; transit and process are exponential."""

    making: int
    make: NDArray[Any]
    """Of each producer."""
    using: int
    use: float
    transit: float
    process: float


def pace(options: PoolOptions) -> Pace:
    return Pace(
        making=KINDS[options.times],
        make=1 / np.array(options.rates),
        using=KINDS[options.consume_times],
        use=1 / options.consume_rate,
        transit=float(options.transit),
        process=float(options.process),
    )
