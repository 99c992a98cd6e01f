"""What one node keeps of one queue: elements, what became of them, and what is gone.

Rules
-----
1. Elements that come together are one *lot*: a small record says where they stand and who made
   them, a bulk record has the bodies. A lot is never written again; of what is gone in it only the
   account changes. When all of it is gone the bodies are erased; the small record stays for
   `REMEMBERED`, since it is how an operation is known (rule 11 of the package).
2. What became of elements is their *standing*, kept by intervals, whether the elements are here or
   not. Of two standings the later one counts, by epoch and turn.
3. What is gone is gone, whatever a later word says. It is kept as intervals, which join.
4. Everything can come twice: what is known already changes nothing.
5. A shelf is a value in memory, changed at once; what has to be written for it is gathered until
   `changes` is called, and that is all that its disk needs to make the same shelf again.
"""

from collections.abc import Iterable, Iterator
from heapq import heappop, heappush
from typing import Final

import msgspec

from snowmelt.core.batch import Batch as Bodies
from snowmelt.core.instant import Duration
from snowmelt.core.interval import Interval, merged
from snowmelt.core.names import OperationId
from snowmelt.core.pieces import Pieces
from snowmelt.core.record import BULK, Change, Erase, Found, Record, Write, erase
from snowmelt.protocols.priority.batches import Share, Shares, union
from snowmelt.protocols.priority.lots import cut
from snowmelt.protocols.priority.messages import Elements, Mark, Origin, Piece
from snowmelt.protocols.priority.settings import REDONE, REMEMBERED, State

_LOT: Final = b"l/"
_STANDING: Final = b"s/"
_GONE: Final = b"g/"


class Standing(msgspec.Struct, frozen=True, array_like=True):
    """What became of an element (rule 2); see `messages.Mark`, which says it of several."""

    epoch: int
    turn: int
    state: int
    token: int = 0
    operation: OperationId | None = None
    time: Duration = Duration(0)
    due: int = 0
    failures: int = 0
    reason: str = ""

    @property
    def version(self) -> tuple[int, int]:
        """The later one counts."""
        return self.epoch, self.turn


NEW: Final = Standing(0, 0, State.FREE)
"""Of an element of which nothing has been said."""


class Lot(msgspec.Struct, frozen=True, array_like=True):
    """The small record of elements that came together."""

    shares: Shares
    origins: tuple[Origin, ...]
    until: int = 0
    """All of it is gone, and it is remembered until then, by the wall clock; 0 while there."""


class Bulk(msgspec.Struct, frozen=True, array_like=True):
    """The bulk record of a lot."""

    offsets: bytes
    blob: bytes
    headers: bytes = b""


class Where(msgspec.Struct, frozen=True, array_like=True):
    """The lot of an element; its index there is its position and `base`."""

    lot: int
    base: int


class Recent:
    """Bodies that came of late, so that they need not be read again; by lots, up to some bytes."""

    def __init__(self, bytes_max: int = 64 << 20) -> None:
        self._bulks: dict[int, Bulk] = {}
        self._bytes, self._bytes_max = 0, bytes_max

    def keep(self, lot: int, bulk: Bulk) -> None:
        """The oldest make room."""
        self._bulks[lot] = bulk
        self._bytes += len(bulk.blob)
        while self._bytes > self._bytes_max:
            self.drop(next(iter(self._bulks)))

    def drop(self, lot: int) -> None:
        """No use any more."""
        bulk = self._bulks.pop(lot, None)
        if bulk is not None:
            self._bytes -= len(bulk.blob)

    def get(self, lot: int) -> Bulk | None:
        """Its bodies, if they are at hand."""
        return self._bulks.get(lot)


