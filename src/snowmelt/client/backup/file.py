r"""The file of a backup: what is in it, and how it is checked.

It begins with `MAGIC`, and goes on in frames of bytes:

    length of the content (4 bytes, least first), checksum (4, the same), content

The checksum is CRC-32C of where the frame begins in the file (8 bytes, least first), its length as
it stands there, and its content. So a bit that flipped, a torn end, and a frame that is elsewhere
are found. A content is one msgpack map: a `Head` first, `Piece`s, and an `End`, behind which there
is nothing. Whoever reads one takes nothing out of it before all of it was looked at.

>>> import io
>>> write(file := io.BytesIO(), End(0, 0, 0, 0))
>>> read(io.BytesIO(file.getvalue()), "a.backup")
End(pieces=0, items=0, bytes=0, lost=0)
>>> read(io.BytesIO(file.getvalue()[:-1]), "a.backup")
Traceback (most recent call last):
snowmelt.core.errors.StoreDamaged: a.backup ends within what begins at byte 0: it was cut off; ...
"""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Final

import msgspec
from google_crc32c import value as checksum

from snowmelt.core.errors import BadOption, DiskFull, StoreDamaged, StoreError, StoreVersion
from snowmelt.core.record import UNREADABLE
from snowmelt.protocols.queue.api.backups import Lots, Records
from snowmelt.protocols.queue.api.settings import PARTITIONS_MAX, PUT_BYTES_MAX, QueueSettings
from snowmelt.store.folder import new_private

MAGIC: Final = b"snowmelt backup\n"
VERSION: Final = 1
FRAME_MAX: Final = PUT_BYTES_MAX + (32 << 20)
"""What is said to be longer is no frame."""
HEAD_BYTES: Final = 8
_ENCODE: Final = msgspec.msgpack.Encoder().encode


class Head(msgspec.Struct, frozen=True, tag="queue"):
    """Of what it is a backup."""

    version: int
    queue: str
    made: int
    """When it was begun, in nanoseconds since 1970."""
    backup: int
    """A number that no other backup has."""
    settings: QueueSettings
    parts: int
    """Of so many partitions."""


class Piece(msgspec.Struct, frozen=True, tag="piece"):
    """Some of a partition (`protocols/queue/api/backups.py`)."""

    part: int
    number: int
    """Counted within its partition, from 1 on."""
    records: Records = ()
    lots: Lots = ()


class End(msgspec.Struct, frozen=True, tag="end"):
    """So much is in it."""

    pieces: int
    items: int
    bytes: int
    lost: int
    """So many items could not be read by anybody, and are not in it."""


_DECODE: Final = msgspec.msgpack.Decoder(Head | Piece | End).decode
Content = Head | Piece | End


def write(file: BinaryIO, content: Content) -> None:
    """One frame more, where the file is."""
    told = _ENCODE(content)
    length = len(told).to_bytes(4, "little")
    file.write(length + _sum(file.tell(), length, told) + told)


def _sum(at: int, length: bytes, content: bytes) -> bytes:
    total: int = checksum(at.to_bytes(8, "little") + length + content)
    return total.to_bytes(4, "little")


def read(file: BinaryIO, name: str) -> Content:
    """The next one; raises `StoreDamaged`, with where it is."""
    at = file.tell()
    head = file.read(HEAD_BYTES)
    length = int.from_bytes(head[:4], "little")
    content = file.read(length) if len(head) == HEAD_BYTES and length <= FRAME_MAX else b""
    if len(head) < HEAD_BYTES or (length <= FRAME_MAX and len(content) < length):
        raise damaged(f"{name} ends within what begins at byte {at}: it was cut off")
    if length > FRAME_MAX or head[4:] != _sum(at, head[:4], content):
        raise damaged(f"{name} is damaged: the checksum of what begins at byte {at} does not fit")
    try:
        told: Content = _DECODE(content)
    except UNREADABLE as error:
        raise damaged(f"{name} does not read at byte {at}: {error}") from None
    return told


def damaged(text: str) -> StoreDamaged:
    """A file that nobody should use."""
    return StoreDamaged(f"{text}; nothing of it was used: take another backup")


