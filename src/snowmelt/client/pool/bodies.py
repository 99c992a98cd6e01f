"""What is to be put into a pool, cut into calls: small bodies together, a large one as it is."""

import struct
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from snowmelt.client.queue.bodies import (
    CALL_BYTES,
    CALL_ITEMS,
    PLAIN,
    PutItems,
    as_buffer,
    parcels,
)
from snowmelt.core.batch import Batch, Buffer
from snowmelt.core.errors import TooLarge
from snowmelt.core.interval import Interval
from snowmelt.protocols.pool.messages import ObjectSpan
from snowmelt.protocols.pool.settings import OBJECT_BYTES_MAX

LARGE: Final = 64 << 10
"""From here on a body is not copied next to others."""
_ONE: Final = struct.Struct("<2i")
Written = Callable[[Buffer], memoryview | None]
"""A large body, written where other processes of this machine read it; None where none asks."""


def single(body: Buffer, written: Written = lambda _: None) -> PutItems:
    """One body: what can change is copied, and so is what is small.

    A large one that is read-only is kept as it is: by that it is handed over. Where another process
    of this machine may ask for it, it is written where that reads it.

    >>> single("text")
    Traceback (most recent call last):
    TypeError: a body is bytes, not str; encode it, or name a codec, as codec='text'
    """
    if type(body) is not bytes:
        body = as_buffer(body)
    size = len(body)
    if size > OBJECT_BYTES_MAX:
        raise TooLarge(f"a body of {size} bytes; at most {OBJECT_BYTES_MAX} can be put")
    placed = written(body) if size >= LARGE else None
    if placed is not None:
        body = placed
    elif size < LARGE or not memoryview(body).readonly:
        body = bytes(body)
    return PutItems(1, _ONE.pack(0, size), body)  # type: ignore[arg-type]  # a view is as good


def several(
    bodies: Iterable[Buffer] | Batch, written: Written = lambda _: None
) -> Iterator[PutItems]:
    """Bodies, as few calls as they fit into.

    >>> [one.count for one in several([b"one", b"two", bytes(1 << 20), b"three"])]
    [2, 1, 1]
    """
    if isinstance(bodies, Batch | str | bytes | bytearray | memoryview) or _plain(bodies):
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
            yield single(body, written)
    yield from parcels(small)


def _plain(bodies: Iterable[Buffer]) -> bool:
    """Whether these are small and can't change, as most are: that is seen at C's speed."""
    listed = isinstance(bodies, list | tuple) and PLAIN.issuperset(map(type, bodies))
    return listed and max(map(len, bodies), default=0) < LARGE


def joined(spans: tuple[ObjectSpan, ...], blob: Buffer) -> Batch:
    """What came as one batch.

    >>> two = Batch.of([b"a", b"bc"])
    >>> [bytes(one) for one in joined((ObjectSpan(5, bytes(two.offsets)),) * 2, b"abcabc")]
    [b'a', b'bc', b'a', b'bc']
    """
    if isinstance(blob, memoryview):
        blob = blob.toreadonly()  # it may be another program's own
    if len(spans) == 1:
        return Batch.known(spans[0].offsets, blob)  # the machine has looked at every edge
    edges = [0]
    for span in spans:
        base = edges[-1]
        own = memoryview(span.offsets).cast("i").tolist()
        edges += [base + edge for edge in own[1:]]
    return Batch(struct.pack(f"<{len(edges)}i", *edges), blob)


def numbers(spans: tuple[ObjectSpan, ...]) -> Iterator[Interval]:
    for span in spans:
        for number in span.interval:
            yield Interval(number, number + 1)


def alone(blob: Buffer) -> Buffer:
    """A body that came alone, as a program gets it: a large one is not copied.

    >>> alone(memoryview(b"frame")[1:])
    b'rame'
    """
    if not isinstance(blob, memoryview):
        return blob
    whole = blob.obj
    if isinstance(whole, bytes):
        return whole if len(whole) == len(blob) else bytes(blob)
    return blob if len(blob) >= LARGE else bytes(blob)