class Endings:
    """Under which tokens elements were acknowledged, the last ones of them.

    So an acknowledgement that comes again is told from one that comes too late.
    """

    def __init__(self, most: int = 16_384) -> None:
        self._shares: dict[int, Shares] = {}
        self._most = most

    def add(self, token: int, shares: Shares) -> None:
        """These went under this token."""
        known = self._shares.pop(token, ())
        self._shares[token] = union([*known, *shares])
        if len(self._shares) > self._most:
            del self._shares[next(iter(self._shares))]

    def of(self, token: int) -> Shares:
        """What went under it."""
        return self._shares.get(token, ())

    def __iter__(self) -> Iterator[tuple[int, Shares]]:
        return iter(self._shares.items())


class _Row:
    """One priority."""

    def __init__(self, priority: int, changed: dict[bytes, None]) -> None:
        name = priority.to_bytes(2)
        self.here: Pieces[Where] = Pieces()
        self.standing: Pieces[Standing] = Pieces(changed, _STANDING + name)
        self.gone: Pieces[bool] = Pieces(changed, _GONE + name)
        """Whether there was an element, or the position is void."""


_ENCODE: Final = msgspec.msgpack.Encoder().encode
_LOTS: Final = msgspec.msgpack.Decoder(Lot).decode
_BULKS: Final = msgspec.msgpack.Decoder(Bulk).decode
_STANDINGS: Final = msgspec.msgpack.Decoder(tuple[int, Standing]).decode
_STOPS: Final = msgspec.msgpack.Decoder(tuple[int, bool]).decode


