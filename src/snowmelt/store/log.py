"""The commit log: one write, waited for once, makes a commit safe.

A commit of the engine waits for the disk twice, for its pages and then for its root. So what is
small is written here first, and the engine gets many commits in one transaction, later. Whoever
reads sees them in memory until then (`table.py`).

Rules:

1. The file is made as long as it will ever be, with zeros, before it gets its name. A record is
   written over what is there: nothing but its bytes is flushed, and no disk is too full for it.
2. A record is one commit. It begins on a page, and there are two copies of it, one after the other,
   made by one write. What was told to be safe has two sound copies, so that one injury leaves one.
   Where neither copy of the last record is sound, its write was cut off, and nobody was told.
3. A record says its generation, which is the number of the engine's last commit when the log began.
   The engine's next commit takes all that is in the log and has another number, and by that the
   log is empty: there is nothing else to write, and no crash comes in between. The next record is
   written at the front, and what is left of earlier generations counts for nothing.
4. A record says its place, and is written when the one before it is safe. So where a sound one
   stands behind a gap, what is missing was safe once: the log is damaged. Likewise when it is of a
   later generation than the engine: the engine lost a commit.
5. What an opening finds in the log goes into the engine before anything else is written. So no
   record ever follows one that was torn.
"""

import os
import struct
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
from google_crc32c import extend
from google_crc32c import value as begun

from snowmelt.core.errors import StoreDamaged
from snowmelt.core.record import Change, Erase, Write
from snowmelt.store.changes import PAGE, Group
from snowmelt.store.folder import INSTEAD, flush_folder

LOG_NAME: Final = "log"
LOG_BYTES: Final = 2 << 20
_HEAD: Final = struct.Struct("<IIQQ")
"""Checksum of all that follows, length of the changes, generation, place."""
_CHECKSUM_BYTES: Final = 4
_ENCODE: Final = msgspec.msgpack.Encoder().encode
_DECODE: Final = msgspec.msgpack.Decoder(list[list[bytes]]).decode
"""A write is its key and its value; an erasing is its start, its stop, and nothing."""


class _Sound(NamedTuple):
    """A record whose checksum fits."""

    generation: int
    place: int
    changes: bytes


def make_log(folder: Path) -> None:
    """Makes the file under another name first, so that under its own it is whole (rule 1)."""
    fresh = folder / (LOG_NAME + ".new")
    try:
        handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(bytes(LOG_BYTES))
            file.flush()
            os.fsync(file.fileno())
    except OSError:
        fresh.unlink(missing_ok=True)  # half of it would keep the room that others need
        raise
    fresh.replace(folder / LOG_NAME)
    flush_folder(folder)


def is_written(folder: Path) -> bool:
    """Whether there is a log that has had a record."""
    file = folder / LOG_NAME
    return file.exists() and any(file.read_bytes())


class WriteAheadLog:
    """The log of a store that is open.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     make_log(Path(folder))
    ...     log = WriteAheadLog(Path(folder), b"store-01", flush=True)
    ...     log.begin(7)
    ...     log.append([[Write(b"view", b"7")], [Erase(b"a", b"b")]])
    ...     log.close()
    ...     list(WriteAheadLog(Path(folder), b"store-01", flush=True).replayed(7))
    True
    [Write(key=b'view', value=b'7'), Erase(start=b'a', stop=b'b')]
    """

    def __init__(self, folder: Path, identity: bytes, *, flush: bool) -> None:
        self.generation = 0
        self._file = folder / LOG_NAME
        self._identity = identity
        self._end = 0
        try:
            self._handle = os.open(self._file, os.O_RDWR | (os.O_DSYNC if flush else 0))
        except FileNotFoundError:
            raise self._damaged("it is gone") from None
        length = os.fstat(self._handle).st_size
        if length != LOG_BYTES:
            self.close()
            raise self._damaged(f"it has {length} bytes, of {LOG_BYTES}")

    @property
    def empty(self) -> bool:
        """Whether the engine has all that was committed."""
        return not self._end

    def begin(self, generation: int) -> None:
        """From now on what is here comes after this commit of the engine (rule 3)."""
        self.generation = generation
        self._end = 0

    def append(self, groups: Sequence[Group]) -> bool:
        """Makes these safe, together; False when there is no room for them left."""
        changes = _ENCODE(
            [
                (one.key, one.value) if type(one) is Write else (one.start, one.stop, b"")
                for one in chain.from_iterable(groups)
            ]
        )
        length = len(changes)
        size = _size(length)
        if self._end + 2 * size > LOG_BYTES:
            return False
        head = _HEAD.pack(0, length, self.generation, self._end)[_CHECKSUM_BYTES:]
        checksum = self._checksum(head, changes).to_bytes(_CHECKSUM_BYTES, "little")
        copy = b"".join((checksum, head, changes)).ljust(size, b"\0")
        place, self._end = self._end, self._end + 2 * size  # should this fail, it isn't empty
        data = memoryview(copy + copy)
        while data:  # what is written in part tells only the next time why: no room, perhaps
            count = os.pwrite(self._handle, data, place)
            place, data = place + count, data[count:]
        return True

    def replayed(self, generation: int) -> Iterator[Change]:
        """What was committed after this commit of the engine, in order; begins there."""
        self.begin(generation)
        found: dict[int, bytes] = {}
        for sound in self._sound(os.pread(self._handle, LOG_BYTES, 0)):
            if sound.generation > generation:
                raise self._damaged(
                    f"it goes on from commit {sound.generation} of the records, and they end with "
                    f"{generation}"
                )
            found[sound.place] = sound.changes
        while (changes := found.pop(self._end, None)) is not None:
            self._end += 2 * _size(len(changes))
            yield from _decoded(changes)
        if found:
            raise self._damaged(f"a record at byte {self._end} is lost, and later ones are there")

    def erase(self) -> None:
        """Overwrites with zeros what the engine has, which gets another file."""
        assert self.empty, "the engine does not have all"
        data = memoryview(bytes(LOG_BYTES))
        while data:
            data = data[os.pwrite(self._handle, data, LOG_BYTES - len(data)) :]

    def flush(self) -> None:
        """For a log that was not flushed by its writes."""
        os.fsync(self._handle)

    def close(self) -> None:
        os.close(self._handle)

    def _sound(self, data: bytes) -> Iterator[_Sound]:
        """Each copy whose checksum fits, of this generation or a later one, in any order."""
        for at in range(0, len(data) - PAGE + 1, PAGE):
            checksum, length, generation, place = _HEAD.unpack_from(data, at)
            body = at + _HEAD.size
            if generation >= self.generation and at in (place, place + _size(length)):
                head, changes = data[at + _CHECKSUM_BYTES : body], data[body : body + length]
                if len(changes) == length and self._checksum(head, changes) == checksum:
                    yield _Sound(generation, place, changes)

    def _checksum(self, head: bytes, changes: bytes) -> int:
        checksum: int = extend(begun(self._identity + head), changes)
        return checksum

    def _damaged(self, what: str) -> StoreDamaged:
        return StoreDamaged(
            f"{self._file} is damaged ({what}); nothing of the folder is served: {INSTEAD}"
        )


def _size(length: int) -> int:
    """Bytes of the pages that one copy of a record takes."""
    return -(-(_HEAD.size + length) // PAGE) * PAGE


def _decoded(changes: bytes) -> Iterable[Change]:
    for first, second, *erased in _DECODE(changes):
        yield Erase(first, second) if erased else Write(first, second)
