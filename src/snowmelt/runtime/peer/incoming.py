"""What comes on one link, cut into messages, however it was torn on its way.

Small frames are read into a buffer that all links share. Once the head of a chunk is known the
socket writes straight into the blob that it belongs to (`room` says where), so that a large blob is
copied by the system alone. Whatever does not fit raises `FrameError`, before it has cost anything.
"""

from collections.abc import Callable
from typing import Any, Final

import msgspec

from snowmelt.core.errors import FrameError, MessageError, TooLarge, Unavailable
from snowmelt.runtime.peer.limits import FRAME_BYTES_MAX, WITH_BLOB, PeerLimits
from snowmelt.runtime.peer.outgoing import CHUNK_HEAD, PARCEL_HEAD
from snowmelt.wire.codec import Codec
from snowmelt.wire.framing import (
    GREETING_BYTES_MAX,
    HEADER,
    HEADER_BYTES,
    MAGIC,
    VERSION,
    Kind,
)

_MESSAGE: Final = int(Kind.MESSAGE)
_PARCEL: Final = int(Kind.PARCEL)
_CHUNK: Final = int(Kind.CHUNK)
_KINDS: Final = {int(kind): kind for kind in Kind}


class Stores:
    """How many bytes of blobs are on their way into this process, over all links."""

    __slots__ = ("bytes_max", "held")

    def __init__(self, bytes_max: int) -> None:
        self.held = 0
        self.bytes_max = bytes_max

    def take(self, size: int) -> None:
        """Keeps room; raises when there is none."""
        if self.held + size > self.bytes_max:
            text = f"{self.held} bytes are on their way here; {size} more are too many"
            raise Unavailable(text)
        self.held += size

    def give(self, size: int) -> None:
        """The room is free again."""
        self.held -= size


class _Stream:
    """A blob on its way in."""

    __slots__ = ("blob", "message", "number", "rest")

    def __init__(self, number: int, message: Any, size: int) -> None:
        self.number = number
        self.message = message
        self.blob = bytearray(size)
        self.rest = memoryview(self.blob)


class Handler:
    """Who takes what comes on a link."""

    def heralded(self, message: Any) -> None:
        """The head of a large message has come; its blob follows."""

    def said(self, kind: Kind, payload: bytes) -> None:
        """A frame that is no message: a greeting, a goodbye."""


class Incoming:
    """The bytes of one link that have come and are not yet a message."""

    def __init__(self, codec: Codec, limits: PeerLimits, stores: Stores, handler: Handler) -> None:
        self.frames = 0
        self.over = False
        self._decode = codec.decode
        self._limits = limits
        self._stores = stores
        self._handler = handler
        self._frame_max = GREETING_BYTES_MAX
        self._open = False  # messages are taken
        self._deliver: Callable[[Any], None] = lambda _: None
        self._rest = bytearray()
        self._need = HEADER_BYTES
        self._streams: dict[int, _Stream] = {}
        self._stream: _Stream | None = None  # whose chunk is coming
        self._left = 0  # of that chunk

    @property
    def streams(self) -> int:
        """How many blobs have begun and are not whole."""
        return len(self._streams)

    def admit(self, frame_max: int, deliver: Callable[[Any], None]) -> None:
        """The other side has shown who it is; whole messages go to `deliver`."""
        self._deliver = deliver
        self._open = True
        self._frame_max = frame_max

    def end(self) -> None:
        """Nothing more is taken; what has come in part is dropped."""
        self.over = True
        for stream in self._streams.values():
            self._stores.give(len(stream.blob))
        self._streams.clear()
        self._stream = None
        self._rest.clear()

    # --- large blobs ------------------------------------------------------------------------------

    @property
    def pouring(self) -> bool:
        """Whether the next bytes are of a chunk."""
        return self._stream is not None

    def room(self) -> memoryview:
        """Where they belong."""
        assert self._stream is not None
        return self._stream.rest[: self._left]

    def filled(self, count: int) -> None:
        """So many bytes have been written into `room`."""
        stream = self._stream
        assert stream is not None
        stream.rest = stream.rest[count:]
        self._left -= count
        if self._left:
            return
        self._stream = None
        if not stream.rest:
            del self._streams[stream.number]
            self._stores.give(len(stream.blob))
            self._deliver(msgspec.structs.replace(stream.message, blob=stream.blob))

    def _begin(self, payload: memoryview) -> None:
        """The head of a large message."""
        if not self._open or len(payload) < PARCEL_HEAD.size:
            raise FrameError("PARCEL does not stand here")
        number, size = PARCEL_HEAD.unpack_from(payload)
        limits = self._limits
        if not 0 < size <= limits.blob_bytes:
            raise TooLarge(f"a blob of {size} bytes; allowed are 1 to {limits.blob_bytes}")
        if number in self._streams or len(self._streams) >= limits.streams:
            raise FrameError(f"stream {number} is open, or {limits.streams} others are")
        message = self._decode(payload[PARCEL_HEAD.size :])
        if type(message) not in WITH_BLOB or message.blob:
            raise MessageError(f"a {type(message).__name__} has no large blob")
        self._stores.take(size)
        self._streams[number] = _Stream(number, message, size)
        self._handler.heralded(message)

    def _begin_chunk(self, number: int, size: int) -> None:
        stream = self._streams.get(number)
        if stream is None or not 0 < size <= len(stream.rest):
            raise FrameError(f"a chunk of {size} bytes that no stream {number} waits for")
        self._stream, self._left = stream, size

    # --- frames -----------------------------------------------------------------------------------

    def feed(self, data: memoryview) -> None:
        """Takes in what came; raises `SnowmeltError` for what may not be."""
        if self._rest:
            self._rest += data
            if len(self._rest) < self._need:
                return
            data, self._rest = memoryview(self._rest), bytearray()
        at, size = 0, len(data)
        while not self.over:
            if self._stream is not None:
                at += self._pour(data[at:])
                if self._stream is not None:
                    return
            need = HEADER_BYTES
            if size - at >= HEADER_BYTES:
                magic, version, kind, zero, length = HEADER.unpack_from(data, at)
                if magic != MAGIC or version != VERSION or zero:
                    raise FrameError("bytes that are no frame; is this another protocol, or TLS?")
                need += CHUNK_HEAD.size if kind == _CHUNK else length
                if length > self._frame_max and kind != _CHUNK:
                    text = f"a frame of {length} bytes; the limit here is {self._frame_max}"
                    raise FrameError(text)
            if size - at < need:
                self._need = need
                self._rest += data[at:]
                return
            self._take(kind, length, data[at + HEADER_BYTES : at + need])
            at += need

    def _pour(self, data: memoryview) -> int:
        """Copies what came before the socket could be told where it belongs."""
        room = self.room()
        count = min(len(room), len(data))
        if count:
            room[:count] = data[:count]
            self.filled(count)
        return count

    def _take(self, kind: int, length: int, payload: memoryview) -> None:
        """One frame, or the head of a chunk."""
        self.frames += 1
        if kind == _MESSAGE and self._open:
            self._deliver(self._decode(payload))
        elif kind == _CHUNK:
            (number,) = CHUNK_HEAD.unpack(payload)
            self._begin_chunk(number, length - CHUNK_HEAD.size)
        elif kind == _PARCEL:
            self._begin(payload)
        elif kind in _KINDS:
            self._handler.said(_KINDS[kind], bytes(payload))
        else:
            raise FrameError(f"a frame of kind {kind}, which version {VERSION} does not have")


assert FRAME_BYTES_MAX > GREETING_BYTES_MAX
