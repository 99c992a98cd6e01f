"""What a run is to be like; every process of it is given the same plan."""

from enum import Enum
from pathlib import Path
from random import Random
from typing import Any, Final

import msgspec

QUEUE: Final = "chaos"
LIVES: Final = 1_000
ITEMS_OF_A_LIFE: Final = 10**9
BIG_SHARE: Final = 0.1
"""So many batches, and gets, are ten times as large."""


class Plant(Enum):
    """A fault of the harness, planted to see that the judge finds it."""

    NONE = "none"
    LOST = "lost"
    """What is acknowledged is not written down, nor that it was got."""
    DOUBLED = "doubled"
    """What is given back is written down as acknowledged."""
    MISPLACED = "misplaced"
    """Where something was put is written down wrong."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a run."""

    url: str
    place: str
    """The folder of this run."""
    replicas: int
    clients: int
    """In each process."""
    items: int
    """In one batch, at most; now and then ten times as many."""
    size: int
    """Of one item's body."""
    bound: int
    """How many items may wait; producers wait for room then."""
    deliveries: int
    """After so many that failed an item is dead."""
    lease: float
    timeout: float
    """Of one call."""
    pause: float
    """Of each client between two calls, on average."""
    forget: float
    """How likely a consumer lets a lease end."""
    nack: float
    """How likely it says that an item failed; and, that it gives it back for no fault."""
    seed: int
    plant: Plant = Plant.NONE

    @property
    def folder(self) -> Path:
        """Where everything of this run is written."""
        return Path(self.place)

    @property
    def options(self) -> dict[str, Any]:
        """The queue's."""
        return {
            "replicas": self.replicas,
            "max_items": self.bound,
            "max_deliveries": self.deliveries,
            "lease": self.lease,
        }

    def many(self, chance: Random) -> int:
        """The size of a batch, or of what is asked for."""
        most = self.items * (10 if chance.random() < BIG_SHARE else 1)
        return chance.randint(1, most)

    def body(self, id_: int) -> bytes:
        """Of an item; it begins with its id."""
        return id_.to_bytes(8).ljust(self.size, b".")


def first_id(client: int, life: int) -> int:
    """Of a client's life; no other life has those that follow."""
    return (client * LIVES + life) * ITEMS_OF_A_LIFE


def id_of(body: bytes) -> int:
    """The id that a body begins with."""
    return int.from_bytes(body[:8])
