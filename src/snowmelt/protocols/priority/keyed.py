"""The keys of what is kept: seap, rule 1. They are told when a view settles."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec

from snowmelt.core.names import NodeId
from snowmelt.protocols.priority.batches import Cut, Share, Shares
from snowmelt.protocols.priority.messages import Kept
from snowmelt.protocols.priority.shelf import Shelf
from snowmelt.protocols.seap.keys import packed, unpacked
from snowmelt.protocols.seap.keys import part as part_of

KEYS_AT_ONCE: Final = 65_536


def keys_of(shelf: Shelf, shares: Iterable[Share]) -> dict[int, int]:
    """The keys of those of these that are here, by their positions."""
    found: dict[int, int] = {}
    for share in shares:
        for interval in share.intervals:
            for part, where in shelf.rows.row(share.priority).here.common(interval):
                keys = shelf.origins.lots[where.lot].keys
                row = unpacked(part_of(keys, part.start + where.base, part.stop + where.base))
                found.update(zip(part, row, strict=True))
    return found


def with_keys(parts: Mapping[NodeId, list[Kept]], shelf: Shelf) -> dict[NodeId, list[Kept]]:
    """The same with the keys of what is stored, so many at a time."""
    keyed: dict[NodeId, list[Kept]] = {}
    for node, several in parts.items():
        for kept in several:
            for shares in _portions(kept.stored, KEYS_AT_ONCE) if kept.stored else ((),):
                there = keys_of(shelf, shares)
                row = [there[at] for share in shares for one in share.intervals for at in one]
                one = msgspec.structs.replace(kept, stored=shares, keys=packed(row))
                keyed.setdefault(node, []).append(one)
    return keyed


def keys_told(told: Iterable[Kept]) -> dict[int, int]:
    """The keys of all that is told, by positions."""
    keys: dict[int, int] = {}
    for kept in told:
        keys.update(zip(positions_of(kept.stored), unpacked(kept.keys), strict=True))
    return keys


def keys_in(stored: Shares, told: Iterable[Kept]) -> bytes:
    """The same as they travel, in the order of what is stored; nothing where there are none."""
    keys = keys_told([one for one in told if one.keys])
    return packed([keys[at] for at in positions_of(stored)]) if keys else b""


def positions_of(shares: Shares) -> Iterator[int]:
    """One by one, in order."""
    for share in shares:
        for interval in share.intervals:
            yield from interval


def _portions(shares: Shares, most: int) -> Iterator[Shares]:
    """So many positions at a time."""
    cut = Cut(shares)
    while some := cut.in_order(most):
        yield some
