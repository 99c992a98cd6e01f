"""What happens alike in all three algorithms: making, sending, giving.

A pool is a named tuple of each algorithm's own; these take what all of them have: `pace`, `chance`,
`when`, `who`, and `asked`.
"""

from typing import Any

from numpy.typing import NDArray

from snowmelt_lab.pool.kernel import counts
from snowmelt_lab.pool.kernel.chance import exponential, spent
from snowmelt_lab.pool.kernel.compiled import compiled
from snowmelt_lab.pool.kernel.future import set_time


@compiled
def make(pool: Any, producer: int, now: float) -> None:
    takes = spent(pool.pace.making, pool.pace.make[producer], pool.chance)
    set_time(pool.when, pool.who, producer, now + takes)


@compiled
def send(pool: Any, player: int, at: float, kind: int, row: NDArray[Any]) -> None:
    """The player's message is on its way from then on."""
    row[kind] += 1
    comes = at + pool.pace.transit * exponential(pool.chance)
    set_time(pool.when, pool.who, player, comes)


@compiled
def begin(pool: Any, kind: int, row: NDArray[Any]) -> None:
    """Where there is a broker: everybody makes an object, or asks it for one."""
    for producer in range(len(pool.stock)):
        make(pool, producer, 0.0)
    for consumer in range(len(pool.asked)):
        send(pool, len(pool.stock) + consumer, 0.0, kind, row)


@compiled
def give(pool: Any, consumer: int, hops: int, kind: int, now: float, row: NDArray[Any]) -> float:
    """An object goes to the consumer; when it asks again is decided right away, and told."""
    comes = now + pool.pace.transit * exponential(pool.chance)
    uses = spent(pool.pace.using, pool.pace.use, pool.chance)
    row[kind] += 1
    row[counts.OBJECTS] += 1
    row[counts.HOPS] += hops
    row[counts.WAIT] += comes - pool.asked[consumer]
    row[counts.USE] += uses
    asks: float = comes + uses
    pool.asked[consumer] = asks
    return asks
