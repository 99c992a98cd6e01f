"""Snowmelt: a distributed queue. Say which order you need, get the protocol that gives it."""

from snowmelt.client.cluster import Cluster, connect
from snowmelt.core.errors import (
    AccessDenied,
    BadOption,
    OutcomeUnknown,
    SnowmeltError,
    Unavailable,
    Unreachable,
)

__all__ = [
    "AccessDenied",
    "BadOption",
    "Cluster",
    "OutcomeUnknown",
    "SnowmeltError",
    "Unavailable",
    "Unreachable",
    "connect",
]

__version__ = "0.1.0"
