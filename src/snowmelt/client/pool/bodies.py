"""What is to be put into a pool, cut into calls: small bodies together, a large one as it is."""

import struct
from collections.abc import Iterable, Iterator
from typing import Final

from snowmelt.client.queue.bodies import CALL_BYTES, CALL_ITEMS, Parcel, as_buffer, parcels
from snowmelt.core.batch import Batch, Buffer
from snowmelt.core.errors import TooLarge
from snowmelt.core.interval import Interval
from snowmelt.protocols.pool.messages import Span
from snowmelt.protocols.pool.settings import OBJECT_BYTES_MAX

LARGE: Final = 64 << 10
"""From here on a body is not copied next to others."""
_ONE: Final = struct.Struct("<2i")


def single(body: Buffer) -> Parcel:
    """One body: what can change is copied, and so is what is small.

    A large one that is read-only is kept as it is: by that it is handed over.

    >>> single("text")
    Traceback (most recent call last):
    TypeError: a body is bytes, not str; say how it is written, as in body.encode()
    """
    if type(body) is not bytes:
        body = as_buffer(body)
        if len(body) < LARGE or not memoryview(body).readonly:
            body = bytes(body)
    size = len(body)
    if size > OBJECT_BYTES_MAX:
        raise TooLarge(f"a body of {size} bytes; at most {OBJECT_BYTES_MAX} can be put")
    return Parcel(1, _ONE.pack(0, size), body)  # type: ignore[arg-type]  # a view is as good


def several(bodies: Iterable[Buffer] | Batch) -> Iterator[Parcel]:
    """Bodies, as few calls as they fit into.

    >>> [one.count for one in several([b"one", b"two", bytes(1 << 20), b"three"])]
    [2, 1, 1]
    """
    if isinstance(bodies, Batch | str | bytes | bytearray | memoryview):
        yield from parcels(bodies)
        return
    small: list[Buffer] = []
    size = 0
    for given in bodies:
        body = given if type(given) is bytes else as_buffer(given)
        large = len(body) >= LARGE
        if not large:
            small.append(bytes(body))  # a generator may use one buffer again
            size += len(body)
        if large or len(small) == CALL_ITEMS or size >= CALL_BYTES:
            yield from parcels(small)
            small, size = [], 0
        if large:
            yield single(body)
    yield from parcels(small)


def joined(spans: tuple[Span, ...], blob: Buffer) -> Batch:
    """What came as one batch.

    >>> two = Batch.of([b"a", b"bc"])
    >>> [bytes(one) for one in joined((Span(5, bytes(two.offsets)),) * 2, b"abcabc")]
    [b'a', b'bc', b'a', b'bc']
    """
    if isinstance(blob, memoryview):
        blob = blob.toreadonly()  # it may be another program's own
    if len(spans) == 1:
        return Batch(spans[0].offsets, blob)
    edges = [0]
    for span in spans:
        base = edges[-1]
        own = memoryview(span.offsets).cast("i").tolist()
        edges += [base + edge for edge in own[1:]]
    return Batch(struct.pack(f"<{len(edges)}i", *edges), blob)


def numbers(spans: tuple[Span, ...]) -> Iterator[Interval]:
    for span in spans:
        for number in span.interval:
            yield Interval(number, number + 1)


def owned(blob: Buffer) -> bytes | bytearray:
    """A body that came alone, as a program gets it; not copied when it came from elsewhere.

    What was put in this very process may be its program's own: that is copied.

    >>> mine = bytearray(b"frame")
    >>> got = owned(memoryview(mine).toreadonly()); mine[0] = 0; got
    b'frame'
    """
    if not isinstance(blob, memoryview):
        return blob
    whole = blob.obj
    if isinstance(whole, bytes) and len(whole) == len(blob):
        return whole
    return bytes(blob)
