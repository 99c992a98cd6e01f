"""How many parts of each chord are done: counted in the logs of a cluster.

1. A chord belongs to one of a few fifos, its *shard*, by the hash of its key. A program that counts
   reads the shard once, and from then on only what is new.
2. Parts are counted by who they are. The first item of each part has its turn in the order of the
   shard, so all programs count the same, and a part that is said twice counts once. How many there
   are to be is an item of the same key.
3. An item that is older than `expires` seconds is removed from the head of its shard by who puts,
   one program at a time.
"""

import threading
import time
import zlib
from contextlib import suppress
from random import Random
from typing import Any, Final

import msgspec

import snowmelt
from snowmelt.client.connection.forking import watch
from snowmelt.client.leases.delivered import part_bodies, places_of

PART: Final = 0
SIZE: Final = 1
MORE: Final = 2
END: Final = 3
SHARDS: Final = 16
SURVEYED: Final = 4096
CLEANED: Final = 1000
CLEAN_SECONDS: Final = 300.0
_CHANCE: Final = Random()


class LogRecord(msgspec.Struct, frozen=True, array_like=True):
    """One item of a shard."""

    what: int
    key: bytes
    value: bytes = b""
    who: bytes = b""
    """Of a part: which it is."""


class ChordParts(msgspec.Struct):
    """What is known of a chord, as far as its shard was read."""

    parts: dict[bytes, bytes] = {}
    """What each part brought, in their turn."""
    size: int = 0
    """How many there are to be, when it is known, with those that came to it later."""
    added: set[bytes] = set()

    def hear(self, record: LogRecord) -> None:
        """What an item says."""
        if record.what == PART:
            self.parts.setdefault(record.who, record.value)
        elif record.what == SIZE:
            self.size = int(record.value)
        elif record.what == MORE:
            self.added.add(record.who)

    def all_with(self, who: bytes) -> list[bytes]:
        """What all parts brought when this was the last of them; else nothing."""
        size = self.size and self.size + len(self.added)
        if who not in self.parts or list(self.parts).index(who) + 1 != size:
            return []
        return list(self.parts.values())[:size]


_ENCODE: Final = msgspec.msgpack.encode
_DECODER: Final = msgspec.msgpack.Decoder(LogRecord)


class Shard:
    """One of the fifos, and what is known here of its chords."""

    def __init__(self, queue: snowmelt.Fifo) -> None:
        self._queue = queue
        self._next = 0
        self._chords: dict[bytes, ChordParts] = {}

    def chord(self, key: bytes, timeout: float) -> ChordParts:
        """A chord, after what is new was read."""
        while (
            located := self._queue.survey(self._next, items_max=SURVEYED, timeout=timeout)
        ).spans:
            for position, record in self._read(located.spans):
                if record is not None and record.what == END:
                    self._chords.pop(record.key, None)
                elif record is not None:
                    self._chords.setdefault(record.key, ChordParts()).hear(record)
                self._next = position + 1
        return self._chords.get(key, ChordParts())

    def clean(self, oldest: float, timeout: float) -> int:
        """Removes what is older at its head; how many items."""
        removed = 0
        while True:
            old = 0
            for one in self._queue.peek(CLEANED, timeout=timeout):
                if one.put_at is None or one.put_at.timestamp() >= oldest:
                    break
                old += 1
            if not old:
                return removed
            with suppress(snowmelt.Empty):
                self._queue.get_many(old, timeout=0).ack()
            removed += old

    def _read(self, spans: Any) -> list[tuple[int, LogRecord | None]]:
        reading = self._queue.read(spans)
        if reading.unread:
            raise snowmelt.Unavailable("no node could give some parts of a chord just now")
        found: list[tuple[int, LogRecord | None]] = []
        for part in reading.parts:
            for position, body in zip(places_of(part), part_bodies(part), strict=True):
                try:
                    found.append((position, _DECODER.decode(body)))
                except ValueError:  # what is no record says nothing
                    found.append((position, None))
        return found


class Chords:
    """All shards; threads may share it, and a child begins anew."""

    def __init__(
        self, cluster: snowmelt.Cluster, name: str, expires: float | None, timeout: float
    ) -> None:
        self._cluster = cluster
        self._name = name
        self._expires = expires
        self._timeout = timeout
        self._clean_at = time.monotonic() + CLEAN_SECONDS * _CHANCE.random()
        self.forked()
        watch(self)

    def forked(self) -> None:
        """Nothing was read yet."""
        self._lock = threading.Lock()
        self._shards: dict[int, Shard] = {}

    def expect(self, key: bytes, size: int) -> None:
        """So many parts of a chord are to come."""
        self._log(LogRecord(SIZE, key, b"%d" % size))

    def expect_more(self, key: bytes, who: bytes) -> None:
        """One more is to come."""
        self._log(LogRecord(MORE, key, who=who))

    def join(self, key: bytes, who: bytes, what: bytes) -> list[bytes]:
        """Counts a part; what all have brought when this was the last of them, else nothing."""
        self._log(LogRecord(PART, key, what, who))
        with self._lock:
            number = _number(key)
            if number not in self._shards:
                self._shards[number] = Shard(self._queue(number))
            return self._shards[number].chord(key, self._timeout).all_with(who)

    def end(self, key: bytes) -> None:
        """Nobody counts this one any more."""
        self._log(LogRecord(END, key))

    def clean(self) -> int:
        """Removes all that is expired; how many items. Another program may be about it already."""
        return sum(map(self._clean, range(SHARDS)))

    def _clean(self, number: int) -> int:
        if self._expires is None:
            return 0
        try:
            with self._cluster.baton(f"{self._name}.clean").acquire(0):
                oldest = time.time() - self._expires
                return Shard(self._queue(number)).clean(oldest, self._timeout)
        except (snowmelt.NotGranted, snowmelt.NoSuchQueue):
            return 0

    def _log(self, record: LogRecord) -> None:
        self._queue(_number(record.key)).put(_ENCODE(record), timeout=self._timeout)
        if time.monotonic() > self._clean_at:
            self._clean_at = time.monotonic() + CLEAN_SECONDS
            self._clean(_number(record.key))

    def _queue(self, number: int) -> snowmelt.Fifo:
        return self._cluster.fifo(f"{self._name}.{number}")


def _number(key: bytes) -> int:
    return zlib.crc32(key) % SHARDS
