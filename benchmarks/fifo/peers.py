"""Who can take part, by name; a peer's module, with its client's package, is imported when asked.

Those that flush before they answer come first, then those that flush now and then: a comparison is
fair within each half only.
"""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from benchmarks.fifo.peer import Missing, Peer

OURS = ("snowmelt-always", "snowmelt-3", "snowmelt-50ms")
"""The rows that the others are compared with."""

KINDS: dict[str, tuple[str, str, tuple[Any, ...]]] = {
    "snowmelt-always": ("snowmelt_fifo", "SnowmeltPeer", (1, "always")),
    "snowmelt-shared": ("snowmelt_fifo", "SharedPeer", (1, "always")),
    "snowmelt-3": ("snowmelt_fifo", "SnowmeltPeer", (3, "always")),
    "snowmelt-shared-3": ("snowmelt_fifo", "SharedPeer", (3, "always")),
    "redis-always": ("redis_streams", "RedisPeer", ("always",)),
    "nats-always": ("nats_jetstream", "NatsPeer", ("always",)),
    "beanstalkd-always": ("beanstalkd", "BeanstalkdPeer", (0,)),
    "rabbitmq": ("rabbitmq_quorum", "RabbitPeer", ()),
    "rabbitmq-aio": ("rabbitmq_aio", "AioPikaPeer", ()),
    "rabbitmq-3": ("rabbitmq_quorum", "RabbitPeer", (3,)),
    "rabbitmq-aio-3": ("rabbitmq_aio", "AioPikaPeer", (3,)),
    "snowmelt-50ms": ("snowmelt_fifo", "SnowmeltPeer", (1, 0.05)),
    "snowmelt-50ms-consume": ("snowmelt_fifo", "ConsumePeer", (1, 0.05)),
    "beanstalkd-50ms": ("beanstalkd", "BeanstalkdPeer", (50,)),
    "redis-everysec": ("redis_streams", "RedisPeer", ("everysec",)),
    "nats-2min": ("nats_jetstream", "NatsPeer", ("default",)),
}


def named(word: str) -> list[str]:
    """The peers of a name, or of a family such as `redis`; none when there is no such one."""
    return [word] if word in KINDS else [name for name in KINDS if name.startswith(f"{word}-")]


def make(name: str) -> Peer:
    """A peer that is not started."""
    peer: Peer = made(KINDS, "benchmarks.fifo", name)
    return peer


def made(kinds: Mapping[str, tuple[str, str, tuple[Any, ...]]], package: str, name: str) -> Any:
    """A peer of some comparison, whose modules are in `package`."""
    module, kind, values = kinds[name]
    try:
        return getattr(import_module(f"{package}.{module}"), kind)(name, *values)
    except ModuleNotFoundError as error:
        raise Missing(
            f"there is no Python package {error.name}: pip install -e '.[bench]'"
        ) from error