class Shelf:
    """One queue at one node.

    >>> shelf = Shelf(b"q/")
    >>> made = Origin(OperationId("c", 1), 0, 2)
    >>> bodies = Bodies.of([b"one", b"two"])
    >>> where = (Share(0, (Interval(4, 6),)),)
    >>> lot = shelf.store(Elements(where, (made,), bytes(bodies.offsets), bytes(bodies.blob)))
    >>> shelf.mark(Mark((Share(0, (Interval(4, 5),)),), 1, 1, State.GONE))
    >>> shelf.stored(), [type(change).__name__ for change in shelf.changes(0)]
    ((Share(priority=0, intervals=(Interval(start=5, stop=6),)),), ['Write', 'Write', 'Write'])
    """

    def __init__(self, prefix: bytes) -> None:
        self._prefix = prefix
        self._changed: dict[bytes, None] = {}
        self._new: dict[int, Bulk] = {}
        self._rows: dict[int, _Row] = {}
        self._lots: dict[int, Lot] = {}
        self._left: dict[int, int] = {}
        """How many of each lot are not gone."""
        self._made: dict[OperationId, list[int]] = {}
        self._forget: list[tuple[int, int]] = []
        """When which lot is forgotten, the earliest first."""
        self._emptied: list[int] = []
        """Lots of which all is gone, to be written so."""
        self._next = 0
        self._recent = Recent()
        self.ended = Endings()
        """Which leases ended in an acknowledgement, of late; it is not on the disk."""

    # --- from the disk ----------------------------------------------------------------------------

    def restore(self, key: bytes, value: bytes) -> None:
        """One small record of this shelf, as it was written; lots come before all else."""
        body = key[len(self._prefix) :]
        kind, rest = body[:2], body[2:]
        if kind == _LOT:
            self._restore_lot(int.from_bytes(rest), _LOTS(value))
            return
        row, start = self._row(int.from_bytes(rest[:2])), int.from_bytes(rest[2:])
        if kind == _STANDING:
            stop, standing = _STANDINGS(value)
            row.standing.restore(Interval(start, stop), standing)
        else:
            stop, was = _STOPS(value)
            interval = Interval(start, stop)
            row.gone.restore(interval, was)
            self._leave(row, interval)

    def _restore_lot(self, number: int, lot: Lot) -> None:
        self._next = max(self._next, number + 1)
        self._remember(number, lot)
        if lot.until:
            heappush(self._forget, (lot.until, number))
        elif not self._put_on(number, lot):  # its elements came again since, with another lot
            self._emptied.append(number)

    # --- what comes -------------------------------------------------------------------------------

    def store(self, elements: Elements) -> int | None:
        """Keeps those of them that are not known yet (rule 4); the lot's number, if there are."""
        number, lot = self._next, Lot(elements.shares, elements.origins)
        if not self._put_on(number, lot):
            return None
        self._next += 1
        self._remember(number, lot)
        bulk = Bulk(elements.offsets, elements.blob, elements.headers)
        self._new[number] = bulk
        self._recent.keep(number, bulk)
        if elements.due:
            self.mark(Mark(elements.shares, 0, 0, State.HELD, due=elements.due))
        return number

    def void(self, number: int) -> tuple[bytes, bytes]:
        """There was no room for a lot: it is not here. The keys that it would have had."""
        lot = self._lots[number]
        self._new.pop(number, None)
        self._unremember(number)
        for share in lot.shares:
            for interval in share.intervals:
                row = self._row(share.priority)
                for part, where in row.here.common(interval):
                    if where.lot == number:
                        row.here.clear(part)
        self._left.pop(number, None)
        if number in self._emptied:
            self._emptied.remove(number)
        return self._bulk(number), self._small(number)

    def mark(self, mark: Mark) -> None:
        """Takes what is later than what is known (rules 2 and 3)."""
        standing = Standing(
            mark.epoch, mark.turn, mark.state, mark.token, mark.operation, mark.time, mark.due,
            mark.failures, mark.reason,
        )  # fmt: skip
        for share in mark.shares:
            row = self._row(share.priority)
            for interval in share.intervals:
                if mark.state >= State.GONE:
                    for new in without(interval, [one for one, _ in row.gone.common(interval)]):
                        row.gone.put(new, mark.state == State.GONE)
                    self._leave(row, interval)
                else:
                    self._stand(row, interval, standing)
        if mark.state == State.GONE and mark.token:
            self.ended.add(mark.token, mark.shares)

    def spare(self, shares: Shares) -> None:
        """Others keep these: they are taken off the shelf, and are not gone for that."""
        for share in shares:
            for interval in share.intervals:
                self._take_off(self._row(share.priority), interval)

    # --- what there is ----------------------------------------------------------------------------

    def stored(self) -> Shares:
        """What is here."""
        return self._all((p, merged(one for one, _ in row.here)) for p, row in self._sorted())

    def gone(self, *, void: bool = False) -> Shares:
        """What is known to be gone; or to be void."""
        return self._all(
            (p, [one for one, was in row.gone if was != void]) for p, row in self._sorted()
        )

    def marks(self) -> Iterator[Mark]:
        """All standings there are."""
        for priority, row in self._sorted():
            for interval, standing in row.standing:
                yield marked((Share(priority, (interval,)),), standing)

    def marks_of(self, shares: Shares) -> Iterator[Mark]:
        """The standings of these."""
        for priority, where, standing in self.standings(shares):
            if standing is not NEW:
                yield marked((Share(priority, (where,)),), standing)

    def lacking(self, shares: Shares) -> Shares:
        """What of these is neither here nor gone."""
        left: list[Share] = []
        for share in shares:
            row = self._row(share.priority)
            gaps: list[Interval] = []
            for interval in share.intervals:
                covered = [
                    one for one, _ in (*row.here.common(interval), *row.gone.common(interval))
                ]
                gaps.extend(without(interval, covered))
            if gaps:
                left.append(Share(share.priority, tuple(gaps)))
        return tuple(left)

    def present(self, shares: Shares) -> Shares:
        """What of these is here."""
        return self._all(
            (
                share.priority,
                merged(
                    part
                    for interval in share.intervals
                    for part, _ in self._row(share.priority).here.common(interval)
                ),
            )
            for share in shares
        )

    def standings(self, shares: Shares) -> Iterator[tuple[int, Interval, Standing]]:
        """What became of each, in order, and by pieces; `NEW` for what nothing was said of.

        What is gone is left out.
        """
        for share in shares:
            row = self._row(share.priority)
            for interval in share.intervals:
                for living in without(interval, [one for one, _ in row.gone.common(interval)]):
                    told = row.standing.common(living)
                    pieces = [*told, *((gap, NEW) for gap in without(living, [w for w, _ in told]))]
                    for where, standing in sorted(pieces, key=lambda piece: piece[0]):
                        yield share.priority, where, standing

    def gone_of(self, shares: Shares) -> Shares:
        """What of these is gone."""
        return self._all(
            (
                share.priority,
                [
                    part
                    for interval in share.intervals
                    for part, _ in self._row(share.priority).gone.common(interval)
                ],
            )
            for share in shares
        )

    def made_by(self, operation: OperationId) -> list[tuple[Origin, Share]]:
        """Which elements an operation made, and which of its own they are; also what is gone."""
        found: list[tuple[Origin, Share]] = []
        for number in self._made.get(operation, ()):
            lot = self._lots[number]
            index = 0
            for origin in lot.origins:
                if origin.operation == operation:
                    found.extend(_placed(lot.shares, index, origin))
                index += origin.count
        void = self.gone(void=True)
        return [(origin, share) for origin, share in found if not common((share,), void)]

    def redone(self) -> Iterator[tuple[Origin, Share]]:
        """Where the elements are of operations that were begun anew, the last attempt of each."""
        for lot in self._lots.values():
            index = 0
            for origin in lot.origins:
                if origin.again:
                    yield from _placed(lot.shares, index, origin)
                index += origin.count

    def outdated(self, origin: Origin, share: Share) -> Shares:
        """What is here of an earlier attempt of these elements; positions only grow."""
        start = share.intervals[0].start
        stop = origin.first + origin.count
        old: list[Share] = []
        for known, where in self.made_by(origin.operation):
            low, high = max(known.first, origin.first), min(known.first + known.count, stop)
            begin = where.intervals[0].start + low - known.first
            if low < high and begin < start + low - origin.first:
                old.append(Share(where.priority, (Interval(begin, begin + high - low),)))
        return tuple(old)

    def leased_by(self, operation: OperationId) -> Iterator[Mark]:
        """Which leases an operation has."""
        return (mark for mark in self.marks() if mark.operation == operation)

    # --- bodies -----------------------------------------------------------------------------------

    def keys(self, shares: Shares) -> tuple[bytes, ...]:
        """The bulk records that must be read for these."""
        lots = {
            where.lot: None
            for share in shares
            for interval in share.intervals
            for _, where in self._row(share.priority).here.common(interval)
        }
        return tuple(self._bulk(number) for number in lots if self._recent.get(number) is None)

    def pieces(self, shares: Shares, found: Iterable[Found]) -> tuple[Piece, ...]:
        """The elements, with what is on the bulk records that were read; in the order given."""
        bulks = {one.key: _BULKS(one.value) for one in found if isinstance(one, Record)}
        pieces: list[Piece] = []
        for share in shares:
            row = self._row(share.priority)
            for interval in share.intervals:
                for part, where in row.here.common(interval):
                    bulk = self._recent.get(where.lot) or bulks.get(self._bulk(where.lot))
                    if bulk is None:  # damaged, or erased since
                        continue
                    for stretch, standing in _split(part, row.standing.common(part)):
                        pieces.append(_piece(share.priority, stretch, where, bulk, standing))
        return tuple(pieces)

    def first_lots(self, shares: Shares, most: int) -> Shares:
        """What of these is here, of so many lots at most."""
        lots: set[int] = set()
        first: list[Share] = []
        for share in shares:
            for interval in share.intervals:
                for part, where in self._row(share.priority).here.common(interval):
                    lots.add(where.lot)
                    if len(lots) > most:
                        return tuple(first)
                    first.append(Share(share.priority, (part,)))
        return tuple(first)

    def elements(self, shares: Shares, found: Iterable[Found]) -> tuple[Elements, ...]:
        """The elements as they came, lot by lot, to be kept elsewhere."""
        bulks = {one.key: _BULKS(one.value) for one in found if isinstance(one, Record)}
        lots: dict[int, list[Share]] = {}
        for share in shares:
            for interval in share.intervals:
                for part, where in self._row(share.priority).here.common(interval):
                    lots.setdefault(where.lot, []).append(Share(share.priority, (part,)))
        whole: list[Elements] = []
        for number, wanted in lots.items():
            bulk = self._recent.get(number) or bulks.get(self._bulk(number))
            if bulk is not None:
                lot = self._lots[number]
                came = Elements(lot.shares, lot.origins, bulk.offsets, bulk.blob, bulk.headers)
                whole.append(cut(came, union(wanted)))
        return tuple(whole)

    # --- to the disk ------------------------------------------------------------------------------

    def changes(self, wall: int) -> list[Change]:
        """What is to be written since this was last asked (rule 5)."""
        changes: list[Change] = []
        for number, bulk in self._new.items():
            if number in self._lots:
                changes.append(Write(self._bulk(number), _ENCODE(bulk)))
                changes.append(Write(self._small(number), _ENCODE(self._lots[number])))
        self._new = {}
        for number in self._emptied:
            lot = self._lots[number]
            again = any(origin.again for origin in lot.origins)
            lot = msgspec.structs.replace(lot, until=wall + (REDONE if again else REMEMBERED))
            self._lots[number] = lot
            heappush(self._forget, (lot.until, number))
            changes.append(erase(self._bulk(number)))
            changes.append(Write(self._small(number), _ENCODE(lot)))
        self._emptied = []
        while self._forget and self._forget[0][0] <= wall:
            _, number = heappop(self._forget)
            changes.append(erase(self._small(number)))
            self._unremember(number)
        changes.extend([self._change(key) for key in self._changed])
        self._changed.clear()
        return changes

    def _change(self, key: bytes) -> Change:
        row, start = self._row(int.from_bytes(key[2:4])), int.from_bytes(key[4:])
        kept = self._prefix + key
        if key[:2] == _STANDING:
            standing = row.standing.at(start)
            return (
                Write(kept, _ENCODE((standing[0].stop, standing[1]))) if standing else erase(kept)
            )
        gone = row.gone.at(start)
        return Write(kept, _ENCODE((gone[0].stop, gone[1]))) if gone else erase(kept)

    def erased(self) -> list[Change]:
        """Takes all of it off the disk."""
        end = self._prefix[:-1] + bytes([self._prefix[-1] + 1])
        return [Erase(self._prefix, end), Erase(BULK + self._prefix, BULK + end)]

    # --- within -----------------------------------------------------------------------------------

    def _row(self, priority: int) -> _Row:
        row = self._rows.get(priority)
        if row is None:
            row = self._rows[priority] = _Row(priority, self._changed)
        return row

    def _sorted(self) -> list[tuple[int, _Row]]:
        return sorted(self._rows.items())

    def _all(self, rows: Iterable[tuple[int, list[Interval]]]) -> Shares:
        return tuple([Share(priority, tuple(there)) for priority, there in rows if there])

    def _small(self, number: int) -> bytes:
        return self._prefix + _LOT + number.to_bytes(8)

    def _bulk(self, number: int) -> bytes:
        return BULK + self._prefix + number.to_bytes(8)

    def _remember(self, number: int, lot: Lot) -> None:
        self._lots[number] = lot
        for origin in lot.origins:
            made = self._made.setdefault(origin.operation, [])
            if number not in made:
                made.append(number)

    def _unremember(self, number: int) -> None:
        for origin in self._lots.pop(number).origins:
            made = self._made.get(origin.operation)
            if made is not None and number in made:
                made.remove(number)
                if not made:
                    del self._made[origin.operation]

    def _put_on(self, number: int, lot: Lot) -> int:
        """How many of its elements were not known."""
        index, new = 0, 0
        for share in lot.shares:
            row = self._row(share.priority)
            for interval in share.intervals:
                where = Where(number, index - interval.start)
                known = [one for one, _ in (*row.here.common(interval), *row.gone.common(interval))]
                for gap in without(interval, known):
                    row.here.put(gap, where)
                    new += gap.size
                index += interval.size
        if new:
            self._left[number] = new
        return new

    def _stand(self, row: _Row, interval: Interval, standing: Standing) -> None:
        for living in without(interval, [one for one, _ in row.gone.common(interval)]):
            told = row.standing.common(living)
            later = [where for where, known in told if known.version >= standing.version]
            for part in without(living, later):
                row.standing.put(part, standing)

    def _leave(self, row: _Row, interval: Interval) -> None:
        """These are gone."""
        row.standing.clear(interval)
        self._take_off(row, interval)

    def _take_off(self, row: _Row, interval: Interval) -> None:
        for part, where in row.here.common(interval):
            self._left[where.lot] -= part.size
            if self._left[where.lot] == 0:
                del self._left[where.lot]
                self._emptied.append(where.lot)
                self._recent.drop(where.lot)
        row.here.clear(interval)


