"""What a machine may ask of its disk: an ordered map of bytes, changed in atomic steps.

Keys are ordered as bytes. A key that begins with `BULK` stays on the disk until it is loaded; all
others come back in `Started` when the node starts, so they are for state that is small.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final, final

import msgspec

from snowmelt.core.errors import StoreDamaged

BULK: Final = b"~"
KEY_BYTES_MAX: Final = 400
SCAN_RECORDS_MAX: Final = 1_000
UNREADABLE: Final = (ValueError, LookupError, TypeError, ArithmeticError, RecursionError)
"""What reading a record may raise that says something else than it should; msgspec's are these."""


@final
class Write(msgspec.Struct, frozen=True, tag=True, gc=False):
    """Puts a value under a key, in the place of any that was there."""

    key: bytes
    value: bytes


class Erase(msgspec.Struct, frozen=True, tag=True):
    """Removes every key from `start` up to, not including, `stop`."""

    start: bytes
    stop: bytes


Change = Write | Erase


class Record(msgspec.Struct, frozen=True, tag=True):
    """A value as it was written under its key; its checksum was found right."""

    key: bytes
    value: bytes


class Missing(msgspec.Struct, frozen=True, tag=True):
    """There is nothing under this key."""

    key: bytes


class Damaged(msgspec.Struct, frozen=True, tag=True):
    """Something is under this key, but its checksum fits neither its content nor its place."""

    key: bytes


Found = Record | Missing | Damaged


def decoded(value: bytes, kind: Any, what: str = "it") -> Any:
    """What a record's value says. Raises `StoreDamaged` where it is no such thing.

    >>> decoded(msgspec.msgpack.encode(7), int)
    7
    >>> decoded(b"", int)
    Traceback (most recent call last):
    snowmelt.core.errors.StoreDamaged: it can't be read: Input data was truncated
    """
    try:
        return msgspec.msgpack.decode(value, type=kind)
    except UNREADABLE as error:
        raise StoreDamaged(f"{what} can't be read: {error}") from None


def erase(key: bytes) -> Erase:
    r"""The change that removes one key alone.

    >>> erase(b"view")
    Erase(start=b'view', stop=b'view\x00')
    """
    return Erase(key, key + b"\0")


def scanned(found: Iterable[Record | Damaged], bytes_max: int) -> Iterator[Record | Damaged]:
    """As much of a range as one `Scan` brings: the one rule for every disk there is.

    A damaged record has no value to count, but is one of the `SCAN_RECORDS_MAX`.

    >>> found = [Record(b"a", b"12"), Damaged(b"b"), Record(b"c", b"34"), Record(b"d", b"56")]
    >>> [one.key for one in scanned(found, bytes_max=3)]
    [b'a', b'b', b'c']
    """
    total = 0
    for count, one in enumerate(found, start=1):
        yield one
        total += len(one.value) if isinstance(one, Record) else 0
        if total >= bytes_max or count == SCAN_RECORDS_MAX:
            return
