"""Segments: what one put brought, as it is stored, sent to other keepers and handed out.

A segment's key names its queue, its stream, and the index *behind* its last item. So the segment
that holds an index is the first one whose key is greater, and one scan forward finds it.
"""

from array import array
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator, Sequence
from itertools import accumulate, islice, pairwise
from typing import Final

import msgspec

from snowmelt.core import times
from snowmelt.core.batch import OFFSET_BYTES, Batch
from snowmelt.core.record import BULK, Erase
from snowmelt.protocols.fifo import labels
from snowmelt.protocols.fifo.calls import Part
from snowmelt.protocols.fifo.messages import Extent

INDEX_BYTES: Final = 8
INDEX_MAX: Final = 2**63
INDEX_BITS: Final = 64
INDEX_MASK: Final = 2**64 - 1
GOING: Final = 128
"""So many of the segments at hand go at once: it must not take long."""
_OVERHEAD: Final = 600  # bytes that Python needs for a segment at hand, whatever is in it


class Segment(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Items of one put, from index `first` of their stream on."""

    first: int
    offsets: bytes
    blob: bytes
    headers: bytes
    put_at: times.Time = 0
    """When the node that took the put had it (ns since 1970); 0 in segments of before."""

    @property
    def stop(self) -> int:
        """Behind its last index."""
        return self.first + len(self.offsets) // OFFSET_BYTES - 1


_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(Segment)


def stored(segment: Segment) -> bytes:
    """As it stands on the disk and travels between keepers."""
    return _ENCODER.encode(segment)


def unstored(body: bytes, stop: int) -> Segment:
    """From what was stored; raises `ValueError` for what is no segment or ends elsewhere."""
    segment = _DECODER.decode(body)
    batch = Batch(segment.offsets, segment.blob)  # looks at every offset
    labels.checked(segment.headers, len(batch))
    if segment.stop != stop or segment.first < 0 or segment.first >= stop:
        raise ValueError(f"a segment from {segment.first} to {segment.stop} under {stop}")
    return segment


def key(queue: str, stream: str, stop: int) -> bytes:
    return _prefix(queue, stream) + stop.to_bytes(INDEX_BYTES)


def stop_of(segment_key: bytes) -> int:
    """The index behind a segment, from its key."""
    return int.from_bytes(segment_key[-INDEX_BYTES:])


def erased(queue: str, extent: Extent) -> Erase:
    """The change that erases the segments of an extent. No segment lies across its ends."""
    stop = max(extent.first, extent.stop)  # another node said them
    return Erase(key(queue, extent.stream, extent.first + 1), key(queue, extent.stream, stop + 1))


def node_range(queue: str, node: str) -> tuple[bytes, bytes]:
    """From which key to which all streams of a node, in whatever run, are stored."""
    prefix = BULK + queue.encode() + b"\0" + node.encode()
    return prefix + b"/", prefix + bytes([ord("/") + 1])


def _prefix(queue: str, stream: str) -> bytes:
    return BULK + queue.encode() + b"\0" + stream.encode() + b"\0"


def part_of(segment: Segment, first: int, stop: int, position: int) -> Part:
    """The items of a segment from one index to another; the first of them is at `position`."""
    put_at = times.whole(stop - first, segment.put_at) if segment.put_at else b""
    if first == segment.first and stop == segment.stop:
        return Part(position, segment.offsets, segment.blob, segment.headers, times=put_at)
    batch = Batch.known(segment.offsets, segment.blob)  # looked at when it came, or was read
    batch = batch.slice(first - segment.first, stop - segment.first).trimmed()
    headers = labels.sliced(segment.headers, first - segment.first, stop - segment.first)
    return Part(position, bytes(batch.offsets), bytes(batch.blob), headers, times=put_at)


def joined(parts: list[Part]) -> list[Part]:
    """Fewer parts with the same items: neighbours with the same headers become one."""
    if len(parts) < 2:
        return parts
    result: list[Part] = []
    row: list[Part] = []
    for part in parts:
        if row and not _alike(row[-1], part):
            result.append(_one(row))
            row = []
        row.append(part)
    if row:
        result.append(_one(row))
    return result


def _alike(left: Part, right: Part) -> bool:
    return (
        left.start + left.count == right.start
        and left.headers == right.headers
        and not labels.are_labels(left.headers)
        and left.failures == right.failures
        and left.reason == right.reason
        and max(left.count, right.count) <= _JOIN_ITEMS
        and len(left.blob) + len(right.blob) < _JOIN_BYTES
    )


# Joining costs by the item and by the byte; parts that are large already are sent as they are.
_JOIN_ITEMS: Final = 64
_JOIN_BYTES: Final = 256 << 10


def _one(row: list[Part]) -> Part:
    if len(row) == 1:
        return row[0]
    first = row[0]
    lengths: list[int] = []
    for part in row:
        edges = array("i", part.offsets)
        lengths += [stop - start for start, stop in pairwise(edges)]
    offsets = array("i", accumulate(lengths, initial=0)).tobytes()
    blob = b"".join(part.blob for part in row)
    put_at = times.chained([(part.count, part.times) for part in row])
    return Part(first.start, offsets, blob, first.headers, first.failures, first.reason, put_at)


class Recent:
    """The segments that came or were read last, up to a number of bytes.

    Those whose write is not flushed yet are here and nowhere else, so they stay.

    There may be a hundred thousand, so they lie where Python's search for cycles never looks, in
    maps from numbers to what refers to nothing: it took 30 ms of every such search to pass them.
    """

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._bytes = 0
        self._numbers: dict[tuple[str, str], int] = {}
        """Of each stream of a queue, a number; it begins the places of its segments."""
        self._names: dict[int, tuple[str, str]] = {}
        self._numbered = 0
        self._stops: dict[int, array[int]] = {}
        self._segments: dict[int, Segment] = {}
        self._pinned: dict[int, None] = {}

    def add(self, queue: str, stream: str, segment: Segment, *, pin: bool) -> None:
        """Keeps a segment at hand; pinned, until `unpin`."""
        number, stop = self._number(queue, stream), segment.stop
        place = number << INDEX_BITS | stop
        if pin:
            self._pinned[place] = None
        if place in self._segments:
            return
        self._segments[place] = segment
        stops = self._stops[number]
        if not stops or stops[-1] < stop:
            stops.append(stop)
        else:
            insort(stops, stop)
        self._bytes += _weight(segment)
        if self._bytes > self._bytes_max:
            self._shrink()

    def unpin(self, queue: str, stream: str, stop: int) -> None:
        number = self._numbers.get((queue, stream))
        if number is not None:
            self._pinned.pop(number << INDEX_BITS | stop, None)

    def holding(self, queue: str, stream: str, index: int) -> Segment | None:
        """The segment that holds an index of a stream, if it is at hand. O(log n)."""
        number = self._numbers.get((queue, stream))
        if number is None:
            return None
        stops = self._stops[number]
        at = bisect_right(stops, index)
        if at == len(stops):
            return None
        segment = self._segments[number << INDEX_BITS | stops[at]]
        return segment if segment.first <= index else None

    def drop(self, queue: str, extent: Extent) -> None:
        number = self._numbers.get((queue, extent.stream))
        if number is None:
            return
        stops = self._stops[number]
        first, last = bisect_right(stops, extent.first), bisect_right(stops, extent.stop)
        for stop in stops[first:last]:
            place = number << INDEX_BITS | stop
            self._bytes -= _weight(self._segments.pop(place))
            self._pinned.pop(place, None)
        del stops[first:last]
        self._forget(number)

    def _number(self, queue: str, stream: str) -> int:
        number = self._numbers.get((queue, stream))
        if number is None:
            self._numbered += 1
            number = self._numbers[queue, stream] = self._numbered
            self._names[number] = queue, stream
            self._stops[number] = array("Q")
        return number

    def _forget(self, number: int) -> None:
        if not self._stops[number]:
            del self._stops[number], self._numbers[self._names.pop(number)]

    def _shrink(self) -> None:
        """Lets some of the oldest go, or looks at them last if they must stay. O(1)."""
        gone: dict[int, list[int]] = {}
        for place in list(islice(self._segments, GOING)):
            if self._bytes <= self._bytes_max * 3 // 4:
                break
            segment = self._segments.pop(place)
            if place in self._pinned:
                self._segments[place] = segment
                continue
            self._bytes -= _weight(segment)
            gone.setdefault(place >> INDEX_BITS, []).append(place & INDEX_MASK)
        for number, those in gone.items():
            stops = self._stops[number]
            for start, end in _stretches(stops, sorted(those)):
                del stops[start:end]
            self._forget(number)


def _stretches(stops: Sequence[int], gone: list[int]) -> Iterator[tuple[int, int]]:
    """Where some of the stops stand, neighbours together, the last first.

    >>> list(_stretches([3, 5, 7, 9], [3, 5, 9]))
    [(3, 4), (0, 2)]
    """
    start = end = len(stops)
    for stop in reversed(gone):
        at = bisect_left(stops, stop)
        if at + 1 != start and start < end:
            yield start, end
        start, end = at, end if at + 1 == start and start < end else at + 1
    if start < end:
        yield start, end


def _weight(segment: Segment) -> int:
    return len(segment.blob) + len(segment.offsets) + len(segment.headers) + _OVERHEAD
