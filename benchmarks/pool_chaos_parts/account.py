"""All journals together, object by object."""

from collections.abc import Callable, Iterable
from operator import attrgetter

import msgspec
from benchmarks.pool_chaos_parts.journal import Line, What
from benchmarks.pool_chaos_parts.plan import life_of

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
    left: list[tuple[int, int]] = []
    """When a producer left, and how many objects it had then."""

    def add_producer(self, lines: Iterable[Line]) -> None:
        """One life of a producer."""
        for line in lines:
            match line.what:
                case What.INTENT:
                    self.meant.update(line.ids)
                case What.KEPT:
                    self.kept.update(line.ids)
                case What.REFUSED:
                    self.refused.update(line.ids)
                case What.FORKED:
                    self.forks += 1
                case What.LEFT:
                    self.left.append((line.at, sum(line.ids)))
                case _:
                    pass

    def add_consumer(
        self, lines: Iterable[Line], got_at: Callable[[Line], int] = attrgetter("at")
    ) -> None:
        """One life of a consumer; who stood still writes down late when it got something."""
        begun: set[int] = set()
        for line in lines:
            match line.what:
                case What.GOT:
                    for id_ in line.ids:
                        self.got.setdefault(id_, []).append(got_at(line))
                case What.FORKED:
                    self.forks += 1
                case What.DAMAGED:
                    self.damaged += len(line.ids)
                case What.ACKING:
                    begun.update(line.ids)
                case What.ACKED:
                    begun.difference_update(line.ids)
                    for id_ in line.ids:
                        self.acked.setdefault(id_, []).append(line.at)
                case What.LATE:
                    begun.difference_update(line.ids)
                    self.late += 1
                case What.UNKNOWN:
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
