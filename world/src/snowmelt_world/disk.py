"""A node's disk: an ordered map with atomic steps, a flush that takes time, and honest checksums.

What was asked and not yet flushed hangs in the air. A crash keeps a prefix of it, drawn by chance;
a power failure keeps none; a torn write keeps a prefix and the first part of the step after it, the
last record cut short. A flipped bit stays where it is until something is written over it. Checksums
cover the key and the value, as the real store's do, so damage is found on reading.

A disk that fails does so at a flush: a prefix of what hung in the air is on it, and it takes
nothing more until the process has ended, as a store does that no longer knows what is there. One
that becomes full in the middle of a flush has what there was room for, and no trace of the rest.

A disk never holds two hurt records at once. What a family must survive is one: it keeps a second
copy of what it can't be without, here or on another node, and no number of copies survives every
number of hurts.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable
from enum import Enum
from random import Random
from typing import Final
from zlib import crc32

import msgspec

from snowmelt.core.node import Load, Loaded, Persist, Persisted, PersistFailed, Scan, Started
from snowmelt.core.record import BULK, Change, Damaged, Found, Missing, Record, Write, scanned


class Ending(Enum):
    """How a process came to its end, as its disk sees it."""

    CRASH = "crash"
    POWER = "power"
    TORN = "torn"


class Copy(msgspec.Struct, frozen=True):
    """What was on a disk at a moment."""

    keys: tuple[bytes, ...]
    values: dict[bytes, tuple[bytes, int]]


NOTHING: Final = Copy((), {})
"""What is on a new disk."""


class Disk:
    """What outlives a process.

    >>> disk = Disk(Random(0))
    >>> disk.ask(Persist(1, (Write(b"a", b"1"),)))
    >>> disk.end(Ending.POWER); disk.start().records
    ()
    """

    def __init__(self, chance: Random) -> None:
        self.full = False
        self.room: int | None = None  # for so many steps more; None while there is enough
        self.failing = False  # at its next flush
        self.failed = False
        self._chance = chance
        self._keys: list[bytes] = []
        self._values: dict[bytes, tuple[bytes, int]] = {}
        self._asked: list[Persist] = []

    def ask(self, persist: Persist) -> None:
        """A step is wanted; it is not safe yet."""
        self._asked.append(persist)

    @property
    def uncertain(self) -> bool:
        """Whether what hangs in the air may find no room, or meet the disk's failure."""
        return self.failing or self.room is not None

    def flush(self) -> list[Persisted | PersistFailed]:
        """Everything asked so far is safe, or isn't: the answers, in the order asked."""
        asked, self._asked = self._asked, []
        if self.failing:
            return self._fail(asked)
        fits = asked if self.room is None else asked[: self.room]
        for persist in fits:
            self._apply(persist.changes)
        if self.room is not None:
            self.room -= len(fits)
            self.full = self.full or len(fits) < len(asked)
        answers: list[Persisted | PersistFailed] = [Persisted(one.ticket) for one in fits]
        return answers + [self.refusal(one.ticket) for one in asked[len(fits) :]]

    def refusal(self, ticket: int) -> PersistFailed:
        """What a step is answered that this disk does not take."""
        if self.failed:
            return PersistFailed(ticket, "the disk failed", fatal=True)
        return PersistFailed(ticket, "no space left on the disk")

    def _fail(self, asked: list[Persist]) -> list[Persisted | PersistFailed]:
        self.failed = True
        for persist in asked[: self._chance.randrange(len(asked) + 1)]:
            self._apply(persist.changes)
        return [self.refusal(persist.ticket) for persist in asked]

    def copy(self) -> Copy:
        """What is flushed now."""
        return Copy(tuple(self._keys), dict(self._values))

    def put_back(self, copy: Copy) -> None:
        """It is what it was when this copy was taken. No process runs on it."""
        self._keys, self._values = list(copy.keys), dict(copy.values)

    def end(self, ending: Ending) -> None:
        """The process is gone; decides what remains of what hung in the air."""
        asked, self._asked = self._asked, []
        self.failed = False
        if ending is Ending.POWER or not asked:
            return
        kept = self._chance.randrange(len(asked) + 1)
        if ending is Ending.TORN:  # one step at least was on its way
            kept = min(kept, len(asked) - 1)
        for persist in asked[:kept]:
            self._apply(persist.changes)
        if ending is Ending.TORN and not self._hurt():
            self._tear(asked[kept].changes)

    def start(self, wall: int = 0) -> Started:
        """What a process finds when it begins, at this time of the wall clock."""
        records: list[Record] = []
        damaged: list[bytes] = []
        for key in self._keys:
            if key.startswith(BULK):
                continue
            match self._read(key):
                case Record() as record:
                    records.append(record)
                case _:
                    damaged.append(key)
        return Started(tuple(records), tuple(damaged), wall)

    def answer(self, effect: Load | Scan) -> Loaded:
        match effect:
            case Load(ticket, keys):
                return Loaded(ticket, self.load(keys))
            case Scan(ticket, start, stop, bytes_max):
                return Loaded(ticket, self.scan(start, stop, bytes_max))

    def load(self, keys: Iterable[bytes]) -> tuple[Found, ...]:
        """What is under these keys, seeing every step that was asked before."""
        asked = self._hanging()
        return tuple(self._seen(key, asked) for key in keys)

    def scan(self, start: bytes, stop: bytes, bytes_max: int) -> tuple[Record | Damaged, ...]:
        """What is in a range, as far as one `Scan` goes, seeing every step asked before."""
        asked = self._hanging()
        there = self._keys[bisect_left(self._keys, start) : bisect_left(self._keys, stop)]
        keys = sorted({*there, *(key for key in asked if start <= key < stop)})
        found = (self._seen(key, asked) for key in keys)
        return tuple(scanned((one for one in found if not isinstance(one, Missing)), bytes_max))

    def _hanging(self) -> dict[bytes, bytes | None]:
        """What the steps that hang in the air will make of the keys they touch; None: nothing."""
        asked: dict[bytes, bytes | None] = {}
        for persist in self._asked:
            for change in persist.changes:
                if isinstance(change, Write):
                    asked[change.key] = change.value
                else:
                    for key in [*self._keys, *asked]:
                        if change.start <= key < change.stop:
                            asked[key] = None
        return asked

    def _seen(self, key: bytes, asked: dict[bytes, bytes | None]) -> Found:
        if key not in asked:
            return self._read(key)
        value = asked[key]
        return Missing(key) if value is None else Record(key, value)

    def flip(self) -> bytes | None:
        """Turns one bit of one value round; returns its key, or None when the disk is empty."""
        candidates = [key for key in self._keys if self._values[key][0]]
        if not candidates or self._hurt():
            return None
        key = self._chance.choice(candidates)
        value, check = self._values[key]
        bit = self._chance.randrange(8 * len(value))
        flipped = bytearray(value)
        flipped[bit // 8] ^= 1 << bit % 8
        self._values[key] = bytes(flipped), check
        return key

    def _hurt(self) -> bool:
        return any(isinstance(self._read(key), Damaged) for key in self._keys)

    def _read(self, key: bytes) -> Found:
        held = self._values.get(key)
        if held is None:
            return Missing(key)
        value, check = held
        return Record(key, value) if crc32(value, crc32(key)) == check else Damaged(key)

    def _apply(self, changes: Iterable[Change]) -> None:
        for change in changes:
            if isinstance(change, Write):
                self._put(change.key, change.value, crc32(change.value, crc32(change.key)))
            else:
                first = bisect_left(self._keys, change.start)
                last = bisect_left(self._keys, change.stop)
                for key in self._keys[first:last]:
                    del self._values[key]
                del self._keys[first:last]

    def _tear(self, changes: tuple[Change, ...]) -> None:
        self._apply(changes[:-1])
        last = changes[-1] if changes else None
        if isinstance(last, Write) and last.value:
            kept = self._chance.randrange(len(last.value))
            self._put(last.key, last.value[:kept], crc32(last.value, crc32(last.key)))

    def _put(self, key: bytes, value: bytes, check: int) -> None:
        if key not in self._values:
            insort(self._keys, key)
        self._values[key] = value, check
