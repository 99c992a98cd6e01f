"""The keys of a queue of any priorities: of each position a number of 64 bits, the least first.

They are records, in pages: whoever leads next has all of them in memory, as its followers have,
and reads no body for the order. A page has those of `PAGE` positions, so single puts write some
hundred bytes each, and eight bytes an item is all that is kept. It goes when nothing of it lives.
"""

from collections.abc import Iterator
from typing import Final

from snowmelt.core.interval import Interval
from snowmelt.core.keys import KEY_BYTES, unpacked
from snowmelt.protocols.queue.state.blocks import Living

KIND: Final = b"k"
PAGE: Final = 128
_NONE: Final = bytes(PAGE * KEY_BYTES)


class KeysByPosition:
    """By positions.

    >>> from snowmelt.core.keys import packed
    >>> keys = KeysByPosition(changed := {})
    >>> keys.add(126, packed([7, -1, 3])); keys.of(Interval(127, 129)), len(changed)
    ((-1, 3), 2)
    """

    def __init__(self, changed: dict[bytes, None]) -> None:
        self._changed = changed
        self._pages: dict[int, bytes] = {}
        """Each up to the last position that has a key; 0 for those that have none."""

    def add(self, start: int, row: bytes) -> None:
        """Of neighbours, behind all others."""
        at = 0
        while at < len(row):
            page, index = divmod(start + at // KEY_BYTES, PAGE)
            some = row[at : at + (PAGE - index) * KEY_BYTES]
            before = self._pages.get(page, b"")
            self._pages[page] = before + bytes(index * KEY_BYTES - len(before)) + some
            self._changed[KIND + page.to_bytes(8)] = None
            at += len(some)

    def row(self, where: Interval) -> bytes:
        """As they came; 0 for what has ended."""
        first, last = where.start // PAGE, (where.stop - 1) // PAGE
        whole = self._pages.get(first, _NONE)
        if last > first:
            rest = [self._pages.get(page, _NONE) for page in range(first + 1, last + 1)]
            whole = b"".join([whole, *rest])
        at = (where.start - first * PAGE) * KEY_BYTES
        return whole[at : at + (where.stop - where.start) * KEY_BYTES]

    def of(self, where: Interval) -> tuple[int, ...]:
        return unpacked(self.row(where))

    def forget(self, where: Interval, live: Living) -> None:
        """These have ended: pages of which nothing lives go."""
        for page in range(where.start // PAGE, (where.stop - 1) // PAGE + 1):
            whole = Interval(page * PAGE, (page + 1) * PAGE)
            if page in self._pages and not live.touches(whole):
                del self._pages[page]
                self._changed[KIND + page.to_bytes(8)] = None

    # --- as they are written down -----------------------------------------------------------------

    def keys(self) -> Iterator[bytes]:
        for page in self._pages:
            yield KIND + page.to_bytes(8)

    def record(self, key: bytes) -> bytes | None:
        return self._pages.get(int.from_bytes(key[1:]))

    def restore(self, key: bytes, row: bytes) -> None:
        if len(row) % KEY_BYTES or len(row) > len(_NONE):
            raise ValueError(f"{len(row)} bytes are no page of keys")
        self._pages[int.from_bytes(key[1:])] = row