def marked(shares: Shares, standing: Standing) -> Mark:
    """A standing as it is told."""
    return Mark(
        shares, standing.epoch, standing.turn, standing.state, standing.token, standing.operation,
        standing.time, standing.due, standing.failures, standing.reason,
    )  # fmt: skip


def without(interval: Interval, taken: Iterable[Interval]) -> list[Interval]:
    """The parts of an interval that are in none of the others.

    >>> [str(part) for part in without(Interval(0, 9), [Interval(2, 4), Interval(8, 12)])]
    ['[0, 2)', '[4, 8)']
    """
    parts: list[Interval] = []
    start = interval.start
    for one in merged(taken):
        if one.start > start:
            parts.append(Interval(start, min(one.start, interval.stop)))
        start = max(start, one.stop)
        if start >= interval.stop:
            break
    if start < interval.stop:
        parts.append(Interval(start, interval.stop))
    return parts


def minus(shares: Shares, taken: Shares) -> Shares:
    """The positions of some shares that are in none of the others."""
    out = {share.priority: share.intervals for share in union(taken)}
    left = [
        Share(
            share.priority,
            tuple(
                part
                for interval in share.intervals
                for part in without(interval, out.get(share.priority, ()))
            ),
        )
        for share in shares
    ]
    return tuple([share for share in left if share.intervals])


