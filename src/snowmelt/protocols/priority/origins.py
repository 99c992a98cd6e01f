"""Which operation made which elements of a shelf: rule 1 of the shelf, rule 11 of the package."""

from collections.abc import Iterator

import msgspec

from snowmelt.core.interval import Interval
from snowmelt.core.names import OperationId
from snowmelt.protocols.priority.batches import Share, Shares, SharesInOrder, union
from snowmelt.protocols.priority.messages import Origin
from snowmelt.protocols.priority.positions import minus


class Lot(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The small record of elements that came together."""

    shares: SharesInOrder
    origins: tuple[Origin, ...]
    until: int = 0
    """All of it is gone, and it is remembered until then, by the wall clock; 0 while there."""
    size: int = 0
    """How much there is to be read of it."""
    keys: bytes = b""
    """The priorities of its elements, where these have no number (`seap`)."""


class Origins:
    """All lots of a shelf, by their numbers and by who made them."""

    def __init__(self) -> None:
        self.lots: dict[int, Lot] = {}
        self._made: dict[OperationId, list[int]] = {}

    def remember(self, number: int, lot: Lot) -> None:
        self.lots[number] = lot
        for origin in lot.origins:
            made = self._made.setdefault(origin.operation, [])
            if number not in made:
                made.append(number)

    def forget(self, number: int) -> None:
        for origin in self.lots.pop(number).origins:
            made = self._made.get(origin.operation)
            if made is not None and number in made:
                made.remove(number)
                if not made:
                    del self._made[origin.operation]

    def knows(self, lot: Lot) -> bool:
        """Whether it is known who made all of this."""
        index = 0
        for origin in lot.origins:
            placed = [share for _, share in _placed(lot.shares, index, origin)]
            if minus(union(placed), union([share for _, share in self.by(origin.operation)])):
                return False
            index += origin.count
        return True

    @property
    def last_order(self) -> int:
        """The greatest that any element here has, or had."""
        origins = [origin for lot in self.lots.values() for origin in lot.origins]
        return max([one.order + one.count for one in origins], default=0)

    def by(self, operation: OperationId) -> list[tuple[Origin, Share]]:
        """Which elements an operation made, and which of its own they are; also what is gone."""
        found: list[tuple[Origin, Share]] = []
        for number in self._made.get(operation, ()):
            lot = self.lots[number]
            index = 0
            for origin in lot.origins:
                if origin.operation == operation:
                    found.extend(_placed(lot.shares, index, origin))
                index += origin.count
        return found

    def redone(self) -> Iterator[tuple[Origin, Share]]:
        """Where the elements are of operations that were begun anew (`attempts.py`, rule 1)."""
        for lot in self.lots.values():
            index = 0
            for origin in lot.origins:
                if origin.again:
                    yield from _placed(lot.shares, index, origin)
                index += origin.count


def _placed(shares: Shares, index: int, origin: Origin) -> Iterator[tuple[Origin, Share]]:
    """Where the elements of a lot from this index on stand, as many as the origin has."""
    at, stop = 0, index + origin.count
    for share in shares:
        for interval in share.intervals:
            low, high = max(at, index), min(at + interval.size, stop)
            if low < high:
                start = interval.start + low - at
                where = Share(share.priority, (Interval(start, start + high - low),))
                yield origin.part(low - index, high - low), where
            at += interval.size
