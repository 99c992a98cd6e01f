"""What a get has in many stretches, as one piece: seap, rule 9.

So an answer costs little more for four hundred stretches than for one, here, on its way and with
whoever asked. Only elements go together that differ in nothing but their bodies, their keys, their
positions, and when they were put.
"""

from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import accumulate
from operator import sub
from struct import Struct
from typing import Final

import msgspec

from snowmelt.core import times
from snowmelt.core.batch import BLOB_BYTES_MAX, OFFSET_BYTES, Buffer
from snowmelt.core.batch import Batch as Bodies
from snowmelt.core.keys import KEY_BYTES
from snowmelt.core.keys import part as keys_of
from snowmelt.core.pieces import Edges
from snowmelt.core.spans import spans, stretches
from snowmelt.protocols.priority.batches import Shares
from snowmelt.protocols.priority.messages import Piece
from snowmelt.protocols.priority.origins import Lot
from snowmelt.protocols.priority.recent import Bulk
from snowmelt.protocols.priority.rows import Rows, Where
from snowmelt.protocols.priority.standing import Standing


def gathered(
    rows: Rows,
    lots: Mapping[int, Lot],
    bulks_of: Callable[[Sequence[int]], list[Bulk | None]],
    shares: Shares,
) -> Piece | None:
    """All of these as one piece; None where they are one stretch, or not all alike and at hand."""
    if len(shares) != 1 or len(shares[0].intervals) < 2:
        return None
    row, edges = rows.row(shares[0].priority), Edges.of(shares[0].intervals)
    standing = row.common_standing(shares[0].intervals)
    parts = None if edges is None else row.here.parts(edges)
    if edges is None or parts is None or standing is None:
        return None
    return joined(shares[0].priority, edges, parts, lots, bulks_of, standing)


def joined(
    priority: int,
    edges: Edges,
    parts: Sequence[tuple[int, int, Where]],
    lots: Mapping[int, Lot],
    bulks_of: Callable[[Sequence[int]], list[Bulk | None]],
    standing: Standing,
) -> Piece | None:
    """Elements that lie in these parts of lots, as one piece; None where not all are at hand."""
    bulks = bulks_of([where.lot for _, _, where in parts])
    sizes: list[int] = []
    blobs: list[bytes] = []
    keys: list[bytes] = []
    put: list[int] = []
    for (start, stop, where), bulk in zip(parts, bulks, strict=True):
        if bulk is None or bulk.headers:
            return None
        first, count = start + where.base, stop - start
        if count == 1:  # as mostly, where there are many
            low, high = _PAIR(bulk.offsets, first * OFFSET_BYTES)
            sizes.append(high - low)
        else:
            cut = _edges(count + 1)(bulk.offsets, first * OFFSET_BYTES)
            low, high = cut[0], cut[-1]
            sizes += map(sub, cut[1:], cut)
        blobs.append(bulk.blob[low:high])
        keys.append(lots[where.lot].keys[first * KEY_BYTES : (first + count) * KEY_BYTES])
        put += (count, bulk.put_at)
    if sum(sizes) > BLOB_BYTES_MAX:
        return None
    offsets = array("i", accumulate(sizes, initial=0)).tobytes()
    return Piece(
        priority, edges.starts[0], offsets, b"".join(blobs), b"",
        standing.failures, standing.reason, b"".join(keys),
        spans=spans(edges.starts, edges.stops), put_times=times.pairs(put),
    )  # fmt: skip


_PAIR: Final = Struct("<2i").unpack_from


@cache
def _edges(count: int) -> Callable[[Buffer, int], tuple[int, ...]]:
    """Reads so many offsets, one behind the other."""
    return Struct(f"<{count}i").unpack_from


def apart(piece: Piece) -> Iterator[Piece]:
    """The same elements, a piece for each stretch."""
    if not piece.spans:
        yield piece
        return
    bodies, first = Bodies.known(piece.offsets, piece.blob), 0
    for one in stretches(piece.spans):
        stop = first + one.size
        some = bodies.slice(first, stop).trimmed()
        yield msgspec.structs.replace(
            piece, start=one.start, offsets=bytes(some.offsets), blob=bytes(some.blob),
            keys=keys_of(piece.keys, first, stop), put_at=times.at(piece.put_times, first),
            spans=b"", put_times=b"",
        )  # fmt: skip
        first = stop
