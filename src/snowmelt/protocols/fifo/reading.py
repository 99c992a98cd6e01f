"""Finding the segments that hold a stretch of a stream: in memory, else on the disk.

The disk is read in two strides. The first takes the segments that end within the stretch. When
the last of them ends before the stretch does, the stretch ends in the middle of a segment (or
nothing more is there): the second takes what comes next, and a little more, since whoever reads
one item reads its neighbours soon.
"""

from collections.abc import Callable

import msgspec

from snowmelt.core.record import Found, Record
from snowmelt.protocols.fifo.calls import PART_BYTES, Part
from snowmelt.protocols.fifo.desk import Desk
from snowmelt.protocols.fifo.messages import Extent
from snowmelt.protocols.fifo.segments import (
    INDEX_MAX,
    Recent,
    Segment,
    joined,
    key,
    part_of,
    stop_of,
    unstored,
)


class Stretch(msgspec.Struct, frozen=True):
    segments: tuple[Segment, ...]
    """Those that hold the stretch, from its first index on, without a gap."""
    bad: Extent | None = None
    """What comes next and can't be read; None when all was read, or as much as was asked for."""
    missing: bool = False
    """Whether that is not here at all: it was dropped, or the disk has lost it."""


class Budget(msgspec.Struct):
    """How much may be read: a put that reaches what is wanted is the last, and room is a limit."""

    wanted: int
    room: int
    segments: int = INDEX_MAX
    each: int = PART_BYTES
    """What goes with every segment besides what is in it."""

    def takes(self, segment: Segment) -> bool:
        """Whether a segment fits; then it is taken."""
        size = self.each + len(segment.offsets) + len(segment.blob) + len(segment.headers)
        if self.wanted <= 0 or size > self.room or self.segments <= 0:
            return False
        self.segments -= 1
        self.wanted -= size
        self.room -= size
        return True


class Reading:
    def __init__(
        self,
        desk: Desk,
        recent: Recent,
        queue: str,
        extent: Extent,
        budget: Budget,
        then: Callable[[Stretch], None],
    ) -> None:
        self._desk = desk
        self._recent = recent
        self._queue = queue
        self._extent = extent
        self._budget = budget
        self._over = False
        """Whether the next segment does not fit."""
        self._then = then
        self._at = extent.first
        self._found: list[Segment] = []
        self._strides = 0

    def go_on(self) -> None:
        """Takes what is at hand; ends, or asks the disk for what comes next."""
        while self._at < self._extent.stop and self._budget.wanted > 0 and not self._over:
            segment = self._recent.holding(self._queue, self._extent.stream, self._at)
            if segment is None:
                self._ask()
                return
            self._take(segment)
        self._then(Stretch(tuple(self._found)))

    def _take(self, segment: Segment) -> None:
        self._over = not self._budget.takes(segment)
        if not self._over:
            self._found.append(segment)
            self._at = segment.stop

    def _ask(self) -> None:
        stream, at = self._extent.stream, self._at
        start = key(self._queue, stream, at + 1)
        self._strides += 1
        if self._strides == 1:
            stop = key(self._queue, stream, self._extent.stop + 1)
            self._desk.scan(start, stop, self._budget.wanted, self._read)
        else:
            stop = key(self._queue, stream, INDEX_MAX)
            self._desk.scan(start, stop, self._desk.limits.ahead_bytes, self._read_last)

    def _read(self, found: tuple[Found, ...]) -> None:
        """The first stride; a gap in it is looked at again by the second."""
        for one in found:
            segment = self._good(one)
            if segment is None or segment.first > self._at:
                break
            self._recent.add(self._queue, self._extent.stream, segment, pin=False)
            if not self._over and segment.stop > self._at:
                self._take(segment)
        self.go_on()

    def _read_last(self, found: tuple[Found, ...]) -> None:
        segments = [self._good(one) for one in found]
        first = segments[0] if segments else None
        if first is not None and first.first <= self._at < first.stop:
            for segment in segments:
                if segment is not None:
                    self._recent.add(self._queue, self._extent.stream, segment, pin=False)
            self._take(first)
            self._strides = 0
            self.go_on()
            return
        missing = not found or first is not None
        self._then(Stretch(tuple(self._found), self._bad(found), missing))

    def _bad(self, found: tuple[Found, ...]) -> Extent:
        """How far it is bad: to where the next good segment begins, or to the stretch's end."""
        stop = self._extent.stop
        for one in found:
            segment = self._good(one)
            if segment is not None:
                stop = min(stop, max(segment.first, self._at + 1))
                break
        return Extent(self._extent.stream, self._at, stop)

    def _good(self, found: Found) -> Segment | None:
        if not isinstance(found, Record):
            return None
        try:
            return unstored(found.value, stop_of(found.key))
        except ValueError:
            return None


def parts_of(
    stretch: Stretch, extent: Extent, position: int, failures: int = 0, reason: str = ""
) -> list[Part]:
    """What was read of an extent whose first item is at `position`, as clients get it."""
    parts = []
    for segment in stretch.segments:
        first, stop = max(segment.first, extent.first), min(segment.stop, extent.stop)
        part = part_of(segment, first, stop, position + first - extent.first)
        if reason:
            part = msgspec.structs.replace(part, failures=failures, reason=reason)
        parts.append(part)
    return joined(parts)
