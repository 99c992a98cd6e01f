"""What goes with the items of a put: headers that all of them share, or labels of each one's own.

Shared headers are msgpack of a map. Labels are msgpack of an array of three, so the first byte
tells one from the other, and a node looks into them only when it hands out a part of a put.
"""

from collections import deque
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

import msgspec

from snowmelt.core.headers import Headers, fit, headers_in
from snowmelt.core.interval import Interval
from snowmelt.protocols.queue.api.settings import HEADER_BYTES_MAX

_ARRAY_OF_THREE: Final = b"\x93"

Keys = tuple[bytes | None, ...]
"""The key of each of some items."""


class Labels(msgspec.Struct, frozen=True, array_like=True):
    """Headers for all items, and keys and headers item by item; None where there are none.

    >>> labels = Labels({"from": "shop"}, keys=(b"a", None))
    >>> labels.of(0), labels.of(1)
    ((b'a', {'from': 'shop'}), (None, {'from': 'shop'}))
    """

    common: Headers = {}
    keys: tuple[bytes | None, ...] | None = None
    headers: tuple[Headers | None, ...] | None = None

    def of(self, index: int) -> tuple[bytes | None, Headers]:
        """One item's key and all its headers."""
        key = None if self.keys is None else self.keys[index]
        own = None if self.headers is None else self.headers[index]
        return key, {**self.common, **(own or {})}

    def slice(self, first: int, stop: int) -> "Labels":
        """Those of some of the items."""
        keys = None if self.keys is None else self.keys[first:stop]
        headers = None if self.headers is None else self.headers[first:stop]
        return Labels(self.common, keys, headers)

    def in_order(self, order: Sequence[int]) -> "Labels":
        """Those of the items in another order; in the same where none is named."""
        if not order:
            return self
        keys = None if self.keys is None else tuple([self.keys[at] for at in order])
        headers = None if self.headers is None else tuple([self.headers[at] for at in order])
        return Labels(self.common, keys, headers)

    def fit(self, count: int) -> bool:
        """Whether these are labels for so many items."""
        return all(rows is None or len(rows) == count for rows in (self.keys, self.headers))


class _Unpacked(msgspec.Struct, frozen=True, array_like=True):
    """Labels whose headers nobody has looked at yet."""

    common: dict[str, Any]
    keys: tuple[bytes | None, ...] | None
    headers: tuple[dict[str, Any] | None, ...] | None


_Rows = list[msgspec.Raw]
_Packed = tuple[msgspec.Raw, msgspec.Raw, msgspec.Raw]
"""Labels whose rows are not unpacked: many times less memory, and what nodes work with."""
_Keyed = tuple[msgspec.Raw, Keys | None, msgspec.Raw]

_ENCODE: Final = msgspec.msgpack.Encoder().encode
_DECODE: Final = msgspec.msgpack.Decoder(_Unpacked).decode
_DECODE_PACKED: Final = msgspec.msgpack.Decoder(_Packed).decode
_DECODE_KEYED: Final = msgspec.msgpack.Decoder(_Keyed).decode
_DECODE_ROWS: Final = msgspec.msgpack.Decoder(_Rows).decode
_DECODE_OWN: Final = msgspec.msgpack.Decoder(dict[str, Any] | None).decode
_DECODE_PLAIN: Final = msgspec.msgpack.Decoder(tuple[dict[str, str], tuple[bytes], None]).decode
"""One item with a key, and headers such as all items of a put may have: as mostly."""
_DECODE_KEYS: Final = msgspec.msgpack.Decoder(Keys).decode
_NONE: Final = msgspec.Raw(b"\xc0")
_NO_HEADERS: Final = b"\x80"


def are_labels(packed: bytes) -> bool:
    """Whether these bytes say something of each item, not of all alike."""
    return packed[:1] == _ARRAY_OF_THREE


def pack(labels: Labels) -> bytes:
    """As they travel.

    >>> unpack(pack(Labels({"from": "shop"}))).common
    {'from': 'shop'}
    """
    return _ENCODE(labels)


def each_own(shared: list[bytes]) -> bytes:
    r"""The headers of several puts of one item each, as those of one put.

    >>> each_own([b"", b""]), unpack(each_own([b"", b"\x81\xa1a\xa1b"])).headers
    (b'', (None, {'a': 'b'}))
    """
    first = shared[0]
    if not shared[1:]:
        return first
    if any(map(are_labels, shared)):
        return _each_key(shared)
    if shared.count(first) == len(shared):
        return first
    rows = [msgspec.Raw(one) if one else None for one in shared]
    return _ENCODE(({}, None, rows))


def _each_key(shared: list[bytes]) -> bytes:
    """The same, where some have a key."""
    keys: _Rows = []
    rows: list[msgspec.Raw | None] = []
    for one in shared:
        key, own = _NONE, msgspec.Raw(one)
        if are_labels(one):
            own, rest, _ = _DECODE_PACKED(one)
            (key,) = _DECODE_ROWS(rest)
        keys.append(key)
        rows.append(None if bytes(own) in (b"", _NO_HEADERS) else own)
    return _ENCODE(({}, keys, rows if any(rows) else None))


def _unpack(packed: bytes) -> Labels:
    if not packed:
        return Labels()
    if not are_labels(packed):
        return Labels(headers_in(packed))
    try:
        whole = _DECODE(packed)
    except RecursionError:
        raise ValueError("labels that are nested") from None
    headers = None if whole.headers is None else tuple(map(_fit_own, whole.headers))
    return Labels(fit(whole.common), whole.keys, headers)


def _fit_own(found: dict[str, Any] | None) -> Headers | None:
    return None if found is None else fit(found)


