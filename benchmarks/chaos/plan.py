"""What a run is to be like; the clients' processes are given the same plan."""

from pathlib import Path
from typing import Final

import msgspec

QUEUE: Final = "chaos"
ITEMS_OF_A_PRODUCER: Final = 10**9


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a run."""

    url: str
    place: str
    """The folder of this run."""
    replicas: int
    inline_max: int
    """Bytes of a put that go with its step; what is larger lies on data nodes."""
    clients: int
    items: int
    """In one batch."""
    size: int
    """Of one item's body."""
    bound: int
    """How many items may wait; producers wait for room then."""
    lease: float
    timeout: float
    """Of one call."""
    forget: float
    """How likely a consumer forgets a lease."""
    seed: int

    @property
    def folder(self) -> Path:
        """Where everything of this run is written."""
        return Path(self.place)

    @property
    def options(self) -> dict[str, float]:
        """The queue's; an item is set aside as dead only when it fails far too often."""
        return {
            "replicas": self.replicas,
            "inline_max": self.inline_max,
            "max_items": self.bound,
            "lease": self.lease,
            "max_deliveries": 1000,
        }

    def bodies(self, producer: int, sequence: int) -> tuple[list[int], list[bytes]]:
        """The ids of a batch, which no other batch has, and the bodies that begin with them."""
        first = producer * ITEMS_OF_A_PRODUCER + sequence * self.items
        ids = list(range(first, first + self.items))
        return ids, [id_.to_bytes(8).ljust(self.size, b".") for id_ in ids]


def id_of(body: bytes) -> int:
    """The id that a body begins with."""
    return int.from_bytes(body[:8])
