"""Frames: how a stream of bytes is cut into words.

    magic 0x53 | version | kind | 0 | length, 4 bytes, big-endian | payload

The length is checked against the limit before a byte of the payload is kept, so what a stranger
claims to send costs nothing. Version 2 is this layout with msgpack payloads; in
version 1 greetings said a token. A change that old programs can't read raises the version; a reader
refuses what it does not know and says which it reads, so that the other side can tell its person
what to upgrade.
"""

from collections.abc import MutableSequence
from enum import IntEnum
from struct import Struct
from typing import Final, TypeAlias

from snowmelt.core.batch import Buffer
from snowmelt.core.errors import FrameError, TooLarge

MAGIC: Final = 0x53
VERSION: Final = 2
HEADER: Final = Struct("!BBBBI")
HEADER_BYTES: Final = HEADER.size

FRAME_BYTES_MAX: Final = 72 << 20  # a body of 64 MB and what goes round it
SMALL: Final = 64 << 10  # pieces below this are put together as they come
PLACE_BYTES: Final = 8 << 20  # a reader keeps such a place for the next large frame
_NOWHERE: Final = memoryview(b"")
GREETING_BYTES_MAX: Final = 8 << 10  # before the other side has shown who it is


class Kind(IntEnum):
    HELLO = 1
    WELCOME = 2
    GOODBYE = 3
    MESSAGE = 4
    INQUIRE = 5
    INFORM = 6
    PROVE = 7
    PARCEL = 8
    CHUNK = 9
    OFFER = 10
    GRANT = 11
    RELEASE = 12
    KEEP = 13
    SEGMENT = 14
    PLACE = 15
    FREE = 16
    BYTES = 17
    DROP = 18
    RELOAD = 19


_KINDS: Final = {int(kind): kind for kind in Kind}
Frame: TypeAlias = tuple[Kind, Buffer]


def framed(kind: Kind, payload: bytes, limit: int = FRAME_BYTES_MAX) -> bytes:
    r"""A payload with its header before it.

    >>> framed(Kind.MESSAGE, b"hi")
    b'S\x02\x04\x00\x00\x00\x00\x02hi'
    """
    if len(payload) > limit:
        raise TooLarge(f"a message of {len(payload)} bytes; the limit of a frame is {limit}")
    return HEADER.pack(MAGIC, VERSION, kind, 0, len(payload)) + payload


class FrameReader:
    """Cuts a stream into frames, however it was torn on its way, a byte copied thrice at most.

    >>> reader = FrameReader()
    >>> stream = framed(Kind.MESSAGE, b"one") + framed(Kind.MESSAGE, b"two")
    >>> reader.feed(stream[:15])
    [(<Kind.MESSAGE: 4>, b'one')]
    >>> reader.feed(stream[15:])
    [(<Kind.MESSAGE: 4>, b'two')]
    """

    __slots__ = ("_have", "_limit", "_need", "_parts", "_place", "_placed")

    def __init__(self, limit: int = FRAME_BYTES_MAX) -> None:
        self._limit = limit
        self._parts: list[bytes | bytearray] = []
        self._place = _NOWHERE
        """Where large frames are put together when the driver reads into it (`rest`)."""
        self._placed = False
        """Whether what has come of the frame is there, and not in parts."""
        self._have = 0
        self._need = HEADER_BYTES

    @property
    def held(self) -> int:
        """How many bytes wait for the rest of their frame."""
        return self._have

    def admit(self, limit: int) -> None:
        """Changes the limit, once the other side has shown who it is."""
        self._limit = limit

    @property
    def awaited(self) -> int:
        """The size of the frame that has begun to come, or of its header."""
        return self._need

    @property
    def missing(self) -> int:
        """How many bytes the word that is coming lacks, or its header: more may be beyond it."""
        return self._need - self._have

    def feed(self, data: bytes) -> list[Frame]:
        """Takes in what came, and returns the frames that are whole. Raises `FrameError`."""
        frames: list[Frame] = []
        self.cut(data, frames)
        return frames

    def cut(self, data: bytes, frames: MutableSequence[Frame]) -> None:
        """The same, adding them to others: those before what is no frame are there all the same."""
        if self._placed:
            some = data[: self.missing]
            self._place[self._have : self._have + len(some)] = some
            self.filled(len(some), frames)
            data = data[len(some) :]
        if self._parts:
            self._add(data)
            self._have += len(data)
            if self._have < self._need:
                return
            data = b"".join(self._parts)
            self._parts.clear()
        if self._placed:
            return
        at, size = 0, len(data)
        need = HEADER_BYTES
        while size - at >= HEADER_BYTES:
            magic, version, kind, zero, length = HEADER.unpack_from(data, at)
            if magic != MAGIC or version != VERSION or zero or length > self._limit:
                raise refused(magic, version, zero, length, self._limit)
            known = _KINDS.get(kind)
            if known is None:
                raise FrameError(f"a frame of kind {kind}, which version {VERSION} does not have")
            end = at + HEADER_BYTES + length
            if end > size:
                need = HEADER_BYTES + length
                break
            frames.append((known, data[at + HEADER_BYTES : end]))
            at = end
        self._keep(data, at, need)

    def rest(self) -> memoryview | None:
        """Where the rest of a large frame may be read to, and not be copied; then `filled`.

        Only when no frame that was cut before is still to be looked at: the place is the same.
        """
        if not self._placed:
            if self.missing < SMALL:
                return None
            if len(self._place) < self._need:
                self._place = memoryview(bytearray(self._need))
            self._place[: self._have] = b"".join(self._parts)
            self._parts.clear()
            self._placed = True
        return self._place[self._have : self._need]

    def filled(self, size: int, frames: MutableSequence[Frame]) -> None:
        self._have += size
        if self._have == self._need:
            kind = HEADER.unpack_from(self._place)[2]
            frames.append((_KINDS[kind], self._place[HEADER_BYTES : self._need]))
            if self._need > PLACE_BYTES:
                self._place = _NOWHERE
            self._have, self._need, self._placed = 0, HEADER_BYTES, False

    def _add(self, data: bytes) -> None:
        """One more piece; a million pieces of a byte must not cost more than a million bytes."""
        last = self._parts[-1]
        if len(data) >= SMALL:
            self._parts.append(data)
        elif isinstance(last, bytearray) and len(last) < SMALL:
            last += data
        else:
            self._parts.append(bytearray(data))

    def _keep(self, data: bytes, at: int, need: int) -> None:
        self._have = len(data) - at
        self._need = need
        if self._have:
            self._parts.append(data[at:] if at else data)


def refused(magic: int, version: int, zero: int, length: int, limit: int) -> FrameError:
    if magic != MAGIC or zero:
        return FrameError("bytes that are no frame; is this another protocol, or TLS?")
    if version != VERSION:
        return FrameError(f"a frame of version {version}; this program reads {VERSION}")
    return FrameError(f"a frame of {length} bytes; the limit here is {limit}")
