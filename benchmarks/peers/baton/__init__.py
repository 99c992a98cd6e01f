"""Snowmelt's baton beside Redis locks, etcd's lock and ZooKeeper's recipe.

What they need is started on free ports of the loopback, and stopped in the end. The Python packages
come with `pip install -e '.[bench]'`, the servers with

    apt-get install --no-install-recommends redis-server etcd-server zookeeper

So many waiters as a kind of work says are spread over four processes, started anew for each turn.
Above the line stands what people use. Below it is what else these servers can do: Redis with what
wakes just one, which redis-py does not have, and the others with their disk in memory.
"""

from typing import Final

from benchmarks.peers.baton.cell import CELLS
from benchmarks.peers.baton.work import works
from benchmarks.peers.comparison import Comparison, Goal, Maker

PEERS: Final[dict[str, Maker]] = {
    "snowmelt-1": ("baton.snowmelt", "baton", (1,)),
    "snowmelt-3": ("baton.snowmelt", "baton", (3,)),
    "redis-lock": ("baton.redis", "lock", ("Polling", 0.1)),
    "redis-lock-1ms": ("baton.redis", "lock", ("Polling", 0.001)),
    "etcd": ("baton.etcd", "lock", ("disk",)),
    "zookeeper": ("baton.zookeeper", "lock", ("disk",)),
    "redis-signal": ("baton.redis", "lock", ("Signal",)),
    "redis-token": ("baton.redis", "lock", ("Token",)),
    "etcd-memory": ("baton.etcd", "lock", ("memory",)),
    "zookeeper-memory": ("baton.zookeeper", "lock", ("memory",)),
}
OURS: Final = ("snowmelt-1", "snowmelt-3")
RIVALS: Final = ("redis-lock", "redis-lock-1ms", "etcd", "zookeeper")
EVERY: Final = tuple(cell.name for cell in CELLS)
HAND_OVER: Final = "hand_over_p50_us"
COMPARISON: Final = Comparison(
    name="baton",
    about="Snowmelt's baton beside Redis locks, etcd's lock and ZooKeeper's recipe",
    peers=PEERS,
    works=works(),
    ours=OURS,
    columns={
        "hand-over us": HAND_OVER,
        "mean": "hand_over_mean_us",
        "p99": "hand_over_p99_us",
        "a second": "hand_overs_per_second",
        "free us": "free_p50_us",
        "grants": "grants_per_second",
        "least": "turns_least",
        "most": "turns_most",
        "messages": "messages_per_hand_over",
        "client us": "client_us",
        "servers us": "servers_us",
    },
    charted={HAND_OVER: "microseconds from one's release to another's grant: less is better"},
    legend="who is next; one who dies; the disk",
    notes=(
        "Microseconds. hand-over: from one's first release to another's grant, median; free: from "
        "any release to the next grant, by anyone. grants: all in a second, to the same waiter\n"
        "again too. least, most: turns of a waiter in the window. messages: for each hand-over. "
        "x: how many times this row's hand-over Snowmelt's is."
    ),
    seconds=(2.0, 1.0),
    quick=("now-2", "now-8", "now-32", "held-8"),
    goals=tuple(
        goal
        for ours in OURS
        for goal in (
            Goal(EVERY, ours, RIVALS, at_most=0.5),
            Goal(EVERY, ours, RIVALS, at_most=0.5, figure="hand_over_mean_us"),
            Goal(EVERY, ours, RIVALS, figure="free_p50_us"),
            Goal(("now-32",), ours, (), at_most=2, figure="messages_per_hand_over", beside="now-4"),
        )
    ),
)
