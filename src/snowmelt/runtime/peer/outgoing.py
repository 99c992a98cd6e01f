"""What one link has yet to send, and in which order.

1. Small frames go first, all that are there. Then each open stream has one chunk, in turn. What is
   once cut is sent as it was cut. So a small message waits for one chunk at most, and no stream for
   another's end. Nothing of a blob is copied: the chunks are views of the bytes it was given in.
2. A blob begins unasked while those that have begun so are few bytes. Others are offered: their
   message goes, so that the other side knows, and their chunks follow when it has room for them.
3. At most so many blobs as one link may bring are open or offered; messages with more of them wait,
   in their order, up to so many bytes: one more is refused.
4. A body that lies where the other side can read it goes as that place (`sharing.py`). Its segment
   is shown before, in a write of its own, since a descriptor goes with its first byte.
5. While much waits on a link, small blobs travel apart too: whoever reads slowly is given what it
   asked for as it can take it.
"""

import os
from collections import deque
from collections.abc import Iterator
from struct import Struct
from typing import Any, Final

import msgspec

from snowmelt.core.errors import Full, TooLarge
from snowmelt.runtime.peer.limits import (
    CHUNK_BYTES,
    CROWDED,
    FRAME_BYTES_MAX,
    LARGE,
    LARGE_WHEN_CROWDED,
    WITH_BLOB,
    PeerLimits,
)
from snowmelt.wire.codec import encode, encode_into
from snowmelt.wire.framing import HEADER, HEADER_BYTES, MAGIC, VERSION, Kind, framed

PARCEL_HEAD: Final = Struct("!IQ")
"""The number of the stream, and how many bytes its blob has; the message follows."""
CHUNK_HEAD: Final = Struct("!I")
NUMBERS: Final = 1 << 32

_MESSAGE: Final = int(Kind.MESSAGE)
_PARCEL: Final = int(Kind.PARCEL)
_CHUNK: Final = int(Kind.CHUNK)
_OFFER: Final = int(Kind.OFFER)
_PLACE: Final = int(Kind.PLACE)


def check_frame(size: int) -> None:
    """Raises `TooLarge` for what is no frame."""
    if size > FRAME_BYTES_MAX:
        raise TooLarge(f"a message of {size} bytes; the limit is {FRAME_BYTES_MAX}")


class _OutgoingBlob:
    __slots__ = ("message", "number", "rest", "unasked")

    def __init__(self, number: int, message: Any, rest: memoryview) -> None:
        self.number = number
        self.message = message
        self.rest = rest
        self.unasked = 0  # how many bytes it has, if it began so


