"""What comes on an open link, cut into messages, however it was torn on its way.

Small frames are read into a buffer that all links share. Once the head of a chunk is known the
socket writes straight into the blob that it belongs to (`room` says where), so that a large blob is
copied by the system alone. Whatever does not fit raises `FrameError`, before it has cost anything.

A blob that begins unasked (`PARCEL`) and finds no room is read and thrown away, and `refused`; one
that is offered (`OFFER`) is sent when this side says that it has room (`stores.py`). One that is
given up, for nothing came of it for long, is `refused` and thrown away too. One that lies at a
place (`PLACE`) does not come: it is read there.
"""

from collections.abc import Callable
from typing import Any, Final

import msgspec

from snowmelt.core.errors import FrameError, MessageError, TooLarge
from snowmelt.runtime.clock import real_now
from snowmelt.runtime.peer.limits import LARGE, WITH_BLOB, PeerLimits
from snowmelt.runtime.peer.outgoing import CHUNK_HEAD, PARCEL_HEAD
from snowmelt.runtime.peer.sharing import PLACE_HEAD, Sharing
from snowmelt.runtime.peer.stores import Stores
from snowmelt.wire.framing import HEADER, HEADER_BYTES, MAGIC, VERSION, Kind, refused

_MESSAGE: Final = int(Kind.MESSAGE)
_PARCEL: Final = int(Kind.PARCEL)
_CHUNK: Final = int(Kind.CHUNK)
_OFFER: Final = int(Kind.OFFER)
_GRANT: Final = int(Kind.GRANT)
_PLACE: Final = int(Kind.PLACE)
_SHARING: Final = frozenset(map(int, (Kind.SEGMENT, Kind.FREE, Kind.BYTES, Kind.DROP)))
_SCRAP: Final = bytearray(64 << 10)
"""Where goes what nobody wants."""
_KINDS: Final = {int(kind): kind for kind in Kind}


class _IncomingBlob:
    """A blob on its way in; without room it is thrown away as it comes, and the link goes on."""

    __slots__ = ("blob", "message", "missing", "number", "refused", "rest", "size", "waits")

    def __init__(self, number: int, message: Any, size: int, *, waits: bool) -> None:
        self.number = number
        self.waits = waits  # until there is room
        self.refused = False  # and that was told
        self.message = message
        self.size = self.missing = size
        self.blob: memoryview | None = None
        self.rest: memoryview | None = None

    def make_room(self, room: Callable[[int], memoryview | None]) -> bool:
        try:
            large = room(self.size) if self.size >= LARGE else None
            self.rest = large or memoryview(bytearray(self.size))
        except MemoryError:
            return False
        self.blob = self.rest.toreadonly()
        return True


class Handler:
    def heralded(self, message: Any) -> None:
        """The head of a large message has come; its blob follows."""

    def room_made(self, number: int) -> None:
        """There is room for what was offered under this number."""

    def granted(self, number: int) -> None:
        """The other side has room for what it was offered."""

    def refused(self, message: Any, reason: str) -> None:
        """The blob of this message, which was heralded, is not taken in."""

    def said(self, kind: Kind, payload: bytes) -> None:
        """A frame that is no message."""


