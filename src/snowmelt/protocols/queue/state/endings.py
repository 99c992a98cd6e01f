"""What ended in many blocks at once: a record for all of it, a *bundle*, and blocks' own follow.

1. Where what a step ends lies in more than a few blocks, the step writes which positions these are,
   and not the blocks: their records are *late*.
2. Each such step also writes some of the late blocks, those first that are late for longest: about
   `FOLD` times as many bytes as the last bundle has. So bundles have no more than one in so many
   bytes of what blocks have, however large either are.
3. A bundle is erased when no block is late by what it tells.
4. What bundles tell has ended, whatever blocks' records say. Each block of which one tells
   something counts as late where that was read.
"""

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from snowmelt.core.interval import Interval
from snowmelt.core.spans import stepped, steps

ENDED: Final = b"d"
"""The kind of these records: behind that of blocks."""
FOLD: Final = 2
OVERHEAD: Final = 64
"""A record takes so much besides what is in it, about."""
_ENCODE: Final = msgspec.msgpack.Encoder().encode
_DECODE: Final = msgspec.msgpack.Decoder(list[int]).decode


class EndBundles:
    r"""The bundles of a queue, and the keys of the blocks whose records are late.

    >>> endings = EndBundles(changed := {b"one": None, b"two": None})
    >>> endings.add([Interval(7, 8), Interval(90, 91)], [b"one", b"two"])
    >>> endings.written(b"one"), changed
    (None, {b'd\x00\x00\x00\x00\x00\x00\x00\x00': None})
    >>> (key,) = endings.keys(); stepped(_DECODE(endings.record(key)))
    [Interval(start=7, stop=8), Interval(start=90, stop=91)]
    >>> endings.written(b"two"), endings.record(key)
    (None, None)
    """

    def __init__(self, changed: dict[bytes, None]) -> None:
        self.late: dict[bytes, int] = {}
        """Which bundle is the first that tells something of each, the longest late first."""
        self.credit = 0
        """How many bytes of blocks may be written now (rule 2)."""
        self._changed = changed
        self._bundles: dict[int, bytes] = {}
        self._next = 0

    def add(self, ended: Iterable[Interval], blocks: Iterable[bytes]) -> None:
        """One more; these blocks are late by it (rule 1)."""
        number, row = self._next, _ENCODE(steps(ended))
        self._next += 1
        self._bundles[number] = row
        self._changed[_key(number)] = None
        self.credit = min(self.credit, 0) + FOLD * (len(row) + OVERHEAD)
        for key in blocks:
            del self._changed[key]
            self.late.setdefault(key, number)

    def written(self, block: bytes) -> None:
        """Its record is written, or erased (rule 3)."""
        self.late.pop(block, None)
        first = next(iter(self.late.values()), self._next)
        while self._bundles and (oldest := next(iter(self._bundles))) < first:
            del self._bundles[oldest]
            self._changed[_key(oldest)] = None

    # --- as they are written down -----------------------------------------------------------------

    def keys(self) -> Iterator[bytes]:
        yield from map(_key, self._bundles)

    def record(self, key: bytes) -> bytes | None:
        return self._bundles.get(int.from_bytes(key[1:]))

    def restore(self, key: bytes, row: bytes) -> tuple[int, list[Interval]]:
        """From a record, in the order of their keys: its number, and what ended."""
        number = int.from_bytes(key[1:])
        self._bundles[number] = row
        self._next = number + 1
        return number, stepped(_DECODE(row))


def ended_in(value: bytes, position: int) -> bool:
    """Whether the record of a bundle tells that an item ended."""
    return any(position in one for one in stepped(_DECODE(value)))


def _key(number: int) -> bytes:
    return ENDED + number.to_bytes(8)
