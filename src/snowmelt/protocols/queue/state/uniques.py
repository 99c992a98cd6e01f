"""Puts with a uniqueness key: what is in the queue under one is not put again.

1. Such a key is one of a put: of its item, or of all its items together. While one of these lives,
   ready, delayed, in hand or dead, a put under the same key puts nothing. It is answered with where
   they are, and the number of its producer stands for that from then on.
2. A put may ask for more: that so it stays for a time after it came in, whatever becomes of it. The
   time ends by the wall clock of whoever leads then.
3. A put that waits for room, or for its bodies, is none yet: what came in first is the one.
4. What is staged is in no queue, so it has no such key. With several partitions a key lives in one.
5. Of each key a digest of `DIGEST` bytes is kept, as a record. With each put some are looked at,
   the longest not looked at first, and those that are over go. A queue has `UNIQUE_MAX` at most,
   and no room for a put with one more.
"""

from collections import OrderedDict
from collections.abc import Iterator
from hashlib import blake2b
from typing import Final

import msgspec

from snowmelt.core.ahead import Number
from snowmelt.protocols.queue.state.blocks import Living
from snowmelt.protocols.queue.state.producers import Edges, intervals

UNIQUES: Final = b"a"
UNIQUE_MAX: Final = 1_000_000
DIGEST: Final = 16
LOOKED: Final = 2
LOOKED_FULL: Final = 1_000
_ENCODE: Final = msgspec.msgpack.Encoder().encode


class UniquePut(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What was put under a key; this is also its record."""

    edges: Edges
    until: Number
    """For so long it stays so by the wall clock, whatever becomes of it; 0: no longer."""


_DECODE: Final = msgspec.msgpack.Decoder(UniquePut).decode


class Uniques:
    """Of one queue.

    >>> from snowmelt.core.interval import Interval
    >>> from snowmelt.protocols.queue.state.batches import Batches, StoredBatch
    >>> batches = Batches({})
    >>> batches.add(StoredBatch(0, 1, 10, 1))
    >>> uniques = Uniques({}, batches.live)
    >>> uniques.note(b"order-7", (0, 1), until=0, wall=5)
    >>> uniques.earlier(b"order-7", 5), uniques.earlier(b"order-8", 5)
    ((0, 1), None)
    >>> over = batches.end(Interval(0, 1)); uniques.earlier(b"order-7", 5)
    """

    def __init__(self, changed: dict[bytes, None], live: Living) -> None:
        self._changed = changed
        self._live = live
        self._known: OrderedDict[bytes, UniquePut] = OrderedDict()
        """By digest; what was looked at last stands last."""

    def __len__(self) -> int:
        return len(self._known)

    def earlier(self, name: bytes, wall: int) -> Edges | None:
        """Where that is which is in the queue under this key, or was in its time (rules 1, 2)."""
        known = self._known.get(_digest(name))
        return None if known is None or self._is_over(known, wall) else known.edges

    def _is_over(self, known: UniquePut, wall: int) -> bool:
        return known.until <= wall and not any(map(self._live.touches, intervals(known.edges)))

    def note(self, name: bytes, edges: Edges, until: int, wall: int) -> None:
        """This was put under a key of which nothing is there."""
        self._look(LOOKED, wall)
        digest = _digest(name)
        self._known[digest] = UniquePut(edges, until)
        self._known.move_to_end(digest)
        self._changed[UNIQUES + digest] = None

    def has_room(self, wall: int) -> bool:
        """Whether a put with one more may come in (rule 5)."""
        if len(self._known) >= UNIQUE_MAX:
            self._look(LOOKED_FULL, wall)
        return len(self._known) < UNIQUE_MAX

    def _look(self, count: int, wall: int) -> None:
        for _ in range(min(count, len(self._known))):
            digest, known = self._known.popitem(last=False)
            if self._is_over(known, wall):
                self._changed[UNIQUES + digest] = None
            else:
                self._known[digest] = known

    # --- as it is written down --------------------------------------------------------------------

    def keys(self) -> Iterator[bytes]:
        for digest in self._known:
            yield UNIQUES + digest

    def record(self, key: bytes) -> bytes | None:
        known = self._known.get(key[1:])
        return None if known is None else _ENCODE(known)

    def restore(self, key: bytes, value: bytes) -> None:
        self._known[key[1:]] = known = _DECODE(value)
        intervals(known.edges)


def _digest(name: bytes) -> bytes:
    return blake2b(name, digest_size=DIGEST).digest()
