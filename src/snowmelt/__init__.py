"""Snowmelt: a distributed queue. Say which order you need, get the protocol that gives it."""

from importlib import import_module
from typing import TYPE_CHECKING, Final

from snowmelt.core.errors import (
    AccessDenied,
    AlreadyPublished,
    BadOption,
    BatonLost,
    CallerError,
    Closed,
    CodecError,
    DataLost,
    DiskFull,
    Empty,
    Full,
    GroupHeld,
    LeaseLost,
    MachineCrashed,
    MachineError,
    NoSuchQueue,
    NotEmpty,
    NotGranted,
    NotStaged,
    OutcomeUnknown,
    PeerError,
    QueueDeleted,
    QueueExists,
    QueueMoved,
    SequenceTooOld,
    SnowmeltError,
    StateError,
    StoreBusy,
    StoreDamaged,
    StoreError,
    StoreVersion,
    TooLarge,
    Unavailable,
    Unreachable,
    WrongLoop,
)
from snowmelt.core.version import VERSION

if TYPE_CHECKING:
    from snowmelt.client.baton.face import Baton, Held
    from snowmelt.client.cluster import Cluster, connect
    from snowmelt.client.counter.face import Counter
    from snowmelt.client.embedded.face import EmbeddedCluster, open  # noqa: A004
    from snowmelt.client.fifo.face import Fifo
    from snowmelt.client.leases.items import Item, Items
    from snowmelt.client.leases.steps import Seen
    from snowmelt.client.multicast.face import Multicast, Subscription
    from snowmelt.client.pool.face import Pool
    from snowmelt.client.pool.objects import Object, Objects
    from snowmelt.client.priority.face import PriorityQueue
    from snowmelt.client.queue.face import Group
    from snowmelt.client.queue.group_steps import Mark
    from snowmelt.client.queue.step import Step
    from snowmelt.client.worker.face import Worker
    from snowmelt.client.worker.retrying import Retry
    from snowmelt.protocols.queue.api.labels import Labels

__all__ = [
    "AccessDenied",
    "AlreadyPublished",
    "BadOption",
    "Baton",
    "BatonLost",
    "CallerError",
    "Closed",
    "Cluster",
    "CodecError",
    "Counter",
    "DataLost",
    "DiskFull",
    "EmbeddedCluster",
    "Empty",
    "Fifo",
    "Full",
    "Group",
    "GroupHeld",
    "Held",
    "Item",
    "Items",
    "Labels",
    "LeaseLost",
    "MachineCrashed",
    "MachineError",
    "Mark",
    "Multicast",
    "NoSuchQueue",
    "NotEmpty",
    "NotGranted",
    "NotStaged",
    "Object",
    "Objects",
    "OutcomeUnknown",
    "PeerError",
    "Pool",
    "PriorityQueue",
    "QueueDeleted",
    "QueueExists",
    "QueueMoved",
    "Retry",
    "Seen",
    "SequenceTooOld",
    "SnowmeltError",
    "StateError",
    "Step",
    "StoreBusy",
    "StoreDamaged",
    "StoreError",
    "StoreVersion",
    "Subscription",
    "TooLarge",
    "Unavailable",
    "Unreachable",
    "Worker",
    "WrongLoop",
    "connect",
    "open",
]

__version__ = VERSION

_WHERE: Final = {
    "Baton": "client.baton.face",
    "Held": "client.baton.face",
    "Cluster": "client.cluster",
    "connect": "client.cluster",
    "Counter": "client.counter.face",
    "EmbeddedCluster": "client.embedded.face",
    "open": "client.embedded.face",
    "Fifo": "client.fifo.face",
    "Item": "client.leases.items",
    "Items": "client.leases.items",
    "Seen": "client.leases.steps",
    "Multicast": "client.multicast.face",
    "Subscription": "client.multicast.face",
    "Pool": "client.pool.face",
    "Object": "client.pool.objects",
    "Objects": "client.pool.objects",
    "PriorityQueue": "client.priority.face",
    "Mark": "client.queue.group_steps",
    "Group": "client.queue.face",
    "Step": "client.queue.step",
    "Worker": "client.worker.face",
    "Retry": "client.worker.retrying",
    "Labels": "protocols.queue.api.labels",
}
"""Where the classes are, which are loaded when they are asked for: a node needs none of them."""

if not TYPE_CHECKING:  # a type checker sees which names there are

    def __getattr__(name: str) -> object:
        if name == "aio":
            return import_module("snowmelt.aio")
        if name not in _WHERE:
            raise AttributeError(f"module 'snowmelt' has no attribute {name!r}")
        found = globals()[name] = getattr(import_module(f"snowmelt.{_WHERE[name]}"), name)
        return found

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