class Summary(msgspec.Struct, frozen=True):
    """A backup that was looked at from its beginning to its end."""

    head: Head
    end: End
    size: int
    """Bytes of the file."""


def looked_at(path: Path) -> Summary:
    """What is in a file; raises what is wrong with it, wherever that is."""
    counts = [0] * PARTITIONS_MAX
    pieces, name = 0, str(path)
    with opened(path) as file:
        head = _head(file, name)
        while isinstance(content := read(file, name), Piece):
            pieces += 1
            if not 0 <= content.part < head.parts or content.number != counts[content.part] + 1:
                raise damaged(
                    f"{name}: piece {content.number} of partition {content.part} is not next"
                )
            counts[content.part] += 1
        if not isinstance(content, End) or content.pieces != pieces or file.read(1):
            raise damaged(f"{name} goes on behind its end, which is at byte {file.tell()}")
        return Summary(head, content, file.tell())


def pieces_of(file: BinaryIO, name: str) -> Iterator[Piece]:
    """All pieces of a file that was looked at."""
    _head(file, name)
    while isinstance(content := read(file, name), Piece):
        yield content


def _head(file: BinaryIO, name: str) -> Head:
    begin = file.read(len(MAGIC))
    if begin != MAGIC:
        cut = MAGIC.startswith(begin)
        raise damaged(f"{name} {'was cut off' if cut else 'is no backup of snowmelt'}, at byte 0")
    head = read(file, name)
    if not isinstance(head, Head) or not 1 <= head.parts <= PARTITIONS_MAX:
        raise damaged(f"{name} does not say what it is, at byte {len(MAGIC)}")
    if head.version != VERSION:
        raise StoreVersion(
            f"{name} is a backup of form {head.version}, and this program reads {VERSION}; restore "
            "it with the version of snowmelt that wrote it"
        )
    head.settings.checked()
    return head


def file_at(path: str | os.PathLike[str]) -> Path:
    """Where a file may be; raises `BadOption` for what no file is called."""
    place = Path(path)
    try:
        with suppress(OSError):  # there is none, or it can't be reached: its use will tell
            place.lstat()
    except ValueError as error:
        raise BadOption("the backup's file", str(path), f"a path ({error})") from None
    if not place.name:
        raise BadOption("the backup's file", str(path), "a path that ends with its name")
    return place


def opened(path: Path) -> BinaryIO:
    """To be read from its beginning on."""
    try:
        return path.open("rb")
    except OSError as error:
        raise BadOption(
            "the backup", str(path), f"a file that can be read ({error.strerror})"
        ) from None


class Writing:
    """A backup that comes into being beside its place, and has it when it is whole."""

    def __init__(self, path: Path, head: Head) -> None:
        self.path = path
        self._there = path.with_name(path.name + ".part")
        self._end = End(0, 0, 0, 0)
        with self._failing():
            if path.exists():
                raise BadOption("the backup's file", str(path), "one that is not there yet")
            with suppress(FileNotFoundError):  # of one that was killed
                self._there.unlink()
            self._file = new_private(self._there)
            self._file.write(MAGIC)
            write(self._file, head)

    def _failing(self) -> "_Failing":
        return _Failing(self._there)

    def add(self, piece: Piece, items: int, lost: int) -> None:
        """One more."""
        with self._failing():
            write(self._file, piece)
        end, size = self._end, sum([lot.size for lot in piece.lots])
        counts = end.items + items, end.bytes + size, end.lost + lost
        self._end = End(end.pieces + 1, *counts)

    def finish(self) -> End:
        """It is whole, flushed, and has its name."""
        with self._failing():
            write(self._file, self._end)
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
            self._there.replace(self.path)
            folder = os.open(self.path.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        return self._end

    def give_up(self) -> None:
        """Nothing of it stays, if it is not whole."""
        with suppress(OSError):
            self._file.close()
        with suppress(OSError):
            self._there.unlink()


class _Failing:
    """What the machine says of a file, as an error of ours."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if not isinstance(error, OSError):
            return
        text = f"the backup can't be written to {self._path}: {error.strerror or error}"
        if error.errno in (28, 122):  # ENOSPC, EDQUOT
            raise DiskFull(f"{text}; nothing of it is kept, give it another place") from None
        raise StoreError(text) from None
