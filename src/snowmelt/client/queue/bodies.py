"""What is to be put, cut into calls: bodies packed as `core.batch` has them, headers as msgpack."""

import struct
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate, islice
from typing import Final

import msgspec

from snowmelt.core.batch import Batch, Buffer
from snowmelt.core.errors import BadOption, TooLarge
from snowmelt.protocols.fifo.labels import Labels, pack
from snowmelt.protocols.fifo.settings import BODY_BYTES_MAX

CALL_BYTES: Final = 8 << 20
CALL_ITEMS: Final = 32_768
HEADERS_BYTES_MAX: Final = 64 << 10

_PLAIN: Final = frozenset({bytes, bytearray})
_ONE: Final = struct.Struct("<2i")
_ENCODE: Final = msgspec.msgpack.Encoder().encode
_DECODE: Final = msgspec.msgpack.Decoder(dict[str, str]).decode


class CallLimit(msgspec.Struct, frozen=True):
    """How much goes in one call at most; one body goes whatever it weighs."""

    items: int = CALL_ITEMS
    bytes: int = CALL_BYTES


CALL: Final = CallLimit()


class Parcel(msgspec.Struct, frozen=True):
    """The items of one call."""

    count: int
    offsets: bytes
    blob: bytes


def parcel(body: Buffer) -> Parcel:
    """One body as a call's items.

    >>> parcel("text")
    Traceback (most recent call last):
    TypeError: a body is bytes, not str; say how it is written, as in body.encode()
    """
    body = _as_bytes(body)
    if len(body) > BODY_BYTES_MAX:
        raise TooLarge(f"a body of {len(body)} bytes; at most {BODY_BYTES_MAX} can be put")
    return Parcel(1, _ONE.pack(0, len(body)), body)


def together(bodies: list[bytes]) -> Parcel:
    """Some bodies that are no more than a call's worth, as one call's items.

    >>> together([b"one", b"two"]).blob
    b'onetwo'
    """
    if len(bodies) == 1:
        return Parcel(1, _ONE.pack(0, len(bodies[0])), bodies[0])
    edges = list(accumulate(map(len, bodies), initial=0))
    return Parcel(len(bodies), struct.pack(f"<{len(edges)}i", *edges), b"".join(bodies))


def parcels(bodies: Iterable[Buffer] | Batch, limit: CallLimit = CALL) -> Iterator[Parcel]:
    """Bodies, as few calls as they fit into; an endless iterable is taken in bit by bit.

    >>> [one.count for one in parcels([b"one", b"two"])]
    [2]
    >>> [one.count for one in parcels(bytes(3 << 20) for _ in range(5))]
    [2, 2, 1]
    >>> [one.count for one in parcels([b"one", b"two", b"three"], CallLimit(items=2))]
    [2, 1]
    """
    if isinstance(bodies, Batch):
        yield from _of_batch(bodies, limit)
        return
    if isinstance(bodies, str | bytes | bytearray | memoryview):
        raise TypeError(f"put_many takes several bodies, not one {type(bodies).__name__}; see put")
    if isinstance(bodies, list | tuple) and len(bodies) <= limit.items:
        yield from _of_part(bodies, limit.bytes)
        return
    rest = iter(bodies)
    while part := list(islice(rest, limit.items)):
        yield from _of_part(part, limit.bytes)


def packed_headers(headers: Mapping[str, str] | Labels | None) -> bytes:
    r"""Headers as they travel, the same for all items of a call, or labels of each one's own.

    >>> packed_headers({"kind": "page"})
    b'\x81\xa4kind\xa4page'
    """
    if not headers:
        return b""
    if isinstance(headers, Labels):
        return pack(headers)
    try:
        packed = _ENCODE(dict(headers))
        _DECODE(packed)
    except (TypeError, ValueError):  # msgspec's errors are ValueErrors
        raise BadOption("headers", headers, "a map from text to text") from None
    if len(packed) > HEADERS_BYTES_MAX:
        raise TooLarge(f"headers of {len(packed)} bytes; at most {HEADERS_BYTES_MAX} can be put")
    return packed


def as_buffer(body: object) -> Buffer:
    r"""The bytes of anything that lies in memory in one piece, not copied.

    >>> from array import array
    >>> bytes(as_buffer(array("h", [1, 2])))
    b'\x01\x00\x02\x00'
    >>> as_buffer(memoryview(b"abcd")[::2])
    Traceback (most recent call last):
    TypeError: this memoryview does not lie in memory in one piece; copy it first, as bytes(body)...
    """
    if isinstance(body, str):
        raise TypeError("a body is bytes, not str; say how it is written, as in body.encode()")
    name = type(body).__name__
    try:
        view = memoryview(body)  # type: ignore[arg-type]  # that is what is tried
    except (TypeError, ValueError, BufferError) as error:
        raise TypeError(f"a body is bytes, not {name}; encode it ({error})") from None
    if view.format == "O":
        raise TypeError(f"this {name} holds objects, not their bytes; encode them")
    if not view.nbytes:
        return b""  # an array with a side of 0 can't be cast
    if not view.c_contiguous:
        raise TypeError(
            f"this {name} does not lie in memory in one piece; copy it first, as bytes(body) does"
        )
    return view.cast("B")


def _as_bytes(body: object) -> bytes:
    return body if type(body) is bytes else bytes(as_buffer(body))


def _of_part(bodies: list[Buffer] | tuple[Buffer, ...], bytes_max: int) -> Iterator[Parcel]:
    """No more bodies than go in one call, cut where the bytes are too many for one call."""
    if not _PLAIN.issuperset(map(type, bodies)):
        bodies = [_as_bytes(body) for body in bodies]
    blob = b"".join(bodies)
    edges = list(accumulate(map(len, bodies), initial=0))
    if len(blob) <= bytes_max:
        if bodies:
            yield Parcel(len(bodies), struct.pack(f"<{len(edges)}i", *edges), blob)
        return
    first = 0
    while first < len(bodies):
        base = edges[first]
        last = max(bisect_right(edges, base + bytes_max) - 1, first + 1)
        if edges[last] - base > BODY_BYTES_MAX:
            parcel(bodies[first])  # which says that it is too large
        offsets = [edge - base for edge in edges[first : last + 1]]
        data = blob[base : edges[last]]
        yield Parcel(last - first, struct.pack(f"<{len(offsets)}i", *offsets), data)
        first = last


def _of_batch(batch: Batch, limit: CallLimit) -> Iterator[Parcel]:
    if len(batch) <= limit.items and batch.size <= limit.bytes:
        if len(batch):
            whole = batch.trimmed()
            yield Parcel(len(batch), bytes(whole.offsets), bytes(whole.blob))
        return
    for start in range(0, len(batch), limit.items):
        part = batch.slice(start, min(start + limit.items, len(batch)))
        yield from _of_part(list(map(bytes, part)), limit.bytes)