# The items of a part ask one by one. What is large may be many times as large when it is unpacked.
_SMALL: Final = 64 << 10  # bytes
_unpack_small: Final = lru_cache(maxsize=64)(_unpack)
_unpack_large: Final = lru_cache(maxsize=4)(_unpack)


def unpack(packed: bytes) -> Labels:
    """From what travels, whichever of the two it is; raises `ValueError` for neither."""
    return _unpack_small(packed) if len(packed) <= _SMALL else _unpack_large(packed)


def keys_of(packed: bytes) -> bytes:
    r"""The key of each item, as `named_keys` reads it; nothing where none has one.

    >>> named_keys(keys_of(pack(Labels(keys=(b"a", None))))), keys_of(b"\x80")
    ((b'a', None), b'')
    """
    if not are_labels(packed):
        return b""
    _, keys, _ = _DECODE_PACKED(packed)
    return b"" if keys == _NONE else bytes(keys)


def named_keys(keys: bytes) -> Keys | None:
    """The key of each of some items; None where none has one."""
    return _DECODE_KEYS(keys) if keys else None


def keys_in(packed: bytes) -> Keys | None:
    r"""The same of what goes with them.

    >>> keys_in(pack(Labels(keys=(b"a", None)))), keys_in(b"\x80")
    ((b'a', None), None)
    """
    return _DECODE_KEYED(packed)[1] if packed[:1] == _ARRAY_OF_THREE else None


def sliced(packed: bytes, first: int, stop: int) -> bytes:
    """What goes with some of the items. Free for shared headers, O(items) for labels."""
    if not are_labels(packed):
        return packed
    common, keys, headers = _rows_small(packed) if len(packed) <= _SMALL else _rows_large(packed)
    parts = [None if rows is None else rows[first:stop] for rows in (keys, headers)]
    return _ENCODE((common, *parts))


def picked(packed: bytes, some: Sequence[Interval]) -> bytes:
    r"""Labels of only these items.

    >>> one = picked(pack(Labels(keys=(b"a", b"b"))), [Interval(1, 2)])
    >>> unpack(one).keys, unpack(spread(one, [Interval(1, 2)], 3)).keys
    ((b'b',), (None, b'b', None))
    """
    if not are_labels(packed):
        return packed
    common, *both = _rows(packed)
    parts = [
        None if rows is None else [row for one in some for row in rows[one.start : one.stop]]
        for rows in both
    ]
    return _ENCODE((common, *parts))


def spread(packed: bytes, some: Sequence[Interval], count: int) -> bytes:
    """Labels of so many items, of which these have some."""
    if not are_labels(packed):
        return packed
    common, *both = _rows(packed)
    places: list[int] = [at for one in some for at in one]
    parts: list[_Rows | None] = []
    for rows in both:
        found = {} if rows is None else dict(zip(places, rows, strict=True))
        parts.append(None if rows is None else [found.get(at, _NONE) for at in range(count)])
    return _ENCODE((common, *parts))


def _rows(packed: bytes) -> tuple[msgspec.Raw, _Rows | None, _Rows | None]:
    common, *both = _DECODE_PACKED(packed)
    keys, headers = [None if raw == _NONE else _DECODE_ROWS(raw) for raw in both]
    return common, keys, headers


# A put is handed out part after part.
_rows_small: Final = lru_cache(maxsize=4)(_rows)
_rows_large: Final = lru_cache(maxsize=1)(_rows)


def checked(packed: bytes, count: int) -> Keys | None:
    """The keys of so many items; raises `ValueError` where those who get them could not read this.

    It takes time by the byte, and memory by the item: rows of headers are unpacked one at a time.
    """
    if packed[:1] != _ARRAY_OF_THREE:
        headers_in(packed)
        return None
    if count == 1 and len(packed) <= HEADER_BYTES_MAX:
        try:
            return _DECODE_PLAIN(packed)[1]
        except msgspec.MsgspecError:
            pass  # perhaps it is another form
    found: Keys | None = None
    try:
        common, keys, headers = _DECODE_PACKED(packed)
        _check_size(len(memoryview(common)))
        headers_in(common)
        if keys != _NONE:
            _check_count(keys, count)
            found = _DECODE_KEYS(keys)
            if len(memoryview(keys)) > HEADER_BYTES_MAX:  # else none of them is longer
                _check_size(max(map(len, filter(None, found)), default=0))
        if headers != _NONE:
            _check_count(headers, count)
            rows = _DECODE_ROWS(headers)
            _check_size(max((len(memoryview(row)) for row in rows), default=0))
            deque(map(_own, rows), maxlen=0)
    except RecursionError:
        raise ValueError("labels that are nested") from None
    return found


def _check_count(raw: msgspec.Raw, count: int) -> None:
    if _length(bytes(memoryview(raw)[:5])) != count:
        raise ValueError(f"labels for another number of items than {count}")


def _check_size(size: int) -> None:
    if size > HEADER_BYTES_MAX + _MARKS:
        raise ValueError(f"{size} bytes of labels for one item; the limit is {HEADER_BYTES_MAX}")


def _own(row: msgspec.Raw) -> Headers | None:
    return _fit_own(_DECODE_OWN(row))


_MARKS: Final = 5  # bytes, which say what follows and how long it is


def _length(head: bytes) -> int:
    """How many rows msgpack says there are, before one of them is looked at; -1 for no array."""
    match head[0]:
        case 0xDC:
            return int.from_bytes(head[1:3])
        case 0xDD:
            return int.from_bytes(head[1:5])
        case first if first >> 4 == 0x9:
            return first & 0xF
        case _:
            return -1
