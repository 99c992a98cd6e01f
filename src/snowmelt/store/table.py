"""What is committed and not yet in the engine: in memory, over it, in the order of keys.

    table.make(*changes)    in the order in which changes were committed
    table.changes()         the fewest changes that do the same, for the engine
    TableSnapshot(...).walk, .found  what a reader sees: the table, and through its gaps the engine

A value that is written stands above an erasing that was made before; what is written and erased
between two transactions of the engine never gets there.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from typing import TypeAlias

import lmdb

from snowmelt.core.record import Change, Damaged, Erase, Found, Missing, Record, Write
from snowmelt.store.seal import unseal

Transaction: TypeAlias = "lmdb.Transaction[bytes]"


class Table:
    """Values under their keys, and ranges of which the engine's records don't count.

    >>> table = Table()
    >>> for change in (Write(b"a", b"1"), Write(b"b", b"2"), Erase(b"b", b"d"), Erase(b"d", b"e")):
    ...     table.make(change)
    >>> list(table.changes())
    [Erase(start=b'b', stop=b'e'), Write(key=b'a', value=b'1')]
    >>> list(table.gaps(b"", None))
    [(b'', b'b'), (b'e', None)]
    """

    def __init__(self) -> None:
        self.values: dict[bytes, bytes] = {}
        self._keys: list[bytes] = []
        # Of the erased ranges, in order; there is something between any two of them.
        self._starts: list[bytes] = []
        self._stops: list[bytes] = []

    def make(self, *changes: Change) -> None:
        values = self.values
        for change in changes:
            if type(change) is Write:
                if change.key not in values:
                    insort(self._keys, change.key)
                values[change.key] = bytes(change.value)
            elif type(change) is Erase and change.start < change.stop:
                self._erase(change.start, change.stop)

    def _erase(self, start: bytes, stop: bytes) -> None:
        keys = self._keys
        low = bisect_left(keys, start)
        high = bisect_left(keys, stop, low)
        for key in keys[low:high]:
            del self.values[key]
        del keys[low:high]
        low, high = bisect_left(self._stops, start), bisect_right(self._starts, stop)
        if low < high:  # it meets these, and is one with them
            start, stop = min(start, self._starts[low]), max(stop, self._stops[high - 1])
        self._starts[low:high] = [start]
        self._stops[low:high] = [stop]

    def changes(self) -> Iterator[Change]:
        """What makes the engine hold what is seen now."""
        yield from map(Erase, self._starts, self._stops)
        for key in self._keys:
            yield Write(key, self.values[key])

    def clear(self) -> None:
        """The engine has all of it."""
        for part in (self.values, self._keys, self._starts, self._stops):
            part.clear()

    def between(self, start: bytes, stop: bytes | None) -> Iterator[bytes]:
        """The keys of the values in a range, in order."""
        keys = self._keys
        end = len(keys) if stop is None else bisect_left(keys, stop)
        return (keys[at] for at in range(bisect_left(keys, start), end))

    def gaps(self, start: bytes, stop: bytes | None) -> Iterator[tuple[bytes, bytes | None]]:
        """The parts of a range in which nothing was erased, in order."""
        for at in range(bisect_right(self._stops, start), len(self._starts)):
            if stop is not None and self._starts[at] >= stop:
                break
            if start < self._starts[at]:
                yield start, self._starts[at]
            start = self._stops[at]
        if stop is None or start < stop:
            yield start, stop

    def erased(self, key: bytes) -> bool:
        """Whether what the engine has under this key doesn't count."""
        at = bisect_right(self._starts, key) - 1
        return at >= 0 and key < self._stops[at]


class TableSnapshot:
    """The records as of one commit."""

    def __init__(self, transaction: Transaction, table: Table, identity: bytes) -> None:
        self._transaction = transaction
        self._table = table
        self._identity = identity
        self.damaged = 0
        """Records met whose seal did not fit."""

    def walk(self, start: bytes, stop: bytes | None) -> Iterator[Record | Damaged]:
        """What is in a range, in order: the table's records, and the engine's through its gaps."""
        values, written = self._table.values, self._table.between(start, stop)
        ours = next(written, None)
        cursor = self._transaction.cursor()
        for begin, end in self._table.gaps(start, stop):
            if not (cursor.set_range(begin) if begin else cursor.first()):
                break
            for key, sealed in cursor:
                if end is not None and key >= end:
                    break
                while ours is not None and ours <= key:
                    yield Record(ours, values[ours])
                    ours = next(written, None)
                if key not in values:
                    yield self._unsealed(key, sealed)
        while ours is not None:
            yield Record(ours, values[ours])
            ours = next(written, None)

    def found(self, key: bytes) -> Found:
        value = self._table.values.get(key)
        if value is not None:
            return Record(key, value)
        sealed = self._transaction.get(key) if key and not self._table.erased(key) else None
        return Missing(key) if sealed is None else self._unsealed(key, sealed)

    def _unsealed(self, key: bytes, sealed: bytes) -> Record | Damaged:
        value = unseal(self._identity, key, sealed)
        if value is None:
            self.damaged += 1
            return Damaged(key)
        return Record(key, value)
