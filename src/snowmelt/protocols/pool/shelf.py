"""A producer's disk: objects are there before their put is answered, and until they are settled.

One bulk record for each parcel that was put, and one small one that says which of its objects are
settled; both are erased with the last of them (rule 13).
"""

import struct
from collections.abc import Iterable
from typing import Final

import msgspec

from snowmelt.core.batch import Batch
from snowmelt.core.interval import Interval, IntervalSet
from snowmelt.core.record import BULK, Change, Erase, Found, Record, Write
from snowmelt.protocols.pool.stock import Parcel

_KEY: Final = struct.Struct(">Q")
_EDGES: Final = struct.Struct(">I")
PREFIX: Final = b"parcel/"


class _Entry(msgspec.Struct, array_like=True):
    """How many objects a parcel had, and which of them are settled."""

    count: int
    settled: tuple[Interval, ...] = ()


class _Stored(msgspec.Struct):
    """One parcel, as this process knows it."""

    count: int
    settled: IntervalSet
    """With what the disk is being told."""
    told: int
    """How many of them the disk has been told."""


class Shelf:
    """What lies on the disk, and the changes that keep it so."""

    def __init__(self) -> None:
        self._stored: dict[int, _Stored] = {}
        """By the parcel's start."""

    def write(self, parcel: Parcel) -> tuple[Change, ...]:
        """Puts a parcel there."""
        whole = parcel.batch.trimmed()
        self._stored[parcel.start] = _Stored(len(whole), IntervalSet(), 0)
        edges = bytes(whole.offsets)
        body = b"".join((_EDGES.pack(len(edges)), edges, whole.blob))
        return self._small(parcel.start), Write(_bulk(parcel.start), body)

    def forget(self, parcel: Parcel) -> None:
        """It could not be written."""
        del self._stored[parcel.start]

    def settle(self, parcels: Iterable[Parcel]) -> tuple[Change, ...]:
        """Takes objects off; they are parts of parcels that were put there.

        Then comes `settled` or `unsettled`. Others may be taken off before that, and what the disk
        is told for those names these too.
        """
        touched: dict[int, _Stored] = {}
        for part in parcels:
            start = self._home(part)
            touched[start] = self._stored[start]
            touched[start].settled.add(Interval(part.start, part.stop))
        changes: list[Change] = []
        for start, stored in touched.items():
            if stored.settled.total == stored.count:
                changes += [_erased(_small(start)), _erased(_bulk(start))]
            else:
                changes.append(self._small(start))
        return tuple(changes)

    def settled(self, parcels: Iterable[Parcel]) -> None:
        """The disk has been told; a parcel of which nothing is left is forgotten."""
        for part in parcels:
            start = self._home(part)
            stored = self._stored[start]
            stored.told += len(part.batch)
            if stored.told == stored.count:
                del self._stored[start]

    def unsettled(self, parcels: Iterable[Parcel]) -> None:
        """The disk could not be told: these are to be settled again."""
        for part in parcels:
            self._stored[self._home(part)].settled.remove(Interval(part.start, part.stop))

    def restore(self, records: Iterable[Record]) -> list[bytes]:
        """What the small records tell; returns the keys of the bulk ones, in order."""
        for record in records:
            if record.key.startswith(PREFIX):
                (start,) = _KEY.unpack(record.key[len(PREFIX) :])
                entry = msgspec.msgpack.decode(record.value, type=_Entry)
                settled = IntervalSet(entry.settled)
                self._stored[start] = _Stored(entry.count, settled, settled.total)
        return [_bulk(start) for start in sorted(self._stored)]

    def restored(self, found: Found) -> tuple[list[Parcel], str]:
        """What of a parcel is still to be given; or why it can't be."""
        (start,) = _KEY.unpack(found.key[len(BULK) + len(PREFIX) :])
        if not isinstance(found, Record):
            del self._stored[start]
            return [], f"objects from {start} on are damaged on the disk, and lost"
        (size,) = _EDGES.unpack_from(found.value)
        view = memoryview(found.value)
        edges = view[_EDGES.size : _EDGES.size + size]
        whole = Parcel(start, Batch(edges, view[_EDGES.size + size :]))
        gaps = IntervalSet([Interval(start, whole.stop)])
        for interval in self._stored[start].settled:
            gaps.remove(interval)
        return [whole.part(gap.start, gap.stop) for gap in gaps], ""

    @property
    def stop(self) -> int:
        """The number behind all that is there."""
        return max((start + one.count for start, one in self._stored.items()), default=0)

    def _home(self, part: Parcel) -> int:
        """The start of the parcel that a part was cut from."""
        if part.start in self._stored:
            return part.start
        return max(start for start in self._stored if start <= part.start)

    def _small(self, start: int) -> Write:
        stored = self._stored[start]
        entry = _Entry(stored.count, tuple(stored.settled))
        return Write(_small(start), msgspec.msgpack.encode(entry))


def _erased(key: bytes) -> Erase:
    return Erase(key, key + b"\0")


def _small(start: int) -> bytes:
    return PREFIX + _KEY.pack(start)


def _bulk(start: int) -> bytes:
    return BULK + PREFIX + _KEY.pack(start)
