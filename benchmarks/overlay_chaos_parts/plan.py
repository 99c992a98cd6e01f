"""What a run is to be like; every process of it is given the same plan."""

from enum import Enum
from math import inf
from pathlib import Path
from random import Random
from typing import Any, Final

import msgspec

from snowmelt.core.keys import KEY_MAX, KEY_MIN, of_float, to_float

QUEUE: Final = "chaos"
ANY: Final = {"int": int, "float": float}
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
    priorities: int | str
    """How many there are; or `ANY`: whole numbers of 64 bits, or floats."""
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
            "priorities": ANY.get(str(self.priorities), self.priorities),
            "max_items": self.bound,
            "max_deliveries": self.deliveries,
            "lease": self.lease,
        }

    @property
    def keyed(self) -> bool:
        """Whether priorities have no number, so that orders are those of phases."""
        return self.priorities in ANY

    def priority(self, chance: Random) -> int | float:
        """Of an item: of any priorities a few that come often, all there are, and both ends."""
        if isinstance(self.priorities, int):
            return chance.randrange(self.priorities)
        often, any_key = chance.randrange(3), chance.randrange(KEY_MIN, KEY_MAX)
        if self.priorities == "int":
            return chance.choice((often, any_key, chance.choice((KEY_MIN, KEY_MAX))))
        number = to_float(any_key)
        any_float = number if number == number else often / 3  # noqa: PLR0124 - no number
        return chance.choice((often / 2, any_float, chance.choice((-inf, inf))))

    def key(self, priority: float) -> int:
        """A whole number of the same order."""
        return of_float(priority) if self.priorities == "float" else int(priority)

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
