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


class Shelf:
    """What lies on the disk, and the changes that keep it so."""

    def __init__(self) -> None:
        self._settled: dict[int, tuple[int, IntervalSet]] = {}
        """By the parcel's start: how many objects it had, and which are settled."""

    def write(self, parcel: Parcel) -> tuple[Change, ...]:
        """Puts a parcel there."""
        whole = parcel.batch.trimmed()
        self._settled[parcel.start] = len(whole), IntervalSet()
        edges = bytes(whole.offsets)
        body = b"".join((_EDGES.pack(len(edges)), edges, whole.blob))
        return self._small(parcel.start), Write(_bulk(parcel.start), body)

    def forget(self, parcel: Parcel) -> None:
        """It could not be written."""
        del self._settled[parcel.start]

    def settle(self, parcels: Iterable[Parcel]) -> tuple[Change, ...]:
        """Takes objects off; they are parts of parcels that were put there."""
        touched: dict[int, None] = {}
        for part in parcels:
            start = self._home(part)
            self._settled[start][1].add(Interval(part.start, part.stop))
            touched[start] = None
        changes: list[Change] = []
        for start in touched:
            count, settled = self._settled[start]
            if sum(one.size for one in settled) == count:
                del self._settled[start]
                changes += [_erased(_small(start)), _erased(_bulk(start))]
            else:
                changes.append(self._small(start))
        return tuple(changes)

    def restore(self, records: Iterable[Record]) -> list[bytes]:
        """What the small records tell; returns the keys of the bulk ones, in order."""
        for record in records:
            if record.key.startswith(PREFIX):
                (start,) = _KEY.unpack(record.key[len(PREFIX) :])
                entry = msgspec.msgpack.decode(record.value, type=_Entry)
                self._settled[start] = entry.count, IntervalSet(entry.settled)
        return [_bulk(start) for start in sorted(self._settled)]

    def restored(self, found: Found) -> tuple[list[Parcel], str]:
        """What of a parcel is still to be given; or why it can't be."""
        (start,) = _KEY.unpack(found.key[len(BULK) + len(PREFIX) :])
        if not isinstance(found, Record):
            del self._settled[start]
            return [], f"objects from {start} on are damaged on the disk, and lost"
        (size,) = _EDGES.unpack_from(found.value)
        view = memoryview(found.value)
        edges = view[_EDGES.size : _EDGES.size + size]
        whole = Parcel(start, Batch(edges, view[_EDGES.size + size :]))
        gaps = IntervalSet([Interval(start, whole.stop)])
        for interval in self._settled[start][1]:
            gaps.remove(interval)
        return [whole.part(gap.start, gap.stop) for gap in gaps], ""

    @property
    def stop(self) -> int:
        """The number behind all that is there."""
        return max((start + count for start, (count, _) in self._settled.items()), default=0)

    def _home(self, part: Parcel) -> int:
        """The start of the parcel that a part was cut from."""
        if part.start in self._settled:
            return part.start
        return max(start for start in self._settled if start <= part.start)

    def _small(self, start: int) -> Write:
        count, settled = self._settled[start]
        return Write(_small(start), msgspec.msgpack.encode(_Entry(count, tuple(settled))))


def _erased(key: bytes) -> Erase:
    return Erase(key, key + b"\0")


def _small(start: int) -> bytes:
    return PREFIX + _KEY.pack(start)


def _bulk(start: int) -> bytes:
    return BULK + PREFIX + _KEY.pack(start)
