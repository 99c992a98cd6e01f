"""A process deals with one message after the other, and needs time for each: the paper's d."""

from typing import Any

from numpy.typing import NDArray

from snowmelt.lab.pool.kernel.chance import exponential
from snowmelt.lab.pool.kernel.compiled import compiled


@compiled
def put_off(
    process: float,
    server: int,
    now: float,
    player: int,
    busy_until: NDArray[Any],
    dealt_with: NDArray[Any],
    chance: NDArray[Any],
) -> float:
    """When the player's message, which has come to the server, is dealt with; 0 when it is now.

    To be asked twice for each message: when it comes, and when its time is over.
    """
    if process == 0:
        return 0.0
    dealt_with[player] ^= True
    if not dealt_with[player]:
        return 0.0
    done: float = max(now, busy_until[server]) + process * exponential(chance)
    busy_until[server] = done
    return done
