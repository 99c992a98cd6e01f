"""Snowmelt: a distributed queue. Say which order you need, get the protocol that gives it."""

from importlib import import_module
from typing import TYPE_CHECKING

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
from snowmelt.client.queue.group_steps import Mark
from snowmelt.client.queue.groups import Group
from snowmelt.client.worker.face import Worker
from snowmelt.client.worker.retrying import Retry
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
    FrameChanged,
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
from snowmelt.protocols.queue.labels import Labels

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
    "FrameChanged",
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
    "Retry",
    "Seen",
    "SequenceTooOld",
    "SnowmeltError",
    "StateError",
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

__version__ = "0.1.0"

if not TYPE_CHECKING:  # a type checker sees which names there are

    def __getattr__(name: str) -> object:
        """`snowmelt.aio` after `import snowmelt` alone; who does not use it does not load it."""
        if name == "aio":
            return import_module("snowmelt.aio")
        raise AttributeError(f"module 'snowmelt' has no attribute {name!r}")
