"""What one link has yet to send, and in which order.

Small frames go first, all that are there. Then each open stream has one chunk, in turn. What is
once cut is sent as it was cut. So a small message waits for one chunk at most, and no stream for
another's end. Nothing of a blob is copied: the chunks are views of the bytes it was given in.
"""

from collections import deque
from struct import Struct
from typing import Any, Final

import msgspec

from snowmelt.core.errors import TooLarge
from snowmelt.runtime.peer.limits import CHUNK_BYTES, FRAME_BYTES_MAX, LARGE, WITH_BLOB
from snowmelt.wire.codec import encode_into
from snowmelt.wire.framing import HEADER, HEADER_BYTES, MAGIC, VERSION, Kind

PARCEL_HEAD: Final = Struct("!IQ")
"""The number of the stream, and how many bytes its blob has; the message follows."""
CHUNK_HEAD: Final = Struct("!I")
NUMBERS: Final = 1 << 32

_MESSAGE: Final = int(Kind.MESSAGE)
_PARCEL: Final = int(Kind.PARCEL)
_CHUNK: Final = int(Kind.CHUNK)


class _Stream:
    """A blob on its way out."""

    __slots__ = ("number", "rest")

    def __init__(self, number: int, rest: memoryview) -> None:
        self.number = number
        self.rest = rest


class Outgoing:
    """The bytes of one link that have not left.

    >>> outgoing = Outgoing()
    >>> outgoing.add_frame(b"small")
    >>> [bytes(piece) for piece in outgoing.pieces()]
    [b'small']
    >>> outgoing.sent(3)
    >>> [bytes(piece) for piece in outgoing.pieces()]
    [b'll']
    """

    __slots__ = ("_cut", "_number", "_small", "_streams", "frames")

    def __init__(self) -> None:
        self.frames = 0
        self._small = bytearray()
        self._streams: deque[_Stream] = deque()
        self._cut: list[memoryview] = []
        self._number = 0

    def __bool__(self) -> bool:
        return bool(self._cut or self._small or self._streams)

    @property
    def small_bytes(self) -> int:
        """How many bytes of small frames wait."""
        return len(self._small)

    def add_frame(self, frame: bytes) -> None:
        """Sends a frame that is made already."""
        self._small += frame
        self.frames += 1

    def add(self, message: Any) -> None:
        """Sends a message; a large blob goes apart. Raises `TooLarge`, and then adds nothing."""
        if type(message) in WITH_BLOB and len(message.blob) >= LARGE:
            self._number = (self._number + 1) % NUMBERS
            rest = memoryview(message.blob).cast("B")
            head = PARCEL_HEAD.pack(self._number, len(rest))
            self._add(_PARCEL, head, msgspec.structs.replace(message, blob=b""))
            self._streams.append(_Stream(self._number, rest))
        else:
            self._add(_MESSAGE, b"", message)

    def _add(self, kind: int, head: bytes, message: Any) -> None:
        small = self._small
        begin = len(small)
        encode_into(message, small, begin + HEADER_BYTES + len(head))
        size = len(small) - begin - HEADER_BYTES
        if size > FRAME_BYTES_MAX:
            del small[begin:]
            raise TooLarge(f"a message of {size} bytes; the limit is {FRAME_BYTES_MAX}")
        HEADER.pack_into(small, begin, MAGIC, VERSION, kind, 0, size)
        if head:
            small[begin + HEADER_BYTES : begin + HEADER_BYTES + len(head)] = head
        self.frames += 1

    def pieces(self) -> list[memoryview]:
        """What is to be sent next, as one write; empty when nothing waits."""
        if not self._cut:
            if self._small:
                self._cut.append(memoryview(self._small))
                self._small = bytearray()
            if self._streams:
                self._cut_chunk(self._streams.popleft())
        return self._cut

    def _cut_chunk(self, stream: _Stream) -> None:
        chunk = stream.rest[:CHUNK_BYTES]
        length = CHUNK_HEAD.size + len(chunk)
        head = HEADER.pack(MAGIC, VERSION, _CHUNK, 0, length) + CHUNK_HEAD.pack(stream.number)
        self._cut += (memoryview(head), chunk)
        self.frames += 1
        stream.rest = stream.rest[CHUNK_BYTES:]
        if stream.rest:
            self._streams.append(stream)

    def sent(self, count: int) -> None:
        """So many bytes of `pieces` have left."""
        cut = self._cut
        while cut and count >= len(cut[0]):
            count -= len(cut.pop(0))
        if count:
            cut[0] = cut[0][count:]
