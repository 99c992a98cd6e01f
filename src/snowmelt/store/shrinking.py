"""What was erased is given back to the disk: the records that live move to a new file, in slices.

The engine uses again what was erased, but its file never gets shorter. So when half of a long file
has been free for a while, its records are copied to a new file, which then takes its place.

Rules:

1. Until the end the old file is the store. It is written, flushed and read as ever. A crash loses
   the copy and nothing else; who opens the store next removes it.
2. The copy has all records whose keys are below `reached`, as of the engine's last commit. A slice
   adds the records that follow. What the engine commits meanwhile is made in the copy too, as far
   as it is below `reached`; the rest comes with a later slice.
3. A slice is flushed with itself. What is made between two slices is not, so no put waits for the
   copy's disk.
4. Copying takes a twentieth of the time: after a slice there is none for nineteen times as long.
5. The end, in one turn of the writer: the engine gets what the log holds; the copy is flushed; the
   log is overwritten with zeros, for its records name commits of the old file; the copy takes the
   name of the old file. A crash between any two of these leaves a whole store.
6. The old file is then cut off piece by piece, with pauses twice as long: to free a gigabyte
   takes a file system a third of a second, and it writes that down with the next flush of a put.
   The file stays mapped until then, since to unmap ten of them at once takes a quarter of a second.
   Nobody reads it any more.
7. What fails in the copy ends the copy alone, and it is tried again later. A put that finds no room
   ends it too, and gets the room that the copy had.
8. Where items come and go faster than they are copied, a copy might never be whole. So it ends when
   twice as much was copied as there was at its beginning.
"""

import contextlib
import os
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from time import monotonic
from typing import Final

import lmdb

from snowmelt.core.errors import StoreError
from snowmelt.core.record import KEY_BYTES_MAX, Change, Erase, Write
from snowmelt.store.engine import fresh_name, make_change, make_empty, open_file, remove
from snowmelt.store.folder import flush_folder
from snowmelt.store.room import Room

SPARE_MIN: Final = 64 << 20
"""Bytes that have to be free before it is worth to copy; and at least half of the file."""
LOOK_SECONDS: Final = 10.0
"""It begins when two looks so far apart find that."""
AGAIN_SECONDS: Final = 300.0
"""After a copy that failed."""
_SLICE_BYTES: Final = 2 << 20
_CUT_BYTES: Final = 16 << 20
_SHARE: Final = 20
"""Of the time, one part in so many is for the copy (rule 4)."""
_ALL: Final = b"\xff" * (KEY_BYTES_MAX + 2)
"""Above all keys there are."""


class RecordsCopy:
    """The new file while it is made."""

    def __init__(self, file: Path, identity: bytes, map_size: int) -> None:
        self._file = file
        self._fresh = fresh_name(file)
        self._identity = identity
        make_empty(self._fresh)
        self._env = open_file(self._fresh, map_size, flush=False)
        self._reached = b""
        self.taken = 0
        """Bytes that were copied."""

    def take(self, source: lmdb.Environment) -> bool:
        """Copies the next slice, and flushes it; whether that was the last."""
        with source.begin() as reading, self._env.begin(write=True) as writing:
            cursor = reading.cursor()
            there = cursor.set_range(self._reached) if self._reached else cursor.first()
            part = list(_slice(cursor)) if there else []
            writing.cursor().putmulti(part, append=True)
            more = bool(part) and cursor.set_range(part[-1][0]) and cursor.next()
        self._env.sync(True)
        self.taken += sum([len(key) + len(sealed) for key, sealed in part])
        self._reached = part[-1][0] + b"\0" if more else _ALL
        return not more

    def make(self, changes: Iterable[Change]) -> None:
        """What the engine has committed."""
        large: set[bytes] = set()
        reached = self._reached
        with self._env.begin(write=True) as writing:
            for change in changes:
                if type(change) is Write and change.key < reached:
                    make_change(writing, self._identity, change, large)
                elif type(change) is Erase and change.start < reached:
                    part = Erase(change.start, min(change.stop, reached))
                    make_change(writing, self._identity, part, large)

    def flush(self) -> None:
        self._env.sync(True)

    def place(self) -> None:
        """Takes the name of the old file."""
        self._env.close()
        self._fresh.replace(self._file)
        remove(self._fresh)
        flush_folder(self._file.parent)

    def drop(self) -> None:
        with contextlib.suppress(lmdb.Error):
            self._env.close()


