"""A process deals with one message after the other, and needs time for each: the paper's d."""

from typing import Any

from snowmelt_lab.pool.kernel.chance import exponential
from snowmelt_lab.pool.kernel.compiled import compiled


@compiled
def put_off(pool: Any, server: int, player: int, now: float) -> float:
    """When the player's message, which has come to the server, is dealt with; 0 when it is now.

    To be asked twice for each message: when it comes, and when its time is over.
    """
    if pool.pace.process == 0:
        return 0.0
    pool.dealt_with[player] ^= True
    if not pool.dealt_with[player]:
        return 0.0
    takes = pool.pace.process * exponential(pool.chance)
    done: float = max(now, pool.busy_until[server]) + takes
    pool.busy_until[server] = done
    return done
