"""The objects that a producer keeps and has given to nobody: parcels, cut only where they must be.

A parcel is what was put together, or what is left of it. Nothing here handles objects one by one,
and bodies are rarely copied: when small parcels travel as one, or when less than half is left of
what was put together. Else the rest would stay in memory, and count for nothing.
"""

from collections import deque
from collections.abc import Sequence
from typing import Final

import msgspec

from snowmelt.core.batch import Batch
from snowmelt.protocols.pool.messages import SPANS_AT_ONCE, ObjectSpan

JOIN_BYTES: Final = 64 << 10
"""Parcels travel as one, copied into one blob, only while they are smaller than this together."""


class Parcel(msgspec.Struct, frozen=True):
    """Objects at adjacent numbers, in one blob."""

    start: int
    batch: Batch

    @property
    def stop(self) -> int:
        """The number behind its last object."""
        return self.start + self.batch.count

    def compact(self) -> "Parcel":
        """The same objects, without much that is no part of them."""
        batch = self.batch.compact()
        return self if batch is self.batch else Parcel(self.start, batch)

    def part(self, start: int, stop: int) -> "Parcel":
        """The objects of these numbers. O(1), nothing is copied."""
        return Parcel(start, self.batch.slice(start - self.start, stop - self.start))


def packed(parcels: Sequence[Parcel]) -> tuple[tuple[ObjectSpan, ...], bytes]:
    """Parcels as they travel: their numbers and edges, and one blob, copied only when several."""
    if len(parcels) == 1:
        batch = parcels[0].batch.trimmed()
        span = ObjectSpan(parcels[0].start, bytes(batch.offsets))
        return (span,), batch.blob  # type: ignore[return-value]  # a view is as good
    batches = [one.batch.trimmed() for one in parcels]
    pairs = zip(parcels, batches, strict=True)
    spans = tuple(ObjectSpan(one.start, bytes(batch.offsets)) for one, batch in pairs)
    return spans, b"".join(batch.blob for batch in batches)


def size_of(parcels: Sequence[Parcel]) -> int:
    """The bytes of all their bodies."""
    if len(parcels) == 1:  # as mostly
        return parcels[0].batch.size
    return sum([one.batch.size for one in parcels])


def count_of(parcels: Sequence[Parcel]) -> int:
    if len(parcels) == 1:
        return parcels[0].batch.count
    return sum([one.batch.count for one in parcels])


class Stock:
    """Parcels in a row, counted.

    >>> stock = Stock()
    >>> stock.add(Parcel(0, Batch.of([b"one", b"two", b"three"])))
    >>> [(one.start, len(one.batch)) for one in stock.take(2, 1000)], stock.count, stock.size
    ([(0, 2)], 1, 5)
    """

    def __init__(self) -> None:
        self._row: deque[Parcel] = deque()
        self.count = 0
        self.size = 0

    def add(self, parcel: Parcel) -> None:
        self._row.append(parcel)
        self.count += parcel.batch.count
        self.size += parcel.batch.size

    def put_back(self, parcels: Sequence[Parcel]) -> None:
        """To the front, in their order: they have waited longest."""
        self._row.extendleft(one.compact() for one in reversed(parcels))
        self.count += count_of(parcels)
        self.size += size_of(parcels)

    def take(self, objects_max: int, bytes_max: int) -> list[Parcel]:
        """The first objects, as many as may be, and one at least when there is any."""
        taken: list[Parcel] = []
        count = size = 0
        while self._row and count < objects_max and len(taken) < SPANS_AT_ONCE:
            part = parcel = self._row[0]
            batch = parcel.batch
            if taken and (size + batch.size > min(JOIN_BYTES, bytes_max)):
                break
            if batch.count <= objects_max - count and batch.size <= bytes_max - size:
                self._row.popleft()
            else:
                part = first_of(parcel, objects_max - count, bytes_max - size)
                if part.batch.count == batch.count:
                    self._row.popleft()
                else:
                    self._row[0] = parcel.part(part.stop, parcel.stop).compact()
            taken.append(part)
            count += part.batch.count
            size += part.batch.size
            if size >= bytes_max:
                break
        self.count -= count
        self.size -= size
        return taken

    def clear(self) -> list[Parcel]:
        row = list(self._row)
        self._row.clear()
        self.count = self.size = 0
        return row

    def check(self) -> None:
        """What is counted is what is there."""
        assert self.count == count_of(list(self._row)), f"{self.count} objects are counted"
        assert self.size == size_of(list(self._row)), f"{self.size} bytes are counted"


def first_of(parcel: Parcel, objects_max: int, bytes_max: int) -> Parcel:
    """Its first objects, as many as fit, and one at least. O(log n)."""
    count = max(1, fitting(parcel.batch, objects_max, bytes_max))
    return parcel.part(parcel.start, parcel.start + count)


def fitting(batch: Batch, objects_max: int, bytes_max: int) -> int:
    """How many of its first objects fit into so many objects and bytes. O(log n).

    >>> fitting(Batch.of([b"one", b"two", b"three"]), 5, 7)
    2
    """
    if batch.count <= objects_max and batch.size <= bytes_max:
        return batch.count
    low, high = 0, max(0, min(objects_max, batch.count))
    if batch.slice(0, high).size <= bytes_max:
        return high
    while low < high:
        middle = (low + high + 1) // 2
        if batch.slice(0, middle).size <= bytes_max:
            low = middle
        else:
            high = middle - 1
    return high