def common(shares: Shares, others: Shares) -> Shares:
    """The positions that both have."""
    return minus(shares, minus(shares, others))


def _placed(shares: Shares, index: int, origin: Origin) -> Iterator[tuple[Origin, Share]]:
    """Where the elements of a lot from this index on stand, as many as the origin has."""
    first, at = origin.first, 0
    stop = index + origin.count
    for share in shares:
        for interval in share.intervals:
            low, high = max(at, index), min(at + interval.size, stop)
            if low < high:
                start = interval.start + low - at
                where = Share(share.priority, (Interval(start, start + high - low),))
                skipped = low - index
                order = origin.order + skipped
                yield (
                    Origin(origin.operation, first + skipped, high - low, order, origin.again),
                    where,
                )
            at += interval.size


def _split(
    part: Interval, told: list[tuple[Interval, Standing]]
) -> list[tuple[Interval, Standing]]:
    """An interval by what became of it; all of it, in order."""
    gaps = [(gap, NEW) for gap in without(part, [where for where, _ in told])]
    return sorted([*told, *gaps], key=lambda piece: piece[0])


def _piece(priority: int, stretch: Interval, where: Where, bulk: Bulk, standing: Standing) -> Piece:
    first = stretch.start + where.base
    bodies = Bodies(bulk.offsets, bulk.blob).slice(first, first + stretch.size).trimmed()
    return Piece(
        priority, stretch.start, bytes(bodies.offsets), bytes(bodies.blob), bulk.headers,
        standing.failures, standing.reason,
    )  # fmt: skip
