"""Who can take part, by name; a peer's module, with its client's package, is imported when asked.

The first half is what people are told to use. The second is what else these servers can do: Redis
with what wakes just one, which redis-py does not have, and the others with their disk in memory.
"""

from typing import Any, Final

from benchmarks.baton_peers_parts.peer import Peer
from benchmarks.pool_peers_parts.making import made

OURS: Final = ("snowmelt-1", "snowmelt-3")

RIVALS: Final = ("redis-lock", "redis-lock-1ms", "etcd", "zookeeper")
"""Whom the bars are about; the best of them counts."""

KINDS: Final[dict[str, tuple[str, str, tuple[Any, ...]]]] = {
    "snowmelt-1": ("snowmelt_baton", "BatonPeer", (1,)),
    "snowmelt-3": ("snowmelt_baton", "BatonPeer", (3,)),
    "redis-lock": ("redis_locks", "RedisPeer", ("Polling", 0.1)),
    "redis-lock-1ms": ("redis_locks", "RedisPeer", ("Polling", 0.001)),
    "etcd": ("etcd_lock", "EtcdPeer", ("disk",)),
    "zookeeper": ("zookeeper_lock", "ZooKeeperPeer", ("disk",)),
    "redis-signal": ("redis_locks", "RedisPeer", ("Signal",)),
    "redis-token": ("redis_locks", "RedisPeer", ("Token",)),
    "etcd-memory": ("etcd_lock", "EtcdPeer", ("memory",)),
    "zookeeper-memory": ("zookeeper_lock", "ZooKeeperPeer", ("memory",)),
}


def named(word: str) -> list[str]:
    """The peers of a name, or of a family such as `redis`; none when there is no such one."""
    return [word] if word in KINDS else [name for name in KINDS if name.startswith(f"{word}-")]


def make(name: str) -> Peer:
    """A peer that is not started."""
    peer: Peer = made("benchmarks.baton_peers_parts", name, *KINDS[name])
    return peer
