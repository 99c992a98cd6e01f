"""Snowmelt: a distributed queue. Say which order you need, get the protocol that gives it."""

from snowmelt.client.cluster import Cluster, connect
from snowmelt.client.embedded import EmbeddedCluster, open  # noqa: A004
from snowmelt.client.fifo import Fifo
from snowmelt.client.fifo_steps import Seen
from snowmelt.client.items import Item, Items
from snowmelt.core.errors import (
    AccessDenied,
    BadOption,
    Empty,
    Full,
    LeaseLost,
    NoSuchQueue,
    OutcomeUnknown,
    QueueExists,
    SnowmeltError,
    TooLarge,
    Unavailable,
    Unreachable,
)

__all__ = [
    "AccessDenied",
    "BadOption",
    "Cluster",
    "EmbeddedCluster",
    "Empty",
    "Fifo",
    "Full",
    "Item",
    "Items",
    "LeaseLost",
    "NoSuchQueue",
    "OutcomeUnknown",
    "QueueExists",
    "Seen",
    "SnowmeltError",
    "TooLarge",
    "Unavailable",
    "Unreachable",
    "connect",
    "open",
]

__version__ = "0.1.0"
