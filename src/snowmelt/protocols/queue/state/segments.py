"""Segments: what one put brought, as it is stored, sent to others and handed out."""

from array import array
from collections.abc import Iterator
from itertools import accumulate, pairwise
from typing import Final

import msgspec

from snowmelt.core import times
from snowmelt.core.batch import OFFSET_BYTES, Batch
from snowmelt.core.interval import Interval, IntervalSet
from snowmelt.core.spans import stepped
from snowmelt.protocols.queue.api import labels
from snowmelt.protocols.queue.api.calls import ItemRun, Put


class Segment(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Items of one put, from position `first` on."""

    first: int
    offsets: bytes
    blob: bytes
    headers: bytes
    put_at: times.Time = 0
    """When the leader took it in (ns since 1970); 0 in segments of before."""
    left: tuple[int, ...] = ()
    """Which of its items are here, as `core/spans.steps`; nothing where all are (`thinning.py`)."""

    @property
    def stop(self) -> int:
        return self.first + len(self.offsets) // OFFSET_BYTES - 1


_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(Segment)


def by_priority(put: Put) -> Iterator[Put]:
    """The same items as a put of each priority."""
    batch, stop = Batch.known(put.offsets, put.blob), 0
    for run in put.runs:
        first, stop = stop, stop + run.count
        some = batch.slice(first, stop).trimmed()
        yield msgspec.structs.replace(
            put,
            offsets=bytes(some.offsets),
            blob=bytes(some.blob),
            headers=labels.sliced(put.headers, first, stop),
            runs=(run,),
        )


def stored(segment: Segment) -> bytes:
    """As it stands on the disk and travels between nodes."""
    return _ENCODER.encode(_picked(segment) if segment.left else segment)


def unstored(body: bytes, stop: int) -> Segment:
    """From what was stored; raises `ValueError` for what is no segment or ends elsewhere."""
    segment = _DECODER.decode(body)
    batch = Batch(segment.offsets, segment.blob)  # looks at every offset
    if labels.are_labels(segment.headers):
        labels.checked(segment.headers, len(batch))
    if segment.left:
        segment = _spread(segment, stop)
    if segment.stop != stop or segment.first < 0 or segment.first >= stop:
        raise ValueError(f"a segment from {segment.first} to {segment.stop} under {stop}")
    return segment


def thinned(segment: Segment, left: tuple[int, ...]) -> Segment:
    r"""With only these items; as it is stored, the others take no room.

    >>> whole = Segment(7, array("i", [0, 1, 3, 6]).tobytes(), b"abbccc", b"")
    >>> thin = thinned(whole, (1, 1))
    >>> thin.blob, thin.stop, lacks(thin, 8, 9), lacks(thin, 7, 9)
    (b'bb', 10, False, True)
    >>> unstored(stored(thin), 10) == thin
    True
    """
    return _spread(_picked(msgspec.structs.replace(segment, left=left)), segment.stop)


def _picked(thin: Segment) -> Segment:
    """Nothing of those that are not left."""
    whole, kept = Batch.known(thin.offsets, thin.blob), stepped(thin.left)
    some = Batch.joined([whole.slice(one.start, one.stop) for one in kept])
    offsets, blob = bytes(some.offsets), bytes(some.blob)
    headers = labels.picked(thin.headers, kept)
    return msgspec.structs.replace(thin, offsets=offsets, blob=blob, headers=headers)


def _spread(thin: Segment, stop: int) -> Segment:
    """Each item at its own index again: those that are not left are empty."""
    count = stop - thin.first
    kept, sizes = stepped(thin.left), [0] * count
    edges = array("i", thin.offsets)
    lengths = [stop - start for start, stop in pairwise(edges)]
    if not kept or kept[-1].stop > count or sum([one.size for one in kept]) != len(lengths):
        raise ValueError(f"{len(lengths)} items of {count} at {kept}")
    at = 0
    for one in kept:
        sizes[one.start : one.stop] = lengths[at : at + one.size]
        at += one.size
    offsets = array("i", accumulate(sizes, initial=edges[0])).tobytes()
    headers = labels.spread(thin.headers, kept, count)
    return msgspec.structs.replace(thin, offsets=offsets, headers=headers)


def lacks(segment: Segment, first: int, stop: int) -> bool:
    """Whether some of these items are in it no more."""
    where = Interval(first - segment.first, stop - segment.first)
    return bool(segment.left) and not IntervalSet(stepped(segment.left)).covers(where)


def part_of(segment: Segment, first: int, stop: int, position: int) -> ItemRun:
    """The items of a segment from one index to another; the first of them is at `position`."""
    put_at = times.whole(stop - first, segment.put_at) if segment.put_at else b""
    edges = OFFSET_BYTES * (stop - first + 1)
    if first == segment.first and len(segment.offsets) == edges:
        return ItemRun(position, segment.offsets, segment.blob, segment.headers, times=put_at)
    batch = Batch.known(segment.offsets, segment.blob)  # looked at when it came, or was read
    batch = batch.slice(first - segment.first, stop - segment.first).trimmed()
    headers = labels.sliced(segment.headers, first - segment.first, stop - segment.first)
    return ItemRun(position, bytes(batch.offsets), bytes(batch.blob), headers, times=put_at)


def joined(parts: list[ItemRun]) -> list[ItemRun]:
    """Fewer parts with the same items: neighbours with the same headers become one."""
    if len(parts) < 2:
        return parts
    result: list[ItemRun] = []
    row: list[ItemRun] = []
    for part in parts:
        if row and not _alike(row[-1], part):
            result.append(_one(row))
            row = []
        row.append(part)
    if row:
        result.append(_one(row))
    return result


def _alike(left: ItemRun, right: ItemRun) -> bool:
    """Asked of each two neighbours, so it calls nothing that it need not."""
    edges, others = len(left.offsets), len(right.offsets)
    return (
        left.start + edges // OFFSET_BYTES - 1 == right.start
        and left.headers == right.headers
        and not (left.headers and labels.are_labels(left.headers))
        and left.failures == right.failures
        and left.reason == right.reason
        and edges <= _JOIN_EDGES
        and others <= _JOIN_EDGES
        and len(left.blob) + len(right.blob) < _JOIN_BYTES
    )


# Joining costs by the item and by the byte; parts that are large already are sent as they are.
_JOIN_EDGES: Final = 65 * OFFSET_BYTES
_JOIN_BYTES: Final = 256 << 10


def _one(row: list[ItemRun]) -> ItemRun:
    if len(row) == 1:
        return row[0]
    first = row[0]
    lengths: list[int] = []
    for part in row:
        if len(part.offsets) == 2 * OFFSET_BYTES:  # all of its bytes are one body
            lengths.append(len(part.blob))
        else:
            edges = array("i", part.offsets)
            lengths += [stop - start for start, stop in pairwise(edges)]
    offsets = array("i", accumulate(lengths, initial=0)).tobytes()
    blob = b"".join(part.blob for part in row)
    put_at = times.chained([(part.count, part.times) for part in row])
    failed = first.failures, first.reason
    keys = b"".join([part.keys for part in row])
    return ItemRun(first.start, offsets, blob, first.headers, *failed, put_at, keys)
