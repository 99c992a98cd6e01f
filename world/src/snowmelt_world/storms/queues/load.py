"""What clients put into the queue of a run, and what its items are known by."""

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any, Final
from zlib import crc32

import msgspec

from snowmelt.core.interval import Interval
from snowmelt_world.storms.setting import StormSetting

QUEUE: Final = "chaos"
ITEMS_OF_A_PRODUCER: Final = 10**9
ANY: Final = 0
"""Instead of how many priorities there are."""
PRIORITIES: Final = {"fifo": 1, "priority": 4, "any": ANY}
KEYS: Final = (-(2**63), -3, 0, 7, 2**63 - 1)
POSITION_BITS: Final = 48


class QueueSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What `--set` can change."""

    replicas: int = 3
    priorities: int = -1
    """How many there are; -1 for what the kind says."""
    inline_max: int = 1 << 20
    """Bytes of a put that go with its step; what is larger lies on data nodes."""
    items: int = 20
    """In one batch."""
    size: int = 100
    """Of one item's body."""
    bound: int = 20_000
    """How many items may wait; producers wait for room then."""
    lease: float = 5.0
    timeout: float = 5.0
    """Of one call."""
    forget: float = 0.01
    """How likely a consumer forgets a lease."""
    processes: int = 4
    """Of clients; each has its share of them."""


class QueueLoad(msgspec.Struct, frozen=True):
    """The queue of a run, and its items."""

    setting: StormSetting
    settings: QueueSettings

    @property
    def priorities(self) -> int:
        """How many there are; 1 is a fifo, and `ANY` are whole numbers of 64 bits."""
        many = self.settings.priorities
        return PRIORITIES[self.setting.kind] if many < 0 else many

    def queue(self, cluster: Any, producer: str | None = None) -> Any:
        """The queue, of either face; an item is dead only when it fails far too often."""
        some = self.settings
        options: dict[str, Any] = {
            "replicas": some.replicas,
            "inline_max": some.inline_max,
            "max_items": some.bound,
            "lease": some.lease,
            "max_deliveries": 1000,
        }
        if self.priorities == 1:
            return cluster.fifo(QUEUE, producer=producer, **options)
        options["priorities"] = self.priorities or int
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
        """What was put, of each priority by itself, and where the first is, if that is known."""
        went = sorted(ids, key=self.priority)
        places = [self.stands(went[at], one) for at, one in enumerate(o for i in where for o in i)]
        at = 0
        for _, some in groupby(went, self.priority):
            run = list(some)
            yield run, places[at] if places else None
            at += len(run)

    def bodies(self, producer: int, sequence: int) -> tuple[list[int], list[bytes]]:
        """The ids of a batch, which no other batch has, and the bodies that begin with them."""
        many = self.settings.items
        first = producer * ITEMS_OF_A_PRODUCER + sequence * many
        ids = list(range(first, first + many))
        return ids, [id_.to_bytes(8).ljust(self.settings.size, b".") for id_ in ids]


def id_of(body: bytes) -> int:
    """The id that a body begins with."""
    return int.from_bytes(body[:8])
