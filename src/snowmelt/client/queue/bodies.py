"""What is to be put, cut into calls: bodies packed as `core.batch` has them, headers as msgpack."""

import struct
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import accumulate, islice
from typing import Final, cast

import msgspec

from snowmelt.client.queue.options import Key, as_key, seconds_of
from snowmelt.core.batch import ONE, Batch, Buffer
from snowmelt.core.errors import BadOption, TooLarge
from snowmelt.core.headers import headers_in
from snowmelt.core.instant import SECOND, Duration
from snowmelt.core.keys import KEY_BYTES
from snowmelt.protocols.queue.api.calls import PriorityRun
from snowmelt.protocols.queue.api.labels import Labels, pack
from snowmelt.protocols.queue.api.settings import BODY_BYTES_MAX, HOLD_LONGEST, KEY_BYTES_MAX

CALL_BYTES: Final = 8 << 20
CALL_ITEMS: Final = 32_768
AHEAD: Final = 256
"""So many bodies are taken from a generator before it is looked how much they are."""
HEADERS_BYTES_MAX: Final = 64 << 10

PLAIN: Final = frozenset({bytes, bytearray})
_ENCODE: Final = msgspec.msgpack.Encoder().encode


class CallLimit(msgspec.Struct, frozen=True):
    """How much goes in one call at most; one body goes whatever it weighs."""

    items: int = CALL_ITEMS
    bytes: int = CALL_BYTES


CALL: Final = CallLimit()


class PutItems(msgspec.Struct, frozen=True):
    """The items of one call."""

    count: int
    offsets: bytes
    blob: bytes
    runs: tuple[PriorityRun, ...] = ()
    """Of which priority they are; of the first where nothing is said."""
    keys: bytes = b""
    """In a queue of any priorities, that of each."""
    order: tuple[int, ...] = ()
    """Which of those given each is, where they are not as they were given."""


def parcel(body: Buffer) -> PutItems:
    """One body as a call's items.

    >>> parcel("text")
    Traceback (most recent call last):
    TypeError: a body is bytes, not str; encode it, or name a codec, as codec='text'
    """
    body = as_bytes(body)
    if len(body) > BODY_BYTES_MAX:
        raise TooLarge(f"a body of {len(body)} bytes; at most {BODY_BYTES_MAX} can be put")
    return PutItems(1, ONE.pack(0, len(body)), body)


def together(bodies: list[bytes]) -> PutItems:
    """Some bodies that are no more than a call's worth, as one call's items.

    >>> together([b"one", b"two"]).blob
    b'onetwo'
    """
    if len(bodies) == 1:  # as where nobody puts beside
        return PutItems(1, ONE.pack(0, len(bodies[0])), bodies[0])
    return _packed(bodies, list(accumulate(map(len, bodies), initial=0)))


def parcels(bodies: Iterable[Buffer] | Batch, limit: CallLimit = CALL) -> Iterator[PutItems]:
    """Bodies, as few calls as they fit into; an endless iterable is taken in bit by bit.

    What a generator gives is read before it is asked for the next.

    >>> [one.count for one in parcels([b"one", b"two"])]
    [2]
    >>> [one.count for one in parcels(bytes(3 << 20) for _ in range(5))]
    [2, 2, 1]
    >>> [one.count for one in parcels([b"one", b"two", b"three"], CallLimit(items=2))]
    [2, 1]
    """
    if isinstance(bodies, str | bytes | bytearray | memoryview):
        raise TypeError(f"put_many takes several bodies, not one {type(bodies).__name__}; see put")
    if isinstance(bodies, Batch):
        if len(bodies) > limit.items or bodies.size > limit.bytes:
            yield from _drawn(map(bytes, bodies), limit)
        elif len(bodies):
            whole = bodies.trimmed()
            yield PutItems(len(whole), bytes(whole.offsets), bytes(whole.blob))
        return
    if not isinstance(bodies, list | tuple):
        yield from _drawn(bodies, limit)
        return
    for at in range(0, len(bodies), limit.items):
        part = bodies[at : at + limit.items]
        if PLAIN.issuperset(map(type, part)):
            edges = list(accumulate(map(len, part), initial=0))
            if edges[-1] <= limit.bytes:
                yield _packed(part, edges)
                continue
        yield from _drawn(part, limit)


class Unique(msgspec.Struct, frozen=True):
    """A uniqueness key, and for how long it holds besides."""

    key: bytes = b""
    time: Duration = Duration(0)


NOT_UNIQUE: Final = Unique()


def as_unique(key: Key | None, time: float) -> Unique:
    """What a person said of a put; raises `BadOption`.

    >>> as_unique("order-7", 60), as_unique(None, 0) is NOT_UNIQUE
    (Unique(key=b'order-7', time=60000000000), True)
    """
    longest = seconds_of("unique_for", time, 0, HOLD_LONGEST / SECOND)
    if key is not None:
        return Unique(as_key(key, "unique"), longest)
    if longest:
        raise BadOption("unique_for", time, "none without unique=KEY")
    return NOT_UNIQUE


