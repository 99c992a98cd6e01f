"""Who can take part, by name; a peer's module, with its client's package, is imported when asked.

Those that deliver at least once come first, then those whose objects are gone when they are got: a
comparison is fair within each half only.
"""

from typing import Any, Final

from benchmarks.pool_peers_parts.making import made
from benchmarks.pool_peers_parts.peer import Peer

OURS: Final = "snowmelt"
OURS_LOOPED: Final = "snowmelt-loop"
OURS_AT_MOST_ONCE: Final = "snowmelt-once"

RIVALS: Final = ("redis", "redis-own")
"""Whom the bars are about: Redis with the same promise, single commands and pipelines of them; the
better of the two counts. Each get and each acknowledgement is waited for, here and there."""
BROKERS: Final = (*RIVALS, "redis-own-unix", "rabbitmq")
"""With whom a loop is compared: the best broker counts, by whichever way it is quickest."""
BESIDE: Final = (
    (OURS, "redis-script"),
    (OURS, "redis-own-unix"),
    (OURS_AT_MOST_ONCE, "redis-plain"),
)
"""Who else is compared with Redis, with no bar."""

KINDS: Final[dict[str, tuple[str, str, tuple[Any, ...]]]] = {
    OURS: ("snowmelt_pool", "PoolPeer", ("at_least_once",)),
    OURS_LOOPED: ("snowmelt_pool", "PoolPeer", ("at_least_once", "loop")),
    "redis": ("redis_lists", "RedisPeer", ("Shared",)),
    "redis-own": ("redis_lists", "RedisPeer", ("Own",)),
    "redis-script": ("redis_lists", "RedisPeer", ("Script",)),
    "redis-own-unix": ("redis_lists", "RedisPeer", ("Own", "unix")),
    "rabbitmq": ("rabbitmq", "RabbitPoolPeer", ()),
    OURS_AT_MOST_ONCE: ("snowmelt_pool", "PoolPeer", ("at_most_once",)),
    "redis-plain": ("redis_lists", "RedisPeer", ("Plain",)),
    "multiprocessing": ("mp_queue", "QueuePeer", ()),
    "ray": ("ray_queue", "RayPeer", ()),
    "dask": ("dask_queue", "DaskPeer", ()),
}
AT_LEAST_ONCE: Final = (OURS, OURS_LOOPED, *RIVALS, "redis-script", "redis-own-unix", "rabbitmq")


def named(word: str) -> list[str]:
    """The peers of a name, or of a family such as `redis`; none when there is no such one."""
    return [name for name in KINDS if name == word or name.startswith(f"{word}-")]


def make(name: str) -> Peer:
    """A peer that is not started."""
    peer: Peer = made("benchmarks.pool_peers_parts", name, *KINDS[name])
    return peer
