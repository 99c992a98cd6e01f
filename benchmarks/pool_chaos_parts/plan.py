"""What a run is to be like; every process of it is given the same plan."""

import time
from enum import Enum
from pathlib import Path
from random import Random
from typing import Any, Final

import msgspec
from benchmarks.chaos.kinds import Kind

from snowmelt.runtime.peer import PeerLimits

POOL: Final = "chaos"
SIZE_MIN: Final = 100
LIVES: Final = 1_000
OBJECTS_OF_A_LIFE: Final = 10**9
FORK_SECONDS: Final = 5.0
BODIES_KEPT: Final = 3
"""So many of the largest are kept by a producer when room is little."""
LARGEST_SHARE: Final = 0.2


class Plant(Enum):
    """A fault of the harness, planted to see that the judge finds it."""

    NONE = "none"
    LOST = "lost"
    """An acknowledgement is not written down."""
    DOUBLED = "doubled"
    """What is given back is written down as acknowledged."""
    DAMAGED = "damaged"
    """A byte of an object is another when it is looked at."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a run."""

    url: str
    place: str
    """The folder of this run."""
    buffers: int
    max_hops: int
    wait: float
    lease: float
    grace: float
    size_max: int
    """Of an object, in bytes."""
    put_pause: float
    """Seconds between two puts of a producer, on average over all producers."""
    slow_pause: float
    """Seconds that a consumer works on an object while the producers are the faster ones."""
    fast_pause: float
    """The same while the consumers are."""
    phase: float
    """After so many seconds that changes."""
    nack: float
    """How likely a consumer gives back what it got."""
    kinds: frozenset[Kind]
    """What is done to the processes, and by themselves."""
    plant: Plant
    seed: int
    host: str = "127.0.0.1"
    """Where a process of this run is; each has its own when links can be slow."""

    @property
    def folder(self) -> Path:
        """Where everything of this run is written."""
        return Path(self.place)

    @property
    def options(self) -> dict[str, Any]:
        """The pool's."""
        return {
            "buffers": self.buffers,
            "max_hops": self.max_hops,
            "wait": self.wait,
            "lease": self.lease,
            "grace": self.grace,
            "listen": f"{self.host}:0",
            **({"max_bytes": BODIES_KEPT * self.size_max} if self.tight else {}),
        }

    @property
    def tight(self) -> bool:
        """Whether there is little room for what is on its way, and bodies are often large."""
        return Kind.LIMITS in self.kinds

    @property
    def limits(self) -> PeerLimits:
        """A process', when there is little room: a stream or two, of the largest bodies."""
        return PeerLimits(
            streams=2, incoming_bytes=2 * self.size_max, begun_bytes=self.size_max // 8
        )

    @property
    def fork_every(self) -> float:
        """Seconds from one fork of a process to its next, on average; 0 for none."""
        return FORK_SECONDS if Kind.FORK in self.kinds else 0.0

    def size(self, chance: Random) -> int:
        """Of one object: as many below 1 kB as above 200 kB, about.

        When room is little, there are many of the largest.
        """
        if self.tight and chance.random() < LARGEST_SHARE:
            return self.size_max
        return int(SIZE_MIN * (self.size_max / SIZE_MIN) ** chance.random())

    def work(self, chance: Random) -> float:
        """How many seconds a consumer works on an object now."""
        slow = int(time.monotonic() / self.phase) % 2 == 0
        return chance.expovariate(1 / (self.slow_pause if slow else self.fast_pause))


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
