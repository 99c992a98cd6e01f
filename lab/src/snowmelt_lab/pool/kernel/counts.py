"""What a run counts: one row of numbers, so that rows of neighbouring batches can be added up."""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from snowmelt_lab.pool.kernel.compiled import compiled

OBJECTS: Final = 0
HOPS: Final = 1
"""Probes of the requests that were answered."""
PROBES: Final = 2
EMPTY: Final = 3
"""Probes that found nothing."""
LINED: Final = 4
"""Requests that waited in line."""
WAIT: Final = 5
USE: Final = 6
TIME: Final = 7
HELD_UP: Final = 8
"""Time of all producers together."""
MESSAGES: Final = 9
"""From here on: messages, a number for each kind."""
KINDS_MAX: Final = 5
WIDTH: Final = MESSAGES + KINDS_MAX


def row() -> NDArray[Any]:
    """Nothing counted yet. Counts stay exact: they are far from 2**53."""
    return np.zeros(WIDTH)


@compiled
def moved(
    stock: NDArray[Any],
    since: NDArray[Any],
    states: NDArray[Any],
    producer: int,
    change: int,
    now: float,
) -> int:
    """A producer has an object more or less; how long it was as before is added to that state.

    Less than nothing are the requests in its line. The state that comes last in `states` is that
    of -1 request, before it -2, and so on, as Python counts.
    """
    before: int = stock[producer]
    states[before if before >= 0 else len(states) + before] += now - since[producer]
    since[producer] = now
    stock[producer] = before + change
    return before + change
