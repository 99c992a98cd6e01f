"""Snowmelt's pool beside Redis lists, RabbitMQ, multiprocessing, Ray and Dask.

Objects go from producers to consumers, each a process of its own, started anew for each turn. What
the peers need is started on free ports of the loopback, and stopped in the end:

    apt-get install --no-install-recommends redis-server rabbitmq-server

The Python packages come with `pip install -e '.[bench]'`. No peer writes to a disk. A figure is the
median of the rounds, and a ratio the median of the rounds' ratios.
"""

from typing import Final

from benchmarks.peers.comparison import Comparison, Goal, Maker
from benchmarks.peers.pool.work import works

PEERS: Final[dict[str, Maker]] = {
    "snowmelt": ("pool.snowmelt", "pool", ("at_least_once",)),
    "snowmelt-loop": ("pool.snowmelt", "pool", ("at_least_once", "loop")),
    "redis": ("pool.redis", "lists", ("Shared",)),
    "redis-own": ("pool.redis", "lists", ("Own",)),
    "redis-script": ("pool.redis", "lists", ("Script",)),
    "redis-own-unix": ("pool.redis", "lists", ("Own", "unix")),
    "rabbitmq": ("pool.rabbitmq", "peer", ()),
    "snowmelt-once": ("pool.snowmelt", "pool", ("at_most_once",)),
    "redis-plain": ("pool.redis", "lists", ("Plain",)),
    "multiprocessing": ("pool.mp", "peer", ()),
    "ray": ("pool.ray", "peer", ()),
    "dask": ("pool.dask", "peer", ()),
}
RIVALS: Final = ("redis", "redis-own")
"""Redis with the same promise, single commands and pipelines of them; the better counts. Each get
and each acknowledgement is waited for, here and there."""
BROKERS: Final = (*RIVALS, "redis-own-unix", "rabbitmq")
"""With these a loop is compared: the best broker counts, by its quickest way."""
COMPARED: Final = ("large-1", "large-2", "small-1", "hand-over")
COMPARISON: Final = Comparison(
    name="pool",
    about="Snowmelt's pool beside Redis lists, RabbitMQ, multiprocessing, Ray and Dask",
    peers=PEERS,
    works=works(),
    ours=("snowmelt", "snowmelt-once"),
    columns={
        "objects/s": "objects_per_second",
        "MB/s": "mb_per_second",
        "p50 us": "p50_us",
        "p95 us": "p95_us",
        "p99 us": "p99_us",
        "client us": "client_us",
        "servers us": "servers_us",
    },
    charted={
        "objects_per_second": "objects a second",
        "p50_us": "microseconds from put to get: less is better",
    },
    legend="delivery; where objects wait",
    notes=(
        "Microseconds of the processor an object, of all clients and of the servers. "
        "x: how many times this row's first figure Snowmelt's is.\n"
        "Above the line: delivered at least once. Below: gone when got."
    ),
    seconds=(2.0, 1.0),
    goals=(
        Goal(("large-1", "large-2"), "snowmelt", RIVALS, at_least=2),
        Goal(("small-1",), "snowmelt", RIVALS, at_least=5),
        Goal(("large-1",), "snowmelt-loop", BROKERS, at_least=8),
        Goal(("hand-over",), "snowmelt", RIVALS, at_most=1),
        Goal(("large-10",), "snowmelt", (), at_least=1, beside="large-1"),
        Goal(("small-10",), "snowmelt", (), at_least=1, beside="small-1"),
        Goal(COMPARED, "snowmelt", ("redis-script",)),
        Goal(COMPARED, "snowmelt", ("redis-own-unix",)),
        Goal(COMPARED, "snowmelt-once", ("redis-plain",)),
    ),
)
