"""What goes with the items of a put: headers that all of them share, or labels of each one's own.

Shared headers are msgpack of a map. Labels are msgpack of an array of three, so the first byte
tells one from the other, and a keeper looks into them only when it hands out a part of a put.
"""

from functools import lru_cache
from typing import Final

import msgspec

_ARRAY_OF_THREE: Final = b"\x93"


class Labels(msgspec.Struct, frozen=True, array_like=True):
    """Headers for all items, and keys and headers item by item; None where there are none.

    >>> labels = Labels({"from": "shop"}, keys=(b"a", None))
    >>> labels.of(0), labels.of(1)
    ((b'a', {'from': 'shop'}), (None, {'from': 'shop'}))
    """

    common: dict[str, str] = {}
    keys: tuple[bytes | None, ...] | None = None
    headers: tuple[dict[str, str] | None, ...] | None = None

    def of(self, index: int) -> tuple[bytes | None, dict[str, str]]:
        """One item's key and all its headers."""
        key = None if self.keys is None else self.keys[index]
        own = None if self.headers is None else self.headers[index]
        return key, {**self.common, **(own or {})}

    def slice(self, first: int, stop: int) -> "Labels":
        """Those of some of the items."""
        keys = None if self.keys is None else self.keys[first:stop]
        headers = None if self.headers is None else self.headers[first:stop]
        return Labels(self.common, keys, headers)

    def fit(self, count: int) -> bool:
        """Whether these are labels for so many items."""
        return all(rows is None or len(rows) == count for rows in (self.keys, self.headers))


_ENCODE: Final = msgspec.msgpack.Encoder().encode
_DECODE: Final = msgspec.msgpack.Decoder(Labels).decode
_DECODE_SHARED: Final = msgspec.msgpack.Decoder(dict[str, str]).decode


def are_labels(packed: bytes) -> bool:
    """Whether these bytes say something of each item, not of all alike."""
    return packed[:1] == _ARRAY_OF_THREE


def pack(labels: Labels) -> bytes:
    """As they travel.

    >>> unpack(pack(Labels({"from": "shop"}))).common
    {'from': 'shop'}
    """
    return _ENCODE(labels)


def _unpack(packed: bytes) -> Labels:
    if not packed:
        return Labels()
    return _DECODE(packed) if are_labels(packed) else Labels(_DECODE_SHARED(packed))


# The items of a part ask one by one. What is large may be many times as large when it is unpacked.
_SMALL: Final = 64 << 10  # bytes
_unpack_small: Final = lru_cache(maxsize=64)(_unpack)
_unpack_large: Final = lru_cache(maxsize=4)(_unpack)


def unpack(packed: bytes) -> Labels:
    """From what travels, whichever of the two it is; raises `ValueError` for neither."""
    return _unpack_small(packed) if len(packed) <= _SMALL else _unpack_large(packed)


def sliced(packed: bytes, first: int, stop: int) -> bytes:
    """What goes with some of the items. Free for shared headers."""
    return pack(unpack(packed).slice(first, stop)) if are_labels(packed) else packed


def checked(packed: bytes, count: int) -> None:
    """Raises `ValueError` when these are labels that don't read, or aren't for so many items."""
    if are_labels(packed) and not _DECODE(packed).fit(count):
        raise ValueError(f"labels for another number of items than {count}")