class Incoming:
    """The bytes of one link that have come and are not yet a message."""

    def __init__(
        self,
        limits: PeerLimits,
        stores: Stores,
        handler: Handler,
        sharing: Sharing,
    ) -> None:
        self.frames = 0
        self.over = False
        self.heard = self.progress = real_now()
        """When anything came; and when a blob began, or anything came of one that has room."""
        self._decode: Callable[[memoryview], Any] = bytes
        self._limits = limits
        self._stores = stores
        self._handler = handler
        self._sharing = sharing
        self._frame_max = 0
        self._deliver: Callable[[Any], None] = lambda _: None
        self._rest = bytearray()
        self._need = HEADER_BYTES
        self._streams: dict[int, _IncomingBlob] = {}
        self._offered = 0  # of those, how many wait for room
        self._stream: _IncomingBlob | None = None  # whose chunk is coming
        self._left = 0  # of that chunk

    @property
    def pending(self) -> int:
        """How many blobs are on their way and are not whole; those that wait for room are not."""
        return len(self._streams) - self._offered

    @property
    def quiet(self) -> bool:
        """Whether nothing is on its way, nor waits for room, nor has come in part."""
        return not (self._streams or self._rest)

    def admit(
        self,
        frame_max: int,
        decode: Callable[[memoryview], Any],
        deliver: Callable[[Any], None],
    ) -> None:
        """The other side has shown who it is; whole messages go to `deliver`."""
        self._frame_max = frame_max
        self._decode = decode
        self._deliver = deliver

    def end(self) -> None:
        """Nothing more is taken; what has come in part is dropped."""
        self.over = True
        streams, self._streams = self._streams, {}
        self._stream = None
        self._rest.clear()
        under_way = [number for number, one in streams.items() if one.blob is not None]
        self._stores.forget(self, under_way)

    # --- large blobs ------------------------------------------------------------------------------

    @property
    def pouring(self) -> bool:
        """Whether the next bytes are of a chunk."""
        return self._stream is not None

    def room(self) -> memoryview:
        assert self._stream is not None
        rest = self._stream.rest
        return (memoryview(_SCRAP) if rest is None else rest)[: self._left]

    def filled(self, count: int) -> None:
        """So many bytes have been written into `room`."""
        stream = self._stream
        assert stream is not None
        if stream.rest is not None:
            stream.rest = stream.rest[count:]
            self.progress = self.heard
        stream.missing -= count
        self._left -= count
        if self._left:
            return
        self._stream = None
        if not stream.missing:
            del self._streams[stream.number]
            self._complete(stream)

    def room_for(self, number: int) -> None:
        """What was offered under this number may come."""
        stream = self._streams[number]
        stream.waits = False
        self._offered -= 1
        if not stream.make_room(self._sharing.room):
            self._stores.give(self, number)
        self._handler.room_made(number)

    def give_up(self) -> None:
        """Nothing of what is under way is waited for any more."""
        for stream in list(self._streams.values()):
            if stream.blob is not None:
                stream.blob = stream.rest = None
                self._stores.give(self, stream.number)
                self._refuse(stream, "nothing came of it for long")

    def _refuse(self, stream: _IncomingBlob, reason: str) -> None:
        stream.refused = True
        self._handler.refused(stream.message, reason)

    def _complete(self, stream: _IncomingBlob) -> None:
        if stream.blob is None:
            if not stream.refused:
                self._refuse(stream, "no room for what came")
            return
        stream.rest = None  # the blob is the machine's from now on
        self._stores.give(self, stream.number)
        self._deliver(msgspec.structs.replace(stream.message, blob=stream.blob))

    def _begin(self, kind: int, payload: memoryview) -> None:
        if len(payload) < PARCEL_HEAD.size:
            raise FrameError(f"a {_KINDS[kind].name} of {len(payload)} bytes")
        number, size = PARCEL_HEAD.unpack_from(payload)
        self._check_size(size)
        streams = self._limits.streams
        if number in self._streams or len(self._streams) >= streams:
            raise FrameError(f"stream {number} is open, or {streams} others are")
        message = self._bare(payload[PARCEL_HEAD.size :])
        self._streams[number] = stream = _IncomingBlob(number, message, size, waits=kind == _OFFER)
        self._offered += stream.waits
        self._handler.heralded(message)
        if stream.waits:
            self._stores.offer(self, number, size)
        elif self._stores.take(self, number, size) and not stream.make_room(self._sharing.room):
            self._stores.give(self, number)

    def _check_size(self, size: int) -> None:
        if not 0 < size <= self._limits.blob_bytes:
            raise TooLarge(f"a blob of {size} bytes; allowed are 1 to {self._limits.blob_bytes}")

    def _bare(self, payload: memoryview) -> Any:
        """A message whose blob is elsewhere."""
        message = self._decode(payload)
        if type(message) not in WITH_BLOB or message.blob:
            raise MessageError(f"a {type(message).__name__} has no large blob")
        return message

    def _read_place(self, payload: memoryview) -> None:
        if len(payload) < PLACE_HEAD.size:
            raise FrameError(f"a PLACE of {len(payload)} bytes")
        number, at, size = PLACE_HEAD.unpack_from(payload)
        self._check_size(size)
        message = self._bare(payload[PLACE_HEAD.size :])
        blob = self._sharing.view(number, at, size)
        if blob is None:
            self._handler.refused(message, "no segment with its place")
        else:
            self._deliver(msgspec.structs.replace(message, blob=blob))

    def _begin_chunk(self, number: int, size: int) -> None:
        stream = self._streams.get(number)
        if stream is None or stream.waits or not 0 < size <= stream.missing:
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
        while at < size and not self.over:
            if self._stream is not None:
                at += self._pour(data[at:])
                if self._stream is not None:
                    return
            need = HEADER_BYTES
            if size - at >= HEADER_BYTES:
                magic, version, kind, zero, length = HEADER.unpack_from(data, at)
                long = length > self._frame_max and kind != _CHUNK
                if magic != MAGIC or version != VERSION or zero or long:
                    raise refused(magic, version, zero, length, self._frame_max)
                need += CHUNK_HEAD.size if kind == _CHUNK else length
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
        if kind == _MESSAGE:  # as most are
            self._deliver(self._decode(payload))
        elif kind == _CHUNK:
            (number,) = CHUNK_HEAD.unpack(payload)
            self._begin_chunk(number, length - CHUNK_HEAD.size)
        elif kind == _PLACE:
            self._read_place(payload)
        elif kind in _SHARING:
            self._sharing.heard(kind, payload)
        elif kind in (_PARCEL, _OFFER):
            self._begin(kind, payload)
        elif kind == _GRANT and length == CHUNK_HEAD.size:
            self._handler.granted(*CHUNK_HEAD.unpack(payload))
        elif kind in _KINDS:
            self._handler.said(_KINDS[kind], bytes(payload))
        else:
            raise FrameError(f"a frame of kind {kind}, which version {VERSION} does not have")
