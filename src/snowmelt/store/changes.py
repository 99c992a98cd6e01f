"""What may be asked of a store: the limits of keys and values, and how much a change weighs."""

from collections.abc import Sequence
from typing import Final, TypeAlias

import msgspec

from snowmelt.core.errors import BadOption
from snowmelt.core.record import BULK, KEY_BYTES_MAX, Change, Erase, Write

Group: TypeAlias = Sequence[Change]
"""The changes of one `Persist`: made together or not at all."""

PAGE: Final = 4096
VALUE_BYTES_MAX: Final = 1 << 30
_BOUND_BYTES_MAX: Final = KEY_BYTES_MAX + 1  # `erase` puts one byte after the longest key
_RECORD: Final = 32  # what the engine keeps with a record
_OWN_PAGES: Final = PAGE // 2 - _RECORD
_OVERHEAD: Final = 64  # what a change costs beside its bytes while it waits


class Measure(msgspec.Struct, frozen=True, gc=False):
    bytes: int
    """Those of its keys and values."""
    pages: int
    """Bytes of the pages that its writes may take."""
    bulk: bool
    """Whether it writes payload, and not only a machine's own small state."""
    changes: int = 0
    """How many it has."""

    @property
    def weight(self) -> int:
        """Bytes that its changes occupy while they wait, roughly.

        >>> measured([Write(b"view", b"7"), Erase(b"a", b"b")]).weight
        135
        """
        return self.bytes + _OVERHEAD * self.changes


def measured(changes: Group) -> Measure:
    """Raises `BadOption` when a store could not carry these out on any disk.

    >>> measured([Write(b"view", b"7"), Erase(b"a", b"b")])
    Measure(bytes=7, pages=74, bulk=False, changes=2)
    >>> measured([Write(b"", b"1")])
    Traceback (most recent call last):
    snowmelt.core.errors.BadOption: a key's length in bytes is 0; allowed: 1 to 400
    """
    total, pages, bulk = 0, 0, False
    for change in changes:
        if type(change) is Write:
            key_size, value_size = len(change.key), len(change.value)
            if not 1 <= key_size <= KEY_BYTES_MAX:
                raise BadOption("a key's length in bytes", key_size, f"1 to {KEY_BYTES_MAX}")
            if value_size > VALUE_BYTES_MAX:
                raise BadOption("a value's length in bytes", value_size, f"0 to {VALUE_BYTES_MAX}")
            size = key_size + value_size
            total += size
            if size > _OWN_PAGES:  # it gets pages of its own
                pages += -(-(size + _RECORD) // PAGE) * PAGE
            else:
                pages += 2 * (size + _RECORD)  # a page may be half empty after it was split
            bulk = bulk or change.key[:1] == BULK
        else:
            assert type(change) is Erase
            start, stop = len(change.start), len(change.stop)
            if start > _BOUND_BYTES_MAX or stop > _BOUND_BYTES_MAX:
                longest = max(start, stop)
                raise BadOption("an erased key's length", longest, f"0 to {_BOUND_BYTES_MAX}")
            total += start + stop
    return Measure(total, pages, bulk, len(changes))