class OldFile:
    """A file that has lost its name, until all of its bytes are free."""

    def __init__(self, file: Path, env: lmdb.Environment) -> None:
        self._handle = os.open(file, os.O_WRONLY)
        self._length = os.fstat(self._handle).st_size
        self._env = env
        self._head = 2 * env.stat()["psize"]
        """What the engine may look at until it is closed."""

    def cut(self) -> bool:
        """Frees some bytes; whether there are more."""
        self._length = max(self._head, self._length - _CUT_BYTES)
        os.ftruncate(self._handle, self._length)
        if self._length == self._head:
            self.close()
        return self._length > self._head

    def close(self) -> None:
        self._env.close()
        os.close(self._handle)


class Shrinking:
    """Whether the records move to a new file, when, and how far that is."""

    def __init__(self, file: Path, identity: bytes) -> None:
        self._file = file
        self._identity = identity
        self.copy: RecordsCopy | None = None
        self._old: OldFile | None = None
        self._sparse = False
        self._most = 0
        """So much is copied at most (rule 8)."""
        self._due = monotonic() + LOOK_SECONDS

    @property
    def looks(self) -> bool:
        """Whether nothing is under way."""
        return self.copy is None and self._old is None

    def rest(self, room: Room) -> float | None:
        """Seconds until there may be something to do; None while the file is short."""
        if self.looks and room.length < SPARE_MIN:
            return None
        return max(0.0, self._due - monotonic())

    def step(self, env: lmdb.Environment, room: Room) -> bool:
        """A look, a slice or a cut; whether all is in the copy now."""
        began, pause = monotonic(), _SHARE - 1
        whole = False
        try:
            if self._old is not None:
                pause *= 2
                self._old = self._old if self._old.cut() else None
            elif self.copy is not None:
                whole = self.copy.take(env)
                if not whole and self.copy.taken > self._most:
                    self.drop()
                    return False
            elif not self._begins(env, room):
                self._due = began + LOOK_SECONDS
                return False
            self._due = monotonic() + pause * (monotonic() - began)
        except (lmdb.Error, OSError, StoreError):  # there is no room for two, mostly
            self.drop()
        return whole

    def made(self, changes: Iterable[Change]) -> None:
        """What the engine has committed goes to the copy too."""
        if self.copy is not None:
            try:
                self.copy.make(changes)
            except (lmdb.Error, OSError):
                self.drop()

    def drop(self) -> None:
        """Ends what is under way, for some time."""
        copy, self.copy = self.copy, None
        old, self._old = self._old, None
        self._sparse = False
        self._due = monotonic() + AGAIN_SECONDS
        if copy is not None:
            copy.drop()
        if old is not None:
            old.close()
        with contextlib.suppress(OSError):
            remove(fresh_name(self._file))  # one that was only begun, too

    def give_way(self) -> bool:
        """Frees what it holds, for somebody who finds no room; whether it held anything."""
        holds = not self.looks
        if holds:
            self.drop()
        return holds

    def flushed(self) -> bool:
        """Whether the copy is there still, and is safe now."""
        if self.copy is not None:
            try:
                self.copy.flush()
            except lmdb.Error:
                self.drop()
        return self.copy is not None

    def place(self, env: lmdb.Environment) -> None:
        """The copy becomes the file of records; `env` is that of the old one, and closed later."""
        assert self.copy is not None, "there is no copy"
        self._old = OldFile(self._file, env)
        self.copy.place()
        self.copy = None
        self._sparse = False
        self._due = monotonic() + LOOK_SECONDS

    def _begins(self, env: lmdb.Environment, room: Room) -> bool:
        before = self._sparse
        self._sparse = room.length - room.used >= max(SPARE_MIN, room.used)
        if before and self._sparse:
            free = shutil.disk_usage(room.folder).free
            if free >= 2 * room.used + SPARE_MIN:
                self._most = 2 * room.used + SPARE_MIN
                self.copy = RecordsCopy(self._file, self._identity, env.info()["map_size"])
        return self.copy is not None


def _slice(cursor: "lmdb.Cursor[bytes]") -> Iterator[tuple[bytes, bytes]]:
    size = 0
    for key, sealed in cursor:
        yield key, sealed
        size += len(key) + len(sealed)
        if size >= _SLICE_BYTES:
            return
