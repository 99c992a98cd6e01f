"""A producer's disk: objects are there before their put is answered, and until they are settled.

One bulk record for each parcel that was put, and one small one that says which of its objects are
settled; both are erased with the last of them (rule 13). Of a parcel that was taken over the small
one says from whom, under which number and token, and when its objects are done another record says
it still, until that is forgotten (rule 16). A folder without such records is read as it always was.
"""

import struct
from collections.abc import Iterable
from typing import Annotated, Final, TypeVar

import msgspec

from snowmelt.core.batch import Batch
from snowmelt.core.errors import StoreVersion
from snowmelt.core.interval import Interval, IntervalSet, without
from snowmelt.core.names import NodeId
from snowmelt.core.record import BULK, Change, Found, Record, Write, erase
from snowmelt.protocols.pool.stock import Parcel

_KEY: Final = struct.Struct(">Q")
_EDGES: Final = struct.Struct(">I")
PREFIX: Final = b"parcel/"
TAKEN: Final = b"taken/"


T = TypeVar("T")


class TakenOver(msgspec.Struct, frozen=True, array_like=True):
    """From whom a parcel was taken over, and by which answer."""

    leaver: NodeId
    number: Annotated[int, msgspec.Meta(ge=0)]
    token: int


class _Entry(msgspec.Struct, array_like=True):
    """How many objects a parcel had, and which of them are settled."""

    count: int
    settled: tuple[Interval, ...] = ()
    taken: TakenOver | None = None


class _Stored(msgspec.Struct):
    count: int
    settled: IntervalSet
    """With what the disk is being told."""
    told: int
    """How many of them the disk has been told."""
    taken: TakenOver | None = None
    """Whose it was, as long as that is remembered."""


class Shelf:
    """What lies on the disk, and the changes that keep it so."""

    def __init__(self) -> None:
        self._stored: dict[int, _Stored] = {}
        """By the parcel's start."""
        self._homes: dict[int, int | None] = {}
        """The starts of what was taken over, by its number; None for what is done."""
        self._restored: list[TakenOver] = []

    def write(self, parcel: Parcel, taken: TakenOver | None = None) -> tuple[Change, ...]:
        """Puts a parcel there: its bodies first, so that one is never named that is not there."""
        whole = parcel.batch.trimmed()
        self._stored[parcel.start] = _Stored(len(whole), IntervalSet(), 0, taken)
        if taken is not None:
            self._homes[taken.number] = parcel.start
        edges = bytes(whole.offsets)
        body = b"".join((_EDGES.pack(len(edges)), edges, whole.blob))
        return Write(_bulk(parcel.start), body), self._small(parcel.start)

    def forget(self, parcel: Parcel) -> None:
        """It could not be written."""
        taken = self._stored.pop(parcel.start).taken
        if taken is not None:
            del self._homes[taken.number]

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
                if stored.taken is not None:
                    changes.append(_remembered(stored.taken))
                changes += [erase(_small(start)), erase(_bulk(start))]
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
                if stored.taken is not None:
                    self._homes[stored.taken.number] = None

    def unsettled(self, parcels: Iterable[Parcel]) -> None:
        """The disk could not be told: these are to be settled again."""
        for part in parcels:
            self._stored[self._home(part)].settled.remove(Interval(part.start, part.stop))

    def forget_taken(self, number: int) -> tuple[Change, ...]:
        """Nobody asks any more whose this was; what the disk says of a parcel goes with it."""
        if number not in self._homes:
            return ()
        home = self._homes.pop(number)
        if home is not None:
            stored = self._stored[home]
            stored.taken = None
            if stored.settled.total < stored.count:
                return ()
        return (erase(_taken(number)),)

    def restore(self, records: Iterable[Record]) -> list[bytes]:
        """What the small records tell; returns the keys of the bulk ones, in order."""
        for record in records:
            if record.key.startswith(TAKEN):
                self._remember(_decoded(record, TakenOver), None)
            elif record.key.startswith(PREFIX):
                (start,) = _KEY.unpack(record.key[len(PREFIX) :])
                entry = _decoded(record, _Entry)
                settled = IntervalSet(entry.settled)
                self._stored[start] = _Stored(entry.count, settled, settled.total, entry.taken)
                if entry.taken is not None:
                    self._remember(entry.taken, start)
        return [_bulk(start) for start in sorted(self._stored)]

    @property
    def taken(self) -> tuple[TakenOver, ...]:
        """All that was taken over and is remembered, as a new life found it."""
        return tuple(self._restored)

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
        gaps = without([Interval(start, whole.stop)], list(self._stored[start].settled))
        return [whole.part(gap.start, gap.stop) for gap in gaps], ""

    def _remember(self, taken: TakenOver, home: int | None) -> None:
        self._restored.append(taken)
        self._homes[taken.number] = home

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
        entry = _Entry(stored.count, tuple(stored.settled), stored.taken)
        return Write(_small(start), msgspec.msgpack.encode(entry))


def _remembered(taken: TakenOver) -> Write:
    return Write(_taken(taken.number), msgspec.msgpack.encode(taken))


def _decoded(record: Record, kind: type[T]) -> T:
    try:
        return msgspec.msgpack.decode(record.value, type=kind)
    except msgspec.MsgspecError as error:
        key = bytes(record.key)
        raise StoreVersion(
            f"the record {key!r} of this spill can't be read: {error}; have its objects taken by "
            "the version of Snowmelt that wrote it, or spill into another folder"
        ) from error


def _taken(number: int) -> bytes:
    return TAKEN + _KEY.pack(number)


def _small(start: int) -> bytes:
    return PREFIX + _KEY.pack(start)


def _bulk(start: int) -> bytes:
    return BULK + PREFIX + _KEY.pack(start)