class Outgoing:
    """The bytes of one link that have not left.

    >>> outgoing = Outgoing(PeerLimits())
    >>> outgoing.add_frame(b"small")
    >>> [bytes(piece) for piece in outgoing.pieces()]
    [b'small']
    >>> outgoing.sent(3)
    False
    >>> [bytes(piece) for piece in outgoing.pieces()]
    [b'll']
    """

    __slots__ = (
        "_cut",
        "_cut_stream",
        "_later",
        "_later_bytes",
        "_limits",
        "_number",
        "_offered",
        "_shown",
        "_small",
        "_streams",
        "_unasked",
        "descriptor",
        "frames",
    )

    def __init__(self, limits: PeerLimits) -> None:
        self.frames = 0
        self.descriptor: int | None = None
        """What goes with the first of `pieces`."""
        self._limits = limits
        self._shown: deque[tuple[bytes, int | None]] = deque()
        self._small = bytearray()
        self._streams: deque[_OutgoingBlob] = deque()
        self._offered: dict[int, _OutgoingBlob] = {}
        self._later: deque[Any] = deque()
        self._later_bytes = 0
        self._unasked = 0
        self._cut: list[memoryview] = []
        self._cut_stream: _OutgoingBlob | None = None  # whose chunk is in the cut
        self._number = 0

    def __bool__(self) -> bool:
        """Whether anything may be sent now."""
        return bool(self._cut or self._small or self._streams or self._shown)

    @property
    def waits(self) -> bool:
        """Whether anything is to be sent, now or when the other side has room for it."""
        return bool(self or self._offered or self._later)

    @property
    def large(self) -> bool:
        """Whether a blob is under way; its bytes are here until it has left."""
        return bool(self._streams or self._cut_stream)

    @property
    def small_bytes(self) -> int:
        return len(self._small)

    def unfinished(self) -> Iterator[Any]:
        """The messages with a blob that has not left as a whole: nobody has had them."""
        cut = self._cut_stream
        if cut is not None and self._cut and not cut.rest:
            yield cut.message
        for stream in (*self._streams, *self._offered.values()):
            yield stream.message
        yield from self._later

    # --- adding -----------------------------------------------------------------------------------

    def add_frame(self, frame: bytes | bytearray) -> None:
        """Sends a frame that is made already."""
        self._small += frame
        self.frames += 1

    def add_word(self, kind: Kind, payload: bytes) -> None:
        """Sends a frame that is no message."""
        self.add_frame(framed(kind, payload))

    def show(self, payload: bytes, descriptor: int) -> None:
        """Shows the other side a segment, before all that is added from now on (rule 4).

        The descriptor is closed when it has left, or can't.
        """
        self._shown.append((framed(Kind.SEGMENT, payload), descriptor))
        self.frames += 1

    def drop(self, payload: bytes) -> None:
        """A segment is used no more; said before another is shown."""
        self._shown.append((framed(Kind.DROP, payload), None))
        self.frames += 1

    def add_place(self, message: Any, head: bytes) -> None:
        """Sends a message whose blob lies at a place; or raises `TooLarge`, and adds nothing."""
        self._add(_PLACE, head, msgspec.structs.replace(message, blob=b""))

    def grant(self, number: int) -> None:
        """Tells the other side that there is room for what it has offered."""
        self.add_word(Kind.GRANT, CHUNK_HEAD.pack(number))

    def granted(self, number: int) -> bool:
        """The other side has room for what it was offered; whether it was offered anything."""
        stream = self._offered.pop(number, None)
        if stream is None:
            return False
        self._streams.append(stream)
        return True

    def add(self, message: Any) -> None:
        """Sends a message, a large blob apart; or raises `TooLarge` or `Full`, and adds nothing."""
        if type(message) not in WITH_BLOB or len(message.blob) < self._large:
            self._add(_MESSAGE, b"", message)
        elif self._later or len(self._streams) + len(self._offered) >= self._limits.streams:
            check_frame(len(encode(msgspec.structs.replace(message, blob=b""))))
            if self._later and self._later_bytes + len(message.blob) > self._limits.later_bytes:
                raise Full(f"{self._later_bytes} bytes of blobs wait until others have left")
            self._later.append(message)
            self._later_bytes += len(message.blob)
        else:
            self._begin(message)

    @property
    def _large(self) -> int:
        return LARGE if len(self._small) < CROWDED else LARGE_WHEN_CROWDED

    def _begin(self, message: Any) -> None:
        # Rule 2.
        self._number = (self._number + 1) % NUMBERS
        rest = memoryview(message.blob).cast("B")
        size = len(rest)
        stream = _OutgoingBlob(self._number, message, rest)
        head = PARCEL_HEAD.pack(self._number, size)
        asks = self._unasked + size > self._limits.begun_bytes
        self._add(_OFFER if asks else _PARCEL, head, msgspec.structs.replace(message, blob=b""))
        if asks:
            self._offered[self._number] = stream
        else:
            stream.unasked = size
            self._unasked += size
            self._streams.append(stream)

    def _add(self, kind: int, head: bytes, message: Any) -> None:
        small = self._small
        begin = len(small)
        encode_into(message, small, begin + HEADER_BYTES + len(head))
        size = len(small) - begin - HEADER_BYTES
        if size > FRAME_BYTES_MAX:
            del small[begin:]
            check_frame(size)
        HEADER.pack_into(small, begin, MAGIC, VERSION, kind, 0, size)
        if head:
            small[begin + HEADER_BYTES : begin + HEADER_BYTES + len(head)] = head
        self.frames += 1

    # --- sending ----------------------------------------------------------------------------------

    def pieces(self) -> list[memoryview]:
        """What is to be sent next, as one write; empty when nothing waits."""
        if not self._cut:
            if self._shown:
                frame, self.descriptor = self._shown.popleft()
                self._cut.append(memoryview(frame))
                return self._cut
            if self._small:
                self._cut.append(memoryview(self._small))
                self._small = bytearray()
            if self._streams:
                self._cut_chunk(self._streams.popleft())
        return self._cut

    def _cut_chunk(self, stream: _OutgoingBlob) -> None:
        chunk = stream.rest[:CHUNK_BYTES]
        length = CHUNK_HEAD.size + len(chunk)
        head = HEADER.pack(MAGIC, VERSION, _CHUNK, 0, length) + CHUNK_HEAD.pack(stream.number)
        self._cut += (memoryview(head), chunk)
        self._cut_stream = stream
        self.frames += 1
        stream.rest = stream.rest[CHUNK_BYTES:]
        if stream.rest:
            self._streams.append(stream)

    def sent(self, count: int) -> bool:
        """So many bytes of `pieces` have left; whether that is all of them."""
        cut = self._cut
        if count:
            self._close_descriptor()
        while cut and count >= len(cut[0]):
            count -= len(cut.pop(0))
        if cut:
            cut[0] = cut[0][count:]
            return False
        if self._cut_stream is not None:
            stream, self._cut_stream = self._cut_stream, None
            if not stream.rest:
                self._unasked -= stream.unasked
                self._begin_later()
        return True

    def _close_descriptor(self) -> None:
        """It is the other side's."""
        descriptor, self.descriptor = self.descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def end(self) -> None:
        self._close_descriptor()
        while self._shown:
            _, self.descriptor = self._shown.popleft()
            self._close_descriptor()

    def forget(self) -> None:
        """Nothing leaves any more, and no body is kept: a link knows itself, and may live on."""
        self._cut, self._cut_stream = [], None
        for waiting in (self._streams, self._offered, self._later):
            waiting.clear()

    def _begin_later(self) -> None:
        # Rule 3.
        open_ = len(self._streams) + len(self._offered)
        for _ in range(min(len(self._later), self._limits.streams - open_)):
            message = self._later.popleft()
            self._later_bytes -= len(message.blob)
            self._begin(message)
