"""Which batches have their bodies on data nodes, and on which: a part of a queue's state.

1. Such a batch has a place of its own, above all others. The key of its bodies is that place and
   the term in which it was given: no other body of the queue has that key, ever.
2. Who leads gives places from memory. Whoever leads next begins above all that are written down.
3. The nodes that are named had flushed the bodies before they were named.
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from snowmelt.core.ahead import Count
from snowmelt.core.interval import Interval
from snowmelt.protocols.queue.state.batches import SPREAD, StoredBatch
from snowmelt.protocols.queue.state.blocks import Term

KIND: Final = b"x"
_ENCODE: Final = msgspec.msgpack.Encoder().encode


class Lies(msgspec.Struct, frozen=True, array_like=True):
    """Where the bodies of one batch are; this is also its record."""

    stop: Count
    term: Term
    nodes: tuple[str, ...]
    """The names of their disks."""


_DECODE: Final = msgspec.msgpack.Decoder(Lies).decode


class Spread:
    """All of a queue, by their places.

    >>> spread = Spread({})
    >>> place = spread.place(3)
    >>> spread.name(place.start, Lies(place.stop, 1, ("n2/1", "n3/1")))
    >>> spread.end([Interval(0, 4), place]), spread.held, len(spread.over)
    ([Interval(start=0, stop=4)], {}, 1)
    """

    def __init__(self, changed: dict[bytes, None]) -> None:
        self.held: dict[int, Lies] = {}
        self.over: list[tuple[int, Lies]] = []
        """Those that nobody needs any more."""
        self._changed = changed
        self._next = SPREAD

    def place(self, count: int) -> Interval:
        """One for so many items (rule 2)."""
        place = Interval(self._next, self._next + count)
        self._next = place.stop
        return place

    def name(self, place: int, lies: Lies) -> None:
        """These nodes have it (rule 3)."""
        self.held[place] = lies
        self._changed[_key(place)] = None

    def end(self, over: list[Interval]) -> list[Interval]:
        """Nobody needs what lies at these places; which of them lie here."""
        here: list[Interval] = []
        for where in over:
            at = where.start
            if at < SPREAD:
                here.append(where)
                continue
            while at < where.stop:
                lies = self.held.pop(at, None)
                if lies is None:  # its record could not be read
                    break
                self.over.append((at, lies))
                self._changed[_key(at)] = None
                at = lies.stop
        return here

    # --- as it is written down --------------------------------------------------------------------

    def keys(self) -> Iterator[bytes]:
        return map(_key, self.held)

    def record(self, key: bytes) -> bytes | None:
        """As it is written down; None for one that is over."""
        lies = self.held.get(int.from_bytes(key[1:]))
        return None if lies is None else _ENCODE(lies)

    def restore(self, key: bytes, value: bytes) -> None:
        place, lies = int.from_bytes(key[1:]), _DECODE(value)
        self.held[Interval(place, lies.stop).start] = lies
        self._next = max(self._next, lies.stop)


def body_key(place: int, lies: Lies) -> bytes:
    """Of the bodies there, as `StoredBatch.key` tells it."""
    return StoredBatch(place, lies.stop, 0, lies.term).key


def _key(place: int) -> bytes:
    return KIND + place.to_bytes(8)
