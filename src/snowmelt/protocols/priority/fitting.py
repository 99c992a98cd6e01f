"""How much of what was got, or is looked at, one answer holds: by weight, in order."""

import struct
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable
from typing import Final

import msgspec

from snowmelt.core.batch import OFFSET_BYTES
from snowmelt.core.interval import Interval
from snowmelt.core.keys import part
from snowmelt.protocols.priority.batches import Share, Shares, union
from snowmelt.protocols.priority.messages import Piece
from snowmelt.protocols.priority.positions import minus, overlaps
from snowmelt.protocols.priority.rows import Rows

_FRAME: Final = 64
"""So many bytes go round a piece."""


def weight(pieces: Iterable[Piece]) -> int:
    """How much of an answer they take."""
    return sum(
        [
            len(one.blob) + len(one.headers) + len(one.reason) + _FRAME
            + len(one.spans) + len(one.put_times)
            for one in pieces
        ]
    )  # fmt: skip


def fitting(pieces: Iterable[Piece], bytes_max: int) -> tuple[tuple[Piece, ...], Shares]:
    """The first of them that weigh no more than this, or one at least; and where the others are.

    >>> piece = Piece(0, 7, struct.pack("<4i", 0, 10, 20, 30), bytes(30))
    >>> fit, rest = fitting([piece], 84)
    >>> len(fit[0].blob), rest[0].intervals
    (20, (Interval(start=9, stop=10),))
    >>> [len(one.blob) for one in fitting([piece], 1)[0]]
    [10]
    """
    room = bytes_max
    fit: list[Piece] = []
    rest: list[Share] = []
    for piece in pieces:
        count = len(piece.offsets) // OFFSET_BYTES - 1
        room -= len(piece.headers) + len(piece.reason) + _FRAME
        if not rest and len(piece.blob) <= room:  # as mostly
            fit.append(piece)
            room -= len(piece.blob)
            continue
        edges = struct.unpack(f"<{count + 1}i", piece.offsets)
        most = 0 if rest else min(count, bisect_right(edges, edges[0] + room) - 1)
        most = max(most, 0 if fit or rest else 1)
        if most:
            fit.append(_first(piece, edges, most))
        if most < count:
            rest.append(Share(piece.priority, (Interval(piece.start + most, piece.start + count),)))
        room -= edges[most] - edges[0]
    return tuple(fit), union(rest)


def before_gap(rows: Rows, shares: Shares, pieces: tuple[Piece, ...]) -> tuple[Piece, ...]:
    """Those of `shares`, in their order, before the first that is here and not at hand."""
    if sum([piece.count for piece in pieces]) == sum([share.total for share in shares]):
        return pieces  # as mostly
    missing = minus(rows.present(shares), union([piece.share for piece in pieces]))
    if not missing:
        return pieces
    lost = {share.priority: share.intervals for share in missing}
    left = deque(pieces)
    first: list[Piece] = []
    for share in shares:
        for interval in share.intervals:
            gap = next(overlaps(interval, lost.get(share.priority, ())), None)
            stop = interval.stop if gap is None else gap.start
            while left and left[0].priority == share.priority:
                if not interval.start <= left[0].start < stop:
                    break
                first.append(left.popleft())
            if gap is not None:
                return tuple(first)
    return pieces


def _first(piece: Piece, edges: tuple[int, ...], most: int) -> Piece:
    if most == len(edges) - 1:
        return piece
    offsets = piece.offsets[: (most + 1) * OFFSET_BYTES]
    blob, keys = piece.blob[: edges[most]], part(piece.keys, 0, most)
    return msgspec.structs.replace(piece, offsets=offsets, blob=blob, keys=keys)
