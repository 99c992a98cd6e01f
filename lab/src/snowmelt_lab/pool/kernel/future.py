"""What happens next: a tournament between all processes, each with the next that happens to it.

The players are the leaves of a binary tree; in each node above stands the earlier of the two below.
When a player's time changes, only the nodes above it are played anew.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from snowmelt_lab.pool.kernel.compiled import compiled


class Future(NamedTuple):
    """The tree, its root at 1, the two below node n at 2n and 2n + 1."""

    when: NDArray[Any]
    who: NDArray[Any]


def future(players: int) -> Future:
    leaves = 1 << max(1, (players - 1).bit_length())
    who = np.zeros(2 * leaves, np.int64)
    who[leaves:] = np.arange(leaves)
    return Future(np.full(2 * leaves, np.inf), who)


@compiled
def set_time(when: NDArray[Any], who: NDArray[Any], player: int, time: float) -> None:
    """This is when something happens to the player next; infinity is never."""
    node = (len(when) >> 1) + player
    when[node] = time
    while node > 1:
        other = when[node ^ 1]
        if other < time:
            time = other
            player = who[node ^ 1]
        node >>= 1
        when[node] = time
        who[node] = player
