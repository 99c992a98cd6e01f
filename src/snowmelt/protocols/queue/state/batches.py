"""Which positions lie in which batch, and which of them live: blocks of a hundred batches each.

A record has a block, so a step that ends items writes the blocks that it touched, however many
batches and scattered items a queue has; or, if these are many, a bundle (`endings.py`).

The bodies of a batch lie at its positions. Only what was staged, or lies on data nodes, has a
*place* of its own for them, above all positions, from before it had any (`staged.py`, `spread.py`).
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import accumulate
from operator import sub
from struct import Struct
from typing import Annotated, Final

import msgspec

from snowmelt.core.ahead import Count
from snowmelt.core.interval import POSITION_MAX, Interval, IntervalSet, merged
from snowmelt.core.keys import key_at, part, unpacked
from snowmelt.core.spans import steps
from snowmelt.protocols.queue.limits import LIMITS
from snowmelt.protocols.queue.state.blocks import (
    STAGED,
    Block,
    Living,
    Term,
    lefts,
    packed_live,
    unpacked_live,
)
from snowmelt.protocols.queue.state.endings import ENDED, EndBundles

BLOCK_BATCHES: Final = LIMITS.block_batches
BLOCK_ITEMS: Final = 16_384
KIND: Final = b"b"
ROW: Final = b"i"
"""Of the numbers of keys of a batch whose items have several."""
SEVERAL: Final = -1
"""In place of such a number."""
KINDS: Final = (KIND, ENDED, ROW)
"""Of all that is kept here."""
LOOKED: Final = 100
"""So many blocks at once."""
SPREAD: Final = 1 << 61
"""Here begin the places of what lies on data nodes."""
_ENCODE: Final = msgspec.msgpack.Encoder().encode
_BODY_KEY: Final = Struct(">QIQ")
BODY_KEY_BYTES: Final = _BODY_KEY.size


class StoredBatch(msgspec.Struct, frozen=True, gc=False):
    """Where the items of one put are."""

    start: int
    stop: int
    size: int
    """Its bytes, headers included."""
    term: int
    """In which it was put: no other batch has that term and that place."""
    shift: int = 0
    """So far above its positions its bodies lie."""

    @property
    def place(self) -> Interval:
        return Interval(self.start + self.shift, self.stop + self.shift)

    @property
    def spread(self) -> bool:
        """Whether its bodies lie on data nodes."""
        return self.start + self.shift >= SPREAD

    @property
    def key(self) -> bytes:
        """Of its bodies, among those of its queue."""
        return _BODY_KEY.pack(self.start + self.shift, self.term, self.stop + self.shift)

    def share(self, count: int) -> int:
        """How many bytes so many of its items have, about: as if all were alike."""
        return self.size * count // (self.stop - self.start)


Within = tuple[StoredBatch, int, int]
"""Some positions: the batch in which they lie, and from where to where."""


class _Kept(msgspec.Struct, frozen=True, array_like=True):
    counts: list[Annotated[int, msgspec.Meta(ge=1, le=1 << 20)]]
    sizes: list[Count]
    terms: list[Term]
    live: bytes
    places: dict[Count, Count] = {}
    """Of those that have places of their own, where these begin, counted from `STAGED`."""
    numbers: list[int] = []


_DECODE: Final = msgspec.msgpack.Decoder(_Kept).decode


class Batches:
    """All batches of a queue that have an item that lives.

    >>> batches = Batches({})
    >>> batches.add(StoredBatch(0, 3, 300, 1)); batches.add(StoredBatch(3, 5, 20, 1))
    >>> batches.end(Interval(0, 4)), batches.live, batches.bytes
    ([Interval(start=0, stop=3)], IntervalSet([4, 5)), 10)
    >>> [(batch.start, first, stop) for batch, first, stop in batches.over(Interval(4, 9))]
    [(3, 4, 5)]
    """

    def __init__(self, changed: dict[bytes, None], block_batches: int = BLOCK_BATCHES) -> None:
        self.bytes = 0
        self.largest = 0
        """No item that came has more, as if all of its batch were alike."""
        self.kept = 0
        """Of their bodies, as long as something of each lives: these are on the disk, about."""
        self.ended: list[Interval] = []
        """What ended in this step."""
        self.rows: dict[int, bytes] = {}
        """By where batches begin of which items have several keys: the number of each. Who adds
        such a batch keeps its row before."""
        self.written: dict[bytes, None] = {}
        """The keys of blocks that are written in this step: something came to them."""
        self._changed = changed
        self._block_batches = block_batches
        self._endings = EndBundles(changed)
        self._starts: list[int] = []
        """Where blocks begin, in order."""
        self._blocks: list[Block] = []
        self._named: dict[bytes, Block] = {}
        """The same by their keys."""
        self.live = Living(self._starts, self._blocks)
        """What has not ended."""

    def add(self, batch: StoredBatch, number: int = 0) -> None:
        """One more, behind all others of its priority; its items have a key of that number."""
        start, at = batch.start, -1
        if self._starts and start < self._starts[-1]:  # others are less urgent
            at = bisect_right(self._starts, start) - 1
        block = self._blocks[at] if self._blocks else None
        if (
            block is None
            or block.stops[-1] != start
            or len(block.stops) >= self._block_batches
            or batch.stop - self._starts[at] > BLOCK_ITEMS
        ):
            block = Block(_key(start), [], [], batch.term, [], IntervalSet())
            at = bisect_right(self._starts, start)
            self._starts.insert(at, start)
            self._blocks.insert(at, block)
            self._named[block.key] = block
        if batch.shift:
            block.shifts[len(block.stops)] = batch.shift
        if batch.term != block.term:
            block.terms[len(block.stops)] = batch.term
        if number == SEVERAL:
            self._changed[ROW + start.to_bytes(8)] = None
        if number and not block.numbers:
            block.numbers += [0] * len(block.stops)
        if number or block.numbers:
            block.numbers.append(number)
        block.stops.append(batch.stop)
        block.sizes.append(batch.size)
        block.lefts.append(batch.stop - start)
        where = Interval(start, batch.stop)
        block.live.add(where)
        self.live.total += batch.stop - start
        self.bytes += batch.size
        self.kept += batch.size
        if batch.size > self.largest * (batch.stop - start):
            self.largest = -(-batch.size // (batch.stop - start))
        self.written[block.key] = self._changed[block.key] = None

    def end(self, interval: Interval) -> list[Interval]:
        """These live no more; where bodies lay of which nothing lives now, adjacent ones as one."""
        over: list[Interval] = []
        self.ended += (interval,)
        at = self._at(interval.start)
        while at < len(self._starts) and self._starts[at] < interval.stop:
            key = self._blocks[at].key
            self._changed[key] = None
            for where in self._end_in(at, interval):
                if over and over[-1].stop == where.start:
                    over[-1] = Interval(over[-1].start, where.stop)
                else:
                    over.append(where)
            if self._blocks[at].live.total:
                at += 1
            else:
                del self._starts[at], self._blocks[at], self._named[key]
                if self._endings.late:
                    self._endings.written(key)
        return over

    def gather(self, few: int) -> None:
        """What ended in this step is told as a bundle if more than so many blocks have it."""
        endings, changed = self._endings, self._changed
        ended = [key for key in changed if key[:1] == KIND and key not in self.written]
        blocks = [key for key in ended if key in self._named]
        if len(blocks) <= few:
            return
        while endings.late and endings.credit > 0:
            key = next(iter(endings.late))
            endings.credit -= self._named[key].weight(int.from_bytes(key[1:]))
            endings.written(key)
            self.written[key] = changed[key] = None
        endings.add(merged(self.ended), [key for key in blocks if key not in self.written])

    def _end_in(self, at: int, interval: Interval) -> list[Interval]:
        block = self._blocks[at]
        before = block.live.total
        over: list[Interval] = []
        for index, start, stop in self._edges(at, interval):
            was, left = block.lefts[index], 0
            if start <= interval.start and stop >= interval.stop:  # one has all, as mostly
                block.live.remove(interval)
                left = was + block.live.total - before
            elif start < interval.start or stop > interval.stop:
                part = Interval(max(start, interval.start), min(stop, interval.stop))
                left = was - sum([one.stop - one.start for one in block.live.common(part)])
            if left == was:
                continue
            self.live.total -= was - left
            block.lefts[index] = left
            size, count = block.sizes[index], stop - start
            self.bytes -= size * was // count - size * left // count
            if not left:
                self.kept -= block.thin.get(index, size) if block.thin else size
                shift = block.shifts.get(index, 0) if block.shifts else 0
                over.append(Interval(start + shift, stop + shift))
                if block.numbers and block.numbers[index] == SEVERAL:
                    self.rows.pop(start, None)
                    self._changed[ROW + start.to_bytes(8)] = None
        block.live.remove(interval)
        return over

    def thinned(
        self, start: int, most: int
    ) -> tuple[list[tuple[StoredBatch, tuple[int, ...]]], int]:
        """Batches of which a third has ended, and what lives of each; these count without that.

        Of those from a position on, until their bodies have so many bytes, or `LOOKED` blocks were
        looked at; and from which position on others are to be looked at.
        """
        found: list[tuple[StoredBatch, tuple[int, ...]]] = []
        first = self._at(start)
        for at, block in enumerate(self._blocks[first : first + LOOKED], start=first):
            for index, begin, stop in self._edges(at, Interval(0, block.stops[-1])):
                size, left = block.sizes[index], block.lefts[index]
                kept, lives = block.thin.get(index, size), size * left // (stop - begin)
                if not left or 2 * kept <= 3 * lives:
                    continue
                block.thin[index] = lives
                self.kept -= kept - lives
                batch = _batch(block, index, begin, stop)
                if batch.spread:  # it lies on data nodes as it is
                    continue
                live = steps(block.live.common(Interval(begin, stop)))
                live[0] -= begin
                found.append((batch, tuple(live)))
                most -= kept
                if most <= 0:
                    return found, self._starts[at]
        return found, self._starts[first + LOOKED] if first + LOOKED < len(self._starts) else 0

    def lives(self, batch: StoredBatch) -> bool:
        """Whether anything of it does."""
        return self.live.touches(Interval(batch.start, batch.stop))

    def over(self, interval: Interval) -> Iterable[Within]:
        """The batches in which some positions lie, and from where to where these lie in each."""
        first, last = interval.start, interval.stop
        at = bisect_right(self._starts, first) - 1
        if at >= 0:
            block = self._blocks[at]
            stops, index = block.stops, bisect_right(block.stops, first)
            if index < len(stops) and first < last <= stops[index]:  # one has all, as mostly
                start = stops[index - 1] if index else self._starts[at]
                return ((_batch(block, index, start, stops[index]), first, last),)
        return self._over(interval)

    def _over(self, interval: Interval) -> Iterator[Within]:
        for block, index, start, stop in self._across(interval):
            batch = _batch(block, index, start, stop)
            yield batch, max(start, interval.start), min(stop, interval.stop)

    def some(
        self, of: IntervalSet | Living, start: int, items_max: int, bytes_max: int, batches_max: int
    ) -> list[Interval]:
        """The first of these from a position on, and one if there is any; of each batch all alike.

        >>> batches = Batches({})
        >>> batches.add(StoredBatch(0, 3, 300, 1)); batches.add(StoredBatch(3, 5, 20, 1))
        >>> batches.some(batches.live, 1, 9, 215, 9), batches.some(batches.live, 0, 9, 1, 9)
        ([Interval(start=1, stop=4)], [Interval(start=0, stop=1)])
        """
        found: list[Interval] = []
        for interval in of.within(Interval(start, POSITION_MAX)):
            at, end = interval.start, interval.stop
            for block, index, first, stop in self._across(interval):
                each = block.sizes[index] // (stop - first) or 1
                count = (stop if stop < end else end) - at
                if count > items_max:
                    count = items_max
                if count * each > bytes_max:
                    first_of_all = not found and at == interval.start
                    count = max(bytes_max // each, 1 if first_of_all else 0)
                if count <= 0 or batches_max <= 0:
                    break
                at += count
                items_max -= count
                bytes_max -= count * each
                batches_max -= 1
                if at < stop:  # there is no room for the rest of it
                    break
            if at > interval.start:
                found.append(Interval(interval.start, at))
            if at < end:
                break
        return found

    def numbers(self, interval: Interval) -> list[int]:
        """Of the key of each item; 0 where it has none."""
        found: list[int] = []
        for block, index, start, stop in self._across(interval):
            first, last = max(start, interval.start), min(stop, interval.stop)
            number = block.numbers[index] if block.numbers else 0
            if number == SEVERAL and start in self.rows:
                found += unpacked(part(self.rows[start], first - start, last - start))
            else:
                found += [max(number, 0)] * (last - first)
        return found

    def number(self, place: int) -> int:
        """The same of one."""
        at = bisect_right(self._starts, place) - 1
        block = self._blocks[at]
        if not block.numbers:
            return 0
        index = bisect_right(block.stops, place)
        found = block.numbers[index]
        if found != SEVERAL:
            return found
        start = block.stops[index - 1] if index else self._starts[at]
        row = self.rows.get(start)
        return 0 if row is None else key_at(row, place - start)

    def mean(self, place: int) -> int:
        """How many bytes an item of the batch at a position has."""
        at = bisect_right(self._starts, place) - 1
        block = self._blocks[at]
        index = bisect_right(block.stops, place)
        start = block.stops[index - 1] if index else self._starts[at]
        return block.sizes[index] // (block.stops[index] - start)

    def all(self) -> Iterator[StoredBatch]:
        """Those of which something lives."""
        for block, index, start, stop in self._across(Interval(0, POSITION_MAX)):
            if block.lefts[index]:
                yield _batch(block, index, start, stop)

    def _across(self, interval: Interval) -> Iterator[tuple[Block, int, int, int]]:
        """The same without making them: block, which of its batches, where it begins and ends.

        Each item of a queue that was put into singly comes by here, so it calls nobody for each.
        """
        at = self._at(interval.start)
        while at < len(self._starts) and self._starts[at] < interval.stop:
            block = self._blocks[at]
            stops, first = block.stops, bisect_right(block.stops, interval.start)
            start, end = stops[first - 1] if first else self._starts[at], interval.stop
            for index in range(first, len(stops)):
                if start >= end:
                    return
                stop = stops[index]
                yield block, index, start, stop
                start = stop
            at += 1

    def _edges(self, at: int, interval: Interval) -> Iterator[tuple[int, int, int]]:
        stops = self._blocks[at].stops
        first = bisect_right(stops, interval.start)
        start = stops[first - 1] if first else self._starts[at]
        for index in range(first, len(stops)):
            if start >= interval.stop:
                return
            yield index, start, stops[index]
            start = stops[index]

    def block(self, position: int) -> int:
        """Where the block begins that has a position."""
        return self._starts[self._at(position)]

    def _at(self, position: int) -> int:
        """The block that has a position, or the next behind it."""
        at = bisect_right(self._starts, position) - 1
        if at >= 0 and position < self._blocks[at].stops[-1]:
            return at
        return at + 1

    # --- as it is written down --------------------------------------------------------------------

    @property
    def stops(self) -> list[int]:
        """Behind the last of each block."""
        return [block.stops[-1] for block in self._blocks]

    @property
    def blocks(self) -> int:
        """How many records they take."""
        return len(self._blocks)

    def keys(self) -> Iterator[bytes]:
        yield from self._named
        yield from self._endings.keys()
        for start in self.rows:
            yield ROW + start.to_bytes(8)

    def record(self, key: bytes) -> bytes | None:
        """A block, or a bundle; None when all of it is over."""
        if key[:1] == ENDED:
            return self._endings.record(key)
        if key[:1] == ROW:
            return self.rows.get(int.from_bytes(key[1:]))
        block = self._named.get(key)
        if block is None:
            return None
        starts = (int.from_bytes(key[1:]), *block.stops)
        counts, terms = list(map(sub, block.stops, starts)), [block.term]
        if block.terms:
            terms = [block.terms.get(at, block.term) for at, _ in enumerate(block.stops)]
        whole = block.live.total == starts[-1] - starts[0]
        kept = counts, block.sizes, terms, b"" if whole else packed_live(block, starts[0])
        if not block.shifts and not block.numbers:
            return _ENCODE(kept)
        places = block.shifts and {
            one: starts[one] + shift - STAGED for one, shift in block.shifts.items()
        }
        return _ENCODE((*kept, places, block.numbers) if block.numbers else (*kept, places))

    def restore(self, key: bytes, value: bytes) -> None:
        """From a record; they come in the order of their keys."""
        if key[:1] == ENDED:
            self._restore_ended(*self._endings.restore(key, value))
            return
        if key[:1] == ROW:
            self.rows[int.from_bytes(key[1:])] = value
            return
        start, kept = int.from_bytes(key[1:]), _DECODE(value)
        stops = list(accumulate(kept.counts, initial=start))[1:]
        term = kept.terms[0]
        terms = {at: one for at, one in enumerate(kept.terms) if one != term}
        if stops[-1] > STAGED:
            raise ValueError(f"no position is {stops[-1]}")
        whole = Interval(start, stops[-1])
        starts = (start, *stops)
        shifts = {one: at + STAGED - starts[one] for one, at in kept.places.items()}
        live = unpacked_live(kept.live, whole)
        left = lefts(stops, live) if kept.live else list(kept.counts)
        block = Block(key, stops, kept.sizes, term, left, live, shifts, terms, {}, kept.numbers)
        self._starts.append(start)
        self._blocks.append(block)
        self._named[key] = block
        self.live.total += block.live.total
        for size, count, own in zip(kept.sizes, kept.counts, left, strict=True):
            self.bytes += size * own // count
            self.kept += size if own else 0
            if size > self.largest * count:
                self.largest = -(-size // count)

    def _restore_ended(self, number: int, ended: list[Interval]) -> None:
        """These blocks say more than lives, and are late (`endings.py`, rule 4)."""
        late = self._endings.late
        for interval in ended:
            at = self._at(interval.start)
            while at < len(self._starts) and self._starts[at] < interval.stop:
                self._end_in(at, interval)
                late.setdefault(self._blocks[at].key, number)
                at += 1

    def check(self) -> None:
        """Asserts that each block lives, and that all of them have what lives."""
        assert self._starts == sorted(self._starts)
        total = kept = 0
        for block in self._blocks:
            sizes = [block.thin.get(index, size) for index, size in enumerate(block.sizes)]
            kept += sum([size for size, left in zip(sizes, block.lefts, strict=True) if left])
            assert block.live.total == sum(block.lefts)
            total += block.live.total
        assert total == self.live.total
        assert kept == self.kept


def lives_in(key: bytes, value: bytes, position: int) -> bool | None:
    """Whether an item lives, as the record of a block says; None where it lies in another.

    >>> batches = Batches({})
    >>> batches.add(StoredBatch(5, 8, 300, 1)); over = batches.end(Interval(6, 7))
    >>> (key,) = batches.keys(); value = batches.record(key) or b""
    >>> [lives_in(key, value, at) for at in (4, 5, 6, 8)]
    [None, True, False, None]
    """
    start = int.from_bytes(key[1:])
    if position < start:
        return None
    kept = _DECODE(value)
    stop = start + sum(kept.counts)
    if position >= stop:
        return None
    return not kept.live or position in unpacked_live(kept.live, Interval(start, stop))


def parsed(key: bytes) -> tuple[int, int, int]:
    """Place, term and end of the bodies that have this key.

    >>> parsed(StoredBatch(0, 3, 300, 2).key)
    (0, 2, 3)
    """
    return int.from_bytes(key[:8]), int.from_bytes(key[8:12]), int.from_bytes(key[12:])


def _batch(block: Block, index: int, start: int, stop: int) -> StoredBatch:
    shift = block.shifts.get(index, 0) if block.shifts else 0
    term = block.terms.get(index, block.term) if block.terms else block.term
    return StoredBatch(start, stop, block.sizes[index], term, shift)


def _key(start: int) -> bytes:
    """Of the record of the block that begins there."""
    return KIND + start.to_bytes(8)
