"""What a run is to be like; every process of it is given the same plan."""

from enum import Enum
from pathlib import Path
from random import Random
from typing import Final

import msgspec

LONG_SECONDS: Final = 2.0
LONG_SHARE: Final = 0.05


class Plant(Enum):
    """A fault of the harness, planted to see that the judge finds it."""

    NONE = "none"
    OLD = "old"
    """A worker passes by the guard, with a fence that it had before."""
    FENCE = "fence"
    """A worker reports the fence that comes after its own."""
    VALUE = "value"
    """A worker leaves another value than it writes down."""
    ORDER = "order"
    """A worker writes down that it asked long before it did."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a run."""

    urls: tuple[str, ...]
    """One for each node: it first, and the others behind it."""
    place: str
    """The folder of this run."""
    batons: tuple[str, ...]
    timeout: float
    """How many seconds a worker waits for a turn."""
    hold: float
    """Seconds that most holds last at most; a few last two."""
    between: float
    """Seconds from the check of a hold to the act under it, at most."""
    pause: float
    """Seconds from one turn of a worker to its next wish, on average."""
    save: float
    """How likely a holder saves a value."""
    fork_every: float
    """Seconds from one fork of a worker to its next, on average; 0 for none."""
    plant: Plant
    seed: int

    @property
    def folder(self) -> Path:
        """Where everything of this run is written."""
        return Path(self.place)

    def url(self, worker: int) -> str:
        """Where a worker connects to."""
        return self.urls[worker % len(self.urls)]

    def held(self, chance: Random) -> float:
        """How many seconds one hold is to last."""
        return LONG_SECONDS if chance.random() < LONG_SHARE else chance.uniform(0, self.hold)


def rotated(url: str) -> tuple[str, ...]:
    """One URL for each node of a cluster's: that node first, and then whoever follows it.

    >>> rotated("snowmelt://a:1,b:2,c:3")
    ('snowmelt://a:1,b:2,c:3', 'snowmelt://b:2,c:3,a:1', 'snowmelt://c:3,a:1,b:2')
    """
    scheme, _, places = url.rpartition("//")
    nodes = places.split(",")
    return tuple(f"{scheme}//{','.join(nodes[one:] + nodes[:one])}" for one in range(len(nodes)))
