"""Values by key, in the logs of a cluster: what a result backend keeps.

1. A key belongs to one of a few fifos, its *shard*, by its hash. To set a key is to put an item
   there. The item that was put last says what is so, and nothing is changed in its place.
2. A program that asks for a key reads the shard once, and from then on only what is new. It keeps
   the place of each key's last item, some 100 bytes, and the newest values.
3. A value with which a key is `final` stays: what is set later is passed over, until it is deleted.
4. Parts of a chord are counted by who they are. The first item of each part has its turn in the
   order of the shard, so all programs count the same, and a part that is said twice counts once.
   How many there are to be is an item of the same key.
5. After `expires` seconds an item is as if it were not there. Who puts also removes some that are
   so old from the head of their shard, one program at a time.
6. Who waits hears a topic, on which each key is published that may be waited for, after its item
   is safe.
"""

import threading
import time
import zlib
from collections import OrderedDict
from collections.abc import Iterable
from contextlib import suppress
from random import Random
from typing import Any, Final

import msgspec

import snowmelt
from snowmelt.client.connection.forking import watch
from snowmelt.client.leases.delivered import part_bodies, places_of, put_at_of

SET: Final = 0
FINAL: Final = 1
DELETE: Final = 2
PART: Final = 3
SIZE: Final = 4
MORE: Final = 5
SHARDS: Final = 16
SURVEYED: Final = 4096
VALUES_KEPT: Final = 2000
CLEANED: Final = 1000
CLEAN_SECONDS: Final = 300.0
_CHANCE: Final = Random()


class LogRecord(msgspec.Struct, frozen=True, array_like=True):
    """One item of a shard."""

    what: int
    key: bytes
    value: bytes
    who: bytes = b""
    """Of a part: which it is."""


class ChordParts(msgspec.Struct):
    """What is known of a chord, as far as its shard was read."""

    parts: dict[bytes, bytes] = {}
    """What each part brought, in their turn."""
    size: int = 0
    """How many there are to be, when it is known, with those that came to it later."""
    added: set[bytes] = set()

    def turn(self, who: bytes) -> int:
        """The how manieth part this was, from 1 on."""
        return list(self.parts).index(who) + 1


_ENCODE: Final = msgspec.msgpack.encode
_DECODER: Final = msgspec.msgpack.Decoder(LogRecord)


class KeyPlace(msgspec.Struct, frozen=True):
    """Where the item lies that says what a key is."""

    position: int
    put_at: float
    final: bool


class Shard:
    """One of the fifos, and what is known here of it."""

    def __init__(self, queue: Any) -> None:
        self.queue = queue
        self._next = 0
        self._places: dict[bytes, KeyPlace] = {}
        self._chords: dict[bytes, ChordParts] = {}
        self._values: OrderedDict[int, bytes] = OrderedDict()

    def read_on(self, timeout: float) -> None:
        """Reads what is new."""
        while True:
            located = self.queue.survey(self._next, items_max=SURVEYED, timeout=timeout)
            if not located.spans:
                return
            for position, put_at, record in self._read(located.spans):
                self._apply(position, put_at, record)
                self._next = position + 1

    def value(self, key: bytes, oldest: float, timeout: float) -> bytes | None:
        """The value of a key, as far as was read; None when it has none, or an older one."""
        place = self._places.get(key)
        if place is None:
            return None
        if place.put_at < oldest:
            del self._places[key]
            self._values.pop(place.position, None)
            return None
        if place.position in self._values:
            return self._values[place.position]
        located = self.queue.survey(place.position, items_max=1, timeout=timeout)
        for position, _, record in self._read(located.spans):
            if position == place.position:
                self._keep(position, record.value)
                return record.value
        return None

    def chord(self, key: bytes) -> ChordParts:
        """What is known of a chord."""
        return self._chords.setdefault(key, ChordParts())

    def _read(self, spans: Any) -> list[tuple[int, float, LogRecord]]:
        reading = self.queue.read(spans)
        if reading.unread:
            raise snowmelt.Unavailable("no node could give some results just now")
        found = []
        for part in reading.parts:
            for position, body in zip(places_of(part), part_bodies(part), strict=True):
                put_at = put_at_of(part, position)
                seconds = 0.0 if put_at is None else put_at.timestamp()
                with suppress(ValueError):  # what is no record says nothing
                    found.append((position, seconds, _DECODER.decode(body)))
        return found

    def _apply(self, position: int, put_at: float, record: LogRecord) -> None:
        before = self._places.get(record.key)
        if record.what == PART:
            self.chord(record.key).parts.setdefault(record.who, record.value)
        elif record.what == SIZE:
            self.chord(record.key).size = int(record.value)
        elif record.what == MORE:
            self.chord(record.key).added.add(record.who)
        elif record.what == DELETE:
            self._chords.pop(record.key, None)
            gone = self._places.pop(record.key, None)
            if gone is not None:
                self._values.pop(gone.position, None)
        elif before is None or not before.final:
            if before is not None:
                self._values.pop(before.position, None)
            self._places[record.key] = KeyPlace(position, put_at, record.what == FINAL)
            self._keep(position, record.value)

    def _keep(self, position: int, value: bytes) -> None:
        self._values[position] = value
        while len(self._values) > VALUES_KEPT // SHARDS:
            self._values.popitem(last=False)

    def clean(self, oldest: float, timeout: float) -> int:
        """Removes what is older at its head; how many items."""
        removed = 0
        while True:
            seen = self.queue.peek(CLEANED, timeout=timeout)
            old = 0
            for one in seen:
                if one.put_at is None or one.put_at.timestamp() >= oldest:
                    break
                old += 1
            if not old:
                return removed
            with suppress(snowmelt.Empty):
                self.queue.get_many(old, timeout=0).ack()
            removed += old


