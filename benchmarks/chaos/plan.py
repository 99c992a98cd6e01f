"""What a run is to be like; the clients' processes are given the same plan."""

from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Any, Final
from zlib import crc32

import msgspec

from snowmelt.core.interval import Interval

QUEUE: Final = "chaos"
ITEMS_OF_A_PRODUCER: Final = 10**9
ANY: Final = 0
"""Instead of how many priorities there are."""
KEYS: Final = (-(2**63), -3, 0, 7, 2**63 - 1)
POSITION_BITS: Final = 48


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a run."""

    url: str
    place: str
    """The folder of this run."""
    replicas: int
    priorities: int
    """How many there are; 1 is a fifo, and `ANY` are whole numbers of 64 bits."""
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

    def queue(self, cluster: Any, producer: str | None = None) -> Any:
        """The queue of the run, of either face."""
        if self.priorities == 1:
            return cluster.fifo(QUEUE, producer=producer, **self.options)
        priorities = self.priorities or int
        options = {**self.options, "priorities": priorities}
        return cluster.priority(QUEUE, producer=producer, **options)

    def priority(self, id_: int) -> int:
        """Of an item, for good."""
        drawn = crc32(id_.to_bytes(8))
        return drawn % self.priorities if self.priorities else KEYS[drawn % len(KEYS)]

    def rows(self, ids: Iterable[int], bodies: Iterable[bytes]) -> list[Any]:
        """As they are put."""
        if self.priorities == 1:
            return list(bodies)
        return [(self.priority(id_), body) for id_, body in zip(ids, bodies, strict=True)]

    def stands(self, id_: int, position: int) -> int:
        """Where an item is: no two have the same place."""
        return position + (self.priority(id_) << POSITION_BITS) * (self.priorities > 1)

    def runs(
        self, ids: Iterable[int], where: Iterable[Interval] = ()
    ) -> Iterator[tuple[list[int], int | None]]:
        """What was put, of each priority by itself, and where the first is, if that was told."""
        went = sorted(ids, key=self.priority)
        places = [self.stands(went[at], one) for at, one in enumerate(o for i in where for o in i)]
        at = 0
        for _, some in groupby(went, self.priority):
            run = list(some)
            yield run, places[at] if places else None
            at += len(run)

    def bodies(self, producer: int, sequence: int) -> tuple[list[int], list[bytes]]:
        """The ids of a batch, which no other batch has, and the bodies that begin with them."""
        first = producer * ITEMS_OF_A_PRODUCER + sequence * self.items
        ids = list(range(first, first + self.items))
        return ids, [id_.to_bytes(8).ljust(self.size, b".") for id_ in ids]


def id_of(body: bytes) -> int:
    """The id that a body begins with."""
    return int.from_bytes(body[:8])