def labelled(
    headers: Mapping[str, str | bytes] | None,
    key: Key | Sequence[Key | None],
    items: PutItems,
    first: int = 0,
    *,
    last: bool = True,
) -> bytes:
    """Headers and keys of one call's items, the first of which was given as the so-manieth."""
    if headers is not None:
        packed_headers(headers)  # which looks at them
    common = dict(headers or {})
    if items.count == 1 and isinstance(key, str | bytes):  # as mostly
        return _ENCODE((common, (as_key(key),), None))
    if not isinstance(key, list | tuple):
        return pack(Labels(common, (as_key(key),) * items.count))
    own = key[first : first + items.count]
    if len(own) < items.count or (last and len(key) > first + items.count):
        raise BadOption("key", f"{len(key)} keys", "one for all bodies, or as many as bodies")
    return pack(Labels(common, _as_keys(own)).in_order(items.order))


def chosen(items: PutItems, some: Sequence[int]) -> PutItems:
    """Some of a call's items, in their order.

    >>> few = chosen(together([b"a", b"bc", b"d"]), [0, 2])
    >>> few.count, few.blob
    (2, b'ad')
    """
    bodies = Batch.known(items.offsets, items.blob)
    own = [bodies[at] for at in some]
    part = _packed(own, list(accumulate(map(len, own), initial=0)))
    stops, runs = [0, *accumulate([run.count for run in items.runs])], list[PriorityRun]()
    for run, first, stop in zip(items.runs, stops, stops[1:], strict=False):
        count = bisect_left(some, stop) - bisect_left(some, first)
        if count:
            runs.append(PriorityRun(run.priority, count))
    keys = b"".join([items.keys[KEY_BYTES * at : KEY_BYTES * (at + 1)] for at in some])
    return msgspec.structs.replace(part, runs=tuple(runs), keys=keys)


def _as_keys(some: Sequence[Key | None]) -> tuple[bytes | None, ...]:
    """Several at once: mostly all are text, or all are bytes, and none is too long."""
    kinds = set(map(type, some))
    keys: tuple[bytes, ...] = ()
    if kinds == {str}:
        with suppress(UnicodeEncodeError):
            keys = tuple(map(str.encode, cast("Sequence[str]", some)))
    elif kinds == {bytes}:
        keys = tuple(cast("Sequence[bytes]", some))
    sizes = set(map(len, keys))
    if sizes and 0 < min(sizes) <= max(sizes) <= KEY_BYTES_MAX:
        return keys
    return tuple([None if one is None else as_key(one) for one in some])


def packed_headers(headers: Mapping[str, str | bytes] | Labels | None) -> bytes:
    r"""Headers as they travel, the same for all items of a call, or labels of each one's own.

    >>> packed_headers({"kind": "page"})
    b'\x81\xa4kind\xa4page'
    """
    if headers is None:
        return b""
    if isinstance(headers, Labels):
        return pack(headers)
    try:
        packed = _ENCODE(dict(headers))
        headers_in(packed)
    except (TypeError, ValueError):  # msgspec's errors are ValueErrors
        raise BadOption("headers", headers, "a map from text to text or bytes") from None
    if len(packed) > HEADERS_BYTES_MAX:
        raise TooLarge(f"headers of {len(packed)} bytes; at most {HEADERS_BYTES_MAX} can be put")
    return packed if len(packed) > 1 else b""  # an empty map is none


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
        raise TypeError("a body is bytes, not str; encode it, or name a codec, as codec='text'")
    name = type(body).__name__
    try:
        view = memoryview(body)  # type: ignore[arg-type]  # that is what is tried
    except TypeError:
        text = f"a body is bytes, not {name}; encode it, or name a codec, as codec='json'"
        raise TypeError(text) from None
    except (ValueError, BufferError) as error:
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


def as_bytes(body: object) -> bytes:
    """The same, for good: whatever can change is copied."""
    if type(body) is bytes:
        return body
    return bytes(body if type(body) is bytearray else as_buffer(body))


def _drawn(bodies: Iterable[Buffer], limit: CallLimit) -> Iterator[PutItems]:
    """Each is read before the next is asked for: the caller may use one buffer again."""
    rest = iter(bodies)
    items: list[bytes] = []
    edges = [0]
    while some := [
        body if type(body) is bytes else as_bytes(body)
        for body in islice(rest, min(len(items), AHEAD) or 1)
    ]:
        items += some
        edges += accumulate(map(len, some), initial=edges.pop())
        while len(items) > 1 and (edges[-1] > limit.bytes or len(items) > limit.items):
            count = max(1, min(bisect_right(edges, limit.bytes) - 1, limit.items))
            yield _packed(items[:count], edges[: count + 1])
            base = edges[count]
            items, edges = items[count:], [edge - base for edge in edges[count:]]
    if items:
        yield _packed(items, edges)


def _packed(bodies: Sequence[Buffer], edges: list[int]) -> PutItems:
    """Bodies that lie between these edges."""
    if len(bodies) == 1:
        return parcel(bodies[0])
    return PutItems(len(bodies), struct.pack(f"<{len(edges)}i", *edges), b"".join(bodies))