class Results:
    """All shards; threads may share it, and a child begins anew."""

    def __init__(
        self, cluster: snowmelt.Cluster, name: str, expires: float | None, timeout: float
    ) -> None:
        self._cluster = cluster
        self._name = name
        self._expires = expires
        self._timeout = timeout
        self._topic = cluster.multicast(name)
        self._clean_at = time.monotonic() + CLEAN_SECONDS * _CHANCE.random()
        self.forked()
        watch(self)

    def forked(self) -> None:
        """Nothing was read yet."""
        self._lock = threading.Lock()
        self._shards: dict[int, Shard] = {}

    def close(self) -> None:
        self._cluster.close()

    def put(self, key: bytes, value: bytes, *, final: bool = False) -> None:
        """Returns when it is safe."""
        self._log(LogRecord(FINAL if final else SET, key, value))

    def delete(self, key: bytes) -> None:
        self._log(LogRecord(DELETE, key, b""))

    def expect(self, key: bytes, size: int) -> None:
        """So many parts of a chord are to come."""
        self._log(LogRecord(SIZE, key, b"%d" % size))

    def expect_more(self, key: bytes, who: bytes) -> None:
        """One more is to come."""
        self._log(LogRecord(MORE, key, b"", who))

    def join(self, key: bytes, who: bytes, what: bytes) -> list[bytes]:
        """Counts a part; what all have brought when this was the last of them, else nothing."""
        self._log(LogRecord(PART, key, what, who))
        with self._lock:
            shard = self._shard(key)
            shard.read_on(self._timeout)
            chord = shard.chord(key)
            size = chord.size and chord.size + len(chord.added)
            if who not in chord.parts or chord.turn(who) != size:
                return []
            return list(chord.parts.values())[:size]

    def get(self, keys: Iterable[bytes]) -> list[bytes | None]:
        """The value of each key, None for one that has none; each shard is asked once."""
        asked = list(keys)
        oldest = self._oldest()
        with self._lock:
            for number in sorted({_number(key) for key in asked}):
                with suppress(snowmelt.NoSuchQueue):
                    self._numbered(number).read_on(self._timeout)
            return [self._shard(key).value(key, oldest, self._timeout) for key in asked]

    def tell(self, key: bytes) -> None:
        """Who waits for this key is to look."""
        self._topic.publish(key, timeout=self._timeout)

    def subscribe(self, timeout: float) -> Any:
        """Hears which keys are to be looked at."""
        return self._topic.subscribe(timeout=timeout)

    def clean(self) -> int:
        """Removes all that is expired; how many items. Another program may be about it already."""
        removed = 0
        for number in range(SHARDS):
            removed += self._clean(number)
        return removed

    def _clean(self, number: int) -> int:
        if self._expires is None:
            return 0
        try:
            with self._cluster.baton(f"{self._name}.clean").acquire(0):
                return Shard(self._queue(number)).clean(self._oldest(), self._timeout)
        except (snowmelt.NotGranted, snowmelt.NoSuchQueue):
            return 0

    def _log(self, record: LogRecord) -> None:
        self._queue(_number(record.key)).put(_ENCODE(record), timeout=self._timeout)
        if time.monotonic() > self._clean_at:
            self._clean_at = time.monotonic() + CLEAN_SECONDS
            self._clean(_number(record.key))

    def _oldest(self) -> float:
        return 0.0 if self._expires is None else time.time() - self._expires

    def _shard(self, key: bytes) -> Shard:
        return self._numbered(_number(key))

    def _numbered(self, number: int) -> Shard:
        shard = self._shards.get(number)
        if shard is None:
            shard = self._shards[number] = Shard(self._queue(number))
        return shard

    def _queue(self, number: int) -> snowmelt.Fifo:
        return self._cluster.fifo(f"{self._name}.{number}")


def _number(key: bytes) -> int:
    return zlib.crc32(key) % SHARDS
