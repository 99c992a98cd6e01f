"""Blocks of batches, and what of them lives."""

from bisect import bisect_right
from collections.abc import Iterator
from typing import Annotated, Final

import msgspec

from snowmelt.core.interval import Interval, IntervalSet
from snowmelt.core.spans import SPAN_BYTES, spans, stretches

BATCH_BYTES: Final = 4
"""What a record takes for each batch, about."""
Term = Annotated[int, msgspec.Meta(ge=0, lt=1 << 32)]
"""As it stands in the key of a body."""
STAGED: Final = 1 << 60
"""Here begin the places of what was staged; no position is as high."""


class Block(msgspec.Struct):
    """Adjacent batches. Those that are over stay in it until all of it is."""

    key: bytes
    """Of its record."""
    stops: list[int]
    sizes: list[int]
    term: int
    """Of its batches, but for those in `terms`."""
    lefts: list[int]
    """How many items of each live."""
    live: IntervalSet
    shifts: dict[int, int] = {}
    """By those that were staged, how far above its positions the bodies of each lie."""
    terms: dict[int, int] = {}
    """By those that were put in another term, in which."""
    thin: dict[int, int] = {}
    """By those whose bodies were written anew, how many bytes these have."""
    numbers: list[int] = []
    """Of the key of each one's items (`by_key.py`); none where nothing has one."""

    def weight(self, start: int) -> int:
        """How many bytes its record has, about."""
        told = min(SPAN_BYTES * self.live.pieces, (self.stops[-1] - start) // 8)
        return BATCH_BYTES * len(self.stops) + told


class Living:
    """What lives in some blocks, as an `IntervalSet` has it; it is not kept once more.

    So nothing grows with how scattered it is but its blocks' own sets.
    """

    def __init__(self, starts: list[int], blocks: list[Block]) -> None:
        self.total = 0
        self._starts = starts
        self._blocks = blocks

    def __iter__(self) -> Iterator[Interval]:
        return self.within(Interval(0, STAGED))

    def __contains__(self, position: int) -> bool:
        return len(self.common(Interval(position, position + 1))) > 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Living | IntervalSet) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]  # it changes

    def __repr__(self) -> str:
        return repr(IntervalSet(self))

    def common(self, interval: Interval) -> list[Interval]:
        """The parts of an interval that live."""
        starts, at = self._starts, bisect_right(self._starts, interval.start) - 1
        if at >= 0 and (at + 1 == len(starts) or interval.stop <= starts[at + 1]):
            return self._blocks[at].live.common(interval)  # one block has it, as mostly
        return list(self.within(interval))

    def touches(self, interval: Interval) -> bool:
        """Whether any of an interval lives."""
        starts, at = self._starts, max(0, bisect_right(self._starts, interval.start) - 1)
        while at < len(starts) and starts[at] < interval.stop:
            if self._blocks[at].live.touches(interval):
                return True
            at += 1
        return False

    def within(self, interval: Interval) -> Iterator[Interval]:
        """As `common`, one after another: for whoever may stop early."""
        before = None
        at = max(0, bisect_right(self._starts, interval.start) - 1)
        while at < len(self._starts) and self._starts[at] < interval.stop:
            for one in self._blocks[at].live.within(interval):
                if before is None:
                    before = one
                elif before.stop == one.start:
                    before = Interval(before.start, one.stop)
                else:
                    yield before
                    before = one
            at += 1
        if before is not None:
            yield before


def lefts(stops: list[int], live: IntervalSet) -> list[int]:
    """How many items live of each batch that ends there."""
    found, index = [0] * len(stops), 0
    for one in live:
        at = one.start
        while at < one.stop:
            while stops[index] <= at:
                index += 1
            end = min(one.stop, stops[index])
            found[index] += end - at
            at = end
    return found


def packed_live(block: Block, start: int) -> bytes:
    """What lives of a block, of which some does not: edges, or a bit for each position."""
    stop, live = block.stops[-1], block.live
    if live.pieces * SPAN_BYTES < (stop - start) // 8:
        return b"e" + spans([one.start for one in live], [one.stop for one in live])
    bits = 0
    for one in live:
        bits |= ((1 << one.size) - 1) << (one.start - start)
    return b"b" + bits.to_bytes((stop - start + 7) // 8, "little")


def unpacked_live(packed: bytes, whole: Interval) -> IntervalSet:
    if not packed:
        return IntervalSet([whole])
    if packed[:1] == b"e":
        return IntervalSet(stretches(packed[1:]))
    digits = f"{int.from_bytes(packed[1:], 'little'):0{whole.size}b}"[::-1]
    edges: list[Interval] = []
    at = digits.find("1")
    while at >= 0:
        end = digits.find("0", at)
        end = len(digits) if end < 0 else end
        edges.append(Interval(whole.start + at, whole.start + end))
        at = digits.find("1", end)
    return IntervalSet(edges)
