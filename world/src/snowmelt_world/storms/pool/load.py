"""What producers and consumers of a run do, and what its objects are known by."""

import time
from random import Random
from typing import Any, Final

import msgspec

import snowmelt
from snowmelt.client.connection.url import read
from snowmelt.client.pool.open_pools import join
from snowmelt.runtime.peer import PeerLimits
from snowmelt_world.storms.faults import Fault
from snowmelt_world.storms.setting import StormSetting

POOL: Final = "chaos"
SIZE_MIN: Final = 100
LIVES: Final = 1_000
OBJECTS_OF_A_LIFE: Final = 10**9
FORK_SECONDS: Final = 5.0
BODIES_KEPT: Final = 3
"""So many of the largest are kept by a producer when room is little."""
LARGEST_SHARE: Final = 0.2
LOST: Final = "lost"
DOUBLED: Final = "doubled"
DAMAGED: Final = "damaged"


class PoolSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What `--set` can change."""

    buffers: int = 5
    max_hops: int = 3
    wait: float = 1.0
    lease: float = 5.0
    grace: float = 1.0
    slack: float = 0.5
    """Seconds that a consumer may idle beside a full producer, beyond `wait`."""
    size_max: int = 2_000_000
    """Of an object, in bytes."""
    put_pause: float = 0.04
    """Seconds between two puts of a producer, on average over all producers."""
    slow_pause: float = 0.08
    """Seconds that a consumer works on an object while the producers are the faster ones."""
    fast_pause: float = 0.005
    """The same while the consumers are."""
    phase: float = 4.0
    """After so many seconds that changes."""
    nack: float = 0.03
    """How likely a consumer gives back what it got."""


class PoolLoad(msgspec.Struct, frozen=True):
    """The pool of a run, and its objects."""

    setting: StormSetting
    settings: PoolSettings

    @property
    def tight(self) -> bool:
        """Whether there is little room for what is on its way, and bodies are often large."""
        return Fault.LIMITS in self.setting.faults

    @property
    def bytes_most(self) -> int:
        """How many bytes a producer may keep; 0 for as many as it is told elsewhere."""
        return BODIES_KEPT * self.settings.size_max if self.tight else 0

    @property
    def fork_every(self) -> float:
        """Seconds from one fork of a process to its next, on average; 0 for none."""
        return FORK_SECONDS if Fault.FORK in self.setting.faults else 0.0

    def joined(self, cluster: snowmelt.Cluster, **more: Any) -> snowmelt.Pool:
        """A part of its own in the pool, with little room if that is wanted."""
        some = self.settings
        options: dict[str, Any] = {
            "buffers": some.buffers,
            "max_hops": some.max_hops,
            "wait": some.wait,
            "lease": some.lease,
            "grace": some.grace,
            "listen": f"{self.setting.host}:0",
        }
        if not self.tight:
            return cluster.pool(POOL, **options, **more)
        options["max_bytes"] = self.bytes_most
        limits = PeerLimits(
            streams=2, incoming_bytes=2 * some.size_max, begun_bytes=some.size_max // 8
        )
        return snowmelt.Pool(join(POOL, read(self.setting.url), limits, **options, **more))

    def size(self, chance: Random) -> int:
        """Of one object: as many below 1 kB as above 200 kB, about.

        When room is little, there are many of the largest.
        """
        if self.tight and chance.random() < LARGEST_SHARE:
            return self.settings.size_max
        return int(SIZE_MIN * (self.settings.size_max / SIZE_MIN) ** chance.random())

    def work(self, chance: Random) -> float:
        """How many seconds a consumer works on an object now."""
        some = self.settings
        slow = int(time.monotonic() / some.phase) % 2 == 0
        return chance.expovariate(1 / (some.slow_pause if slow else some.fast_pause))


def first_id(number: int, life: int) -> int:
    """Of a producer's life; no other life has those that follow."""
    return (number * LIVES + life) * OBJECTS_OF_A_LIFE


def life_of(id_: int) -> tuple[int, int]:
    """Which producer made it, in which of its lives.

    >>> life_of(first_id(12, 3) + 17)
    (12, 3)
    """
    number, life = divmod(id_ // OBJECTS_OF_A_LIFE, LIVES)
    return number, life
