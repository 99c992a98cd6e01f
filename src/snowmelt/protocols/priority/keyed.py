"""The keys of what is kept: seap, rule 1. They are told when a view settles."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec

from snowmelt.core.batch import Batch as Bodies
from snowmelt.core.keys import part as part_of
from snowmelt.core.keys import unpacked
from snowmelt.core.names import NodeId
from snowmelt.protocols.priority.batches import Cut, Share, Shares
from snowmelt.protocols.priority.gathered import apart
from snowmelt.protocols.priority.messages import Kept, Piece
from snowmelt.protocols.priority.positions import common
from snowmelt.protocols.priority.shelf import Shelf, rows_at

KEYS_AT_ONCE: Final = 65_536


def keys_of(shelf: Shelf, shares: Iterable[Share]) -> dict[int, int]:
    """The keys of those of these that are here, by their positions."""
    found: dict[int, int] = {}
    for share in shares:
        here = rows_at(shelf, (share,)).row(share.priority).here
        for interval in share.intervals:
            for part, where in here.common(interval):
                keys = shelf.origins.lots[where.lot].keys
                row = unpacked(part_of(keys, part.start + where.base, part.stop + where.base))
                found.update(zip(part, row, strict=True))
    return found


def by_key(pieces: Iterable[Piece], *, largest_first: bool) -> tuple[Piece, ...]:
    """The same elements, the most urgent first: each piece is of one key.

    >>> from snowmelt.core.keys import packed
    >>> one = Piece(0, 7, bytes(16), b"", keys=packed([2, 4, 4]))
    >>> other = Piece(0, 3, bytes(8), b"", keys=packed([3]))
    >>> row = by_key([one, other], largest_first=False)
    >>> [(piece.start, piece.count, unpacked(piece.keys)) for piece in row]
    [(7, 1, (2,)), (3, 1, (3,)), (8, 2, (4, 4))]
    """
    pieces = [one for piece in pieces for one in apart(piece)]
    row = sorted(
        [
            (~key if largest_first else key, at, number)
            for number, piece in enumerate(pieces)
            for at, key in enumerate(unpacked(piece.keys), start=piece.start)
        ]
    )
    found: list[Piece] = []
    first = 0
    for stop in range(1, len(row) + 1):
        key, at, number = row[stop - 1]
        if stop == len(row) or row[stop] != (key, at + 1, number):
            piece = pieces[number]
            found.append(_some(piece, row[first][1] - piece.start, at + 1 - piece.start))
            first = stop
    return tuple(found)


def _some(piece: Piece, first: int, stop: int) -> Piece:
    if stop - first == piece.count:
        return piece
    some = Bodies.known(piece.offsets, piece.blob).slice(first, stop).trimmed()
    return msgspec.structs.replace(
        piece,
        start=piece.start + first,
        offsets=bytes(some.offsets),
        blob=bytes(some.blob),
        keys=part_of(piece.keys, first, stop),
    )


def with_keys(parts: Mapping[NodeId, list[Kept]], shelf: Shelf) -> dict[NodeId, list[Kept]]:
    """The same with the keys of what is stored, so many at a time."""
    keyed: dict[NodeId, list[Kept]] = {}
    for node, several in parts.items():
        for kept in several:
            for shares in _portions(kept.stored, KEYS_AT_ONCE) if kept.stored else ((),):
                one = msgspec.structs.replace(kept, stored=shares, keys=_row(shelf, shares))
                keyed.setdefault(node, []).append(one)
    return keyed


def keys_told(told: Iterable[Kept], wanted: Shares) -> dict[int, int]:
    """The keys of these, by positions, as far as they are told."""
    keys: dict[int, int] = {}
    for kept in told if wanted else ():
        row = dict(zip(positions_of(kept.stored), unpacked(kept.keys), strict=True))
        here = positions_of(common(kept.stored, wanted))
        keys.update({at: row[at] for at in here})
    return keys


def keys_in(told: Iterable[Kept]) -> bytes:
    """The same as they travel: parts of what one node keeps, each behind the other, in order."""
    parts = [one for one in told if one.keys]
    return b"".join([one.keys for one in sorted(parts, key=_start)])


def positions_of(shares: Shares) -> Iterator[int]:
    for share in shares:
        for interval in share.intervals:
            yield from interval


def _row(shelf: Shelf, shares: Shares) -> bytes:
    """The keys of these, which are here, in their order."""
    row: list[bytes] = []
    for share in shares:
        for interval in share.intervals:
            for part, where in shelf.rows.row(share.priority).here.common(interval):
                keys = shelf.origins.lots[where.lot].keys
                row.append(part_of(keys, part.start + where.base, part.stop + where.base))
    return b"".join(row)


def _start(one: Kept) -> int:
    return one.stored[0].intervals[0].start


def _portions(shares: Shares, most: int) -> Iterator[Shares]:
    cut = Cut(shares)
    while some := cut.in_order(most):
        yield some
