"""Who can take part, by name; a peer's module, with its client's package, is imported when asked.

All of them flush before they answer.
"""

from typing import Any, Final

from benchmarks.fifo.peer import Peer
from benchmarks.fifo.peers import made

ANY: Final = ("snowmelt-any", "snowmelt-any-3")
"""With any 64-bit priorities."""
OURS: Final = ("snowmelt-1", "snowmelt-3", *ANY)
"""The rows that the others are compared with."""
COPIES: Final = ("snowmelt-3", "snowmelt-any-3", "redis-3", "rabbitmq-quorum-3")
"""Those that have three copies before they answer."""

LOSING: Final = ("redis-zpopmin", "redis-pipeline")
"""They lose what they hand out: nothing but any priorities in batches is held against them."""
LIMITS: Final = ("plain-python", "least-python")
"""What Python and the disk allow at most: a server that is no queue, and the least queue."""

KINDS: dict[str, tuple[str, str, tuple[Any, ...]]] = {
    "snowmelt-1": ("snowmelt_priority", "PriorityPeer", (1,)),
    "snowmelt-3": ("snowmelt_priority", "PriorityPeer", (3,)),
    "snowmelt-any": ("snowmelt_priority", "PriorityPeer", (1, int)),
    "snowmelt-any-3": ("snowmelt_priority", "PriorityPeer", (3, int)),
    "redis": ("redis_sorted_set", "SortedSetPeer", ("always", 0)),
    "redis-zpopmin": ("redis_plain_set", "PlainSetPeer", ()),
    "redis-pipeline": ("redis_plain_set", "PipelinePeer", ()),
    "beanstalkd": ("beanstalkd_priorities", "PrioritiesPeer", (0,)),
    "rabbitmq-classic": ("rabbitmq_priorities", "ClassicPeer", ()),
    "rabbitmq-quorum": ("rabbitmq_priorities", "QuorumPeer", (1,)),
    "redis-3": ("redis_sorted_set", "SortedSetPeer", ("always", 2)),
    "rabbitmq-quorum-3": ("rabbitmq_priorities", "QuorumPeer", (3,)),
    "plain-python": ("plain_python", "PlainPeer", ()),
    "least-python": ("least_python", "LeastPeer", ()),
}


def named(word: str) -> list[str]:
    """The peers of a name, or of a family such as `rabbitmq`; none when there is no such one."""
    return [word] if word in KINDS else [name for name in KINDS if name.startswith(f"{word}-")]


def make(name: str) -> Peer:
    """A peer that is not started."""
    peer: Peer = made(KINDS, "benchmarks.priority_peers_parts", name)
    return peer
