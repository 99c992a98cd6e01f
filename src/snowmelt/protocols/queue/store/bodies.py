"""Bodies at hand: those that came or were read last; the next get need not read the disk."""

from collections import OrderedDict
from typing import Final

from snowmelt.core.names import NodeId
from snowmelt.core.shares import SharesHeld
from snowmelt.protocols.queue.state.batches import StoredBatch
from snowmelt.protocols.queue.state.segments import Segment

BESIDE: Final = 400
"""Bytes of memory that a batch takes beside those of its bodies, about."""
Name = tuple[str, int, int]
"""A queue, where a batch's bodies begin, and its term."""


class Bodies:
    """Of all queues of a node, up to a number of bytes of memory; the oldest go first.

    >>> bodies, batch = Bodies(500), StoredBatch(0, 1, 8, 1)
    >>> bodies.add("q", batch, Segment(0, b"", b"01234567", b""))
    >>> bodies.add("q", StoredBatch(1, 2, 8, 1), Segment(1, b"", b"01234567", b""))
    >>> bodies.of("q", batch), bodies.bytes
    (None, 408)
    """

    def __init__(self, bytes_max: int) -> None:
        self.bytes = 0
        self.open_bytes = SharesHeld[NodeId]()
        """Of puts that were not answered yet, by client; these count in no bound here."""
        self.parked_bytes = SharesHeld[NodeId]()
        """Of those, what waits for room in a queue."""
        self._bytes_max = bytes_max
        self._found: OrderedDict[Name, Segment] = OrderedDict()

    def add(self, queue: str, batch: StoredBatch, segment: Segment) -> None:
        name = queue, batch.start + batch.shift, batch.term
        if name in self._found:
            return
        self._found[name] = segment
        self.bytes += _bytes(segment)
        while self.bytes > self._bytes_max and len(self._found) > 1:
            _, gone = self._found.popitem(last=False)
            self.bytes -= _bytes(gone)

    def of(self, queue: str, batch: StoredBatch) -> Segment | None:
        return self._found.get((queue, batch.start + batch.shift, batch.term))


def _bytes(segment: Segment) -> int:
    return BESIDE + len(segment.blob) + len(segment.offsets) + len(segment.headers)
