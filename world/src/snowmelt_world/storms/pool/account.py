"""All journals together, object by object."""

from collections.abc import Callable, Iterable
from operator import attrgetter

import msgspec

from snowmelt_world.storms.pool.journal import PoolLine, PoolStep
from snowmelt_world.storms.pool.load import life_of

Killed = set[tuple[int, int]]
"""Producers' numbers and lives."""


class Account(msgspec.Struct):
    """What was seen of each object, by anybody."""

    meant: set[int] = set()
    """A put of them began."""
    kept: set[int] = set()
    refused: set[int] = set()
    got: dict[int, list[int]] = {}
    """When each was got."""
    acked: dict[int, list[int]] = {}
    """When each acknowledgement was confirmed."""
    unsure: set[int] = set()
    """Somebody began to acknowledge them, and nobody knows whether that was heard."""
    damaged: int = 0
    late: int = 0
    unknown: int = 0
    forks: int = 0
    gets: int = 0
    stock: list[tuple[int, tuple[int, int, int]]] = []
    """When a producer had how many objects, how many on loan, and how many bytes."""
    left: list[tuple[int, int]] = []
    """When a producer left, and how many objects it had then."""

    def add_producer(self, lines: Iterable[PoolLine]) -> None:
        """One life of a producer."""
        for line in lines:
            match line.what:
                case PoolStep.INTENT:
                    self.meant.update(line.ids)
                case PoolStep.KEPT:
                    self.kept.update(line.ids)
                case PoolStep.REFUSED:
                    self.refused.update(line.ids)
                case PoolStep.FORKED:
                    self.forks += 1
                case PoolStep.STOCK:
                    objects, on_loan, kept = line.ids
                    self.stock.append((line.at, (objects, on_loan, kept)))
                case PoolStep.LEFT:
                    self.left.append((line.at, sum(line.ids)))
                case _:
                    pass

    def add_consumer(
        self, lines: Iterable[PoolLine], got_at: Callable[[PoolLine], int] = attrgetter("at")
    ) -> None:
        """One life of a consumer; who stood still writes down late when it got something."""
        begun: set[int] = set()
        for line in lines:
            match line.what:
                case PoolStep.GOT:
                    self.gets += 1
                    for id_ in line.ids:
                        self.got.setdefault(id_, []).append(got_at(line))
                case PoolStep.FORKED:
                    self.forks += 1
                case PoolStep.DAMAGED:
                    self.damaged += len(line.ids)
                case PoolStep.ACKING:
                    begun.update(line.ids)
                case PoolStep.ACKED:
                    begun.difference_update(line.ids)
                    for id_ in line.ids:
                        self.acked.setdefault(id_, []).append(line.at)
                case PoolStep.LATE:
                    begun.difference_update(line.ids)
                    self.late += 1
                case PoolStep.UNKNOWN:
                    self.unknown += 1
                case _:
                    pass
        self.unsure |= begun

    def of_the_dead(self, killed: Killed) -> list[int]:
        """Kept by producers that were killed, and never acknowledged."""
        return [id_ for id_ in self._unacknowledged() if life_of(id_) in killed]

    def lost(self, killed: Killed) -> list[int]:
        """Kept by the others, and certainly never acknowledged."""
        return [
            id_
            for id_ in self._unacknowledged()
            if life_of(id_) not in killed and id_ not in self.unsure
        ]

    def uncertain(self, killed: Killed) -> list[int]:
        """Kept by the others, and perhaps acknowledged."""
        return [
            id_
            for id_ in self._unacknowledged()
            if life_of(id_) not in killed and id_ in self.unsure
        ]

    def doubled(self) -> list[int]:
        """Got, or acknowledged, after an acknowledgement was confirmed."""
        return [
            id_
            for id_, times in self.acked.items()
            if len(times) > 1 or max(self.got.get(id_, [0])) > times[0]
        ]

    def foreign(self) -> list[int]:
        """Got, though nobody began to put them."""
        return sorted(self.got.keys() - self.meant)

    def undone(self) -> list[int]:
        """Got, though their put was told that they are not in the pool."""
        return sorted(self.got.keys() & self.refused)

    def left_after(self, at: int) -> int:
        """How many objects producers still had that left after that moment."""
        return sum(count for left, count in self.left if left > at)

    def redelivered(self) -> int:
        """Deliveries after the first of each object."""
        return sum(len(times) - 1 for times in self.got.values())

    def _unacknowledged(self) -> list[int]:
        return sorted(self.kept - self.acked.keys())
