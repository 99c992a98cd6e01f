"""Batches that were put with a `hold`: safe with their keepers, and not in the queue yet.

Each has its verdict in the journal, like any segment (`admission.py`), but no position: that comes
when it is published, in one step with all that is published with it. What nobody publishes in its
time is dropped. While it waits it is in the list of what keepers are to keep, and is not copied
anew when one of them is lost: it need not live long.
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from snowmelt.core.instant import Instant
from snowmelt.protocols.fifo.messages import Extent

LOOK_EVERY: Final = 10**9
_NEVER: Final = 2**63

Name = tuple[str, int]
"""A stream, and the index of the first item."""


class StagedBatch(msgspec.Struct, frozen=True, array_like=True):
    """One batch that waits; this is also its record in the journal."""

    stop: int
    bytes: int
    keepers: tuple[str, ...]
    due: int
    until: int
    """When it is dropped, by the wall clock."""


class Staged:
    """All staged batches of a queue.

    >>> staged = Staged({})
    >>> staged.keep(("n1/1/1", 0), StagedBatch(3, 300, ("n1/1",), 0, 1000))
    >>> staged.items, staged.over(999), [name for name, _ in staged.over(1000)]
    (3, [], [('n1/1/1', 0)])
    """

    def __init__(self, changed: dict[bytes, None]) -> None:
        self._changed = changed
        self._batches: dict[Name, StagedBatch] = {}
        self._earliest = _NEVER
        """No batch is over before this."""
        self.items = 0
        """How many items wait."""

    def __iter__(self) -> Iterator[tuple[Name, StagedBatch]]:
        return iter(list(self._batches.items()))

    def __len__(self) -> int:
        return len(self._batches)

    def named(self, name: Name) -> StagedBatch | None:
        return self._batches.get(name)

    def keep(self, name: Name, batch: StagedBatch) -> None:
        self.forget(name)
        self._batches[name] = batch
        self._earliest = min(self._earliest, batch.until)
        self.items += batch.stop - name[1]
        self._changed[key(name)] = None

    def forget(self, name: Name) -> None:
        batch = self._batches.pop(name, None)
        if batch is not None:
            self.items -= batch.stop - name[1]
            self._changed[key(name)] = None

    def over(self, wall: int) -> list[tuple[Name, StagedBatch]]:
        """Those whose time is over. O(1) while there is none."""
        if wall < self._earliest:
            return []
        batches = self._batches.items()
        self._earliest = min((batch.until for _, batch in batches), default=_NEVER)
        return [(name, batch) for name, batch in batches if batch.until <= wall]

    def kept_by(self, keeper: str) -> list[Extent]:
        return [_extent(name, batch) for name, batch in self if keeper in batch.keepers]

    def dropped(self, name: Name, batch: StagedBatch) -> Extent:
        """Where a batch lies that is forgotten from now on."""
        self.forget(name)
        return _extent(name, batch)


def key(name: Name) -> bytes:
    """Under which key a staged batch stands in the journal.

    >>> name_of(key(("n1/1/1", 7))[1:])
    ('n1/1/1', 7)
    """
    stream, first = name
    return b"h" + stream.encode() + b"\0" + first.to_bytes(8)


def name_of(rest: bytes) -> Name:
    """From what follows the first byte of a key."""
    return rest[:-9].decode(), int.from_bytes(rest[-8:])


def _extent(name: Name, batch: StagedBatch) -> Extent:
    stream, first = name
    return Extent(stream, first, batch.stop)


def soon(now: Instant) -> Instant:
    """When to look next for those whose time is over."""
    return Instant(now + LOOK_EVERY)
