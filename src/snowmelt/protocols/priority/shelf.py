"""What one node keeps of one queue: elements, what became of them, and what is gone.

Rules
-----
1. Elements that come together are one *lot*: a small record says where they stand and who made
   them, a bulk record has the bodies. A lot is never written again; of what is gone in it only the
   account changes. When all of it is gone the bodies are erased; the small record stays for
   `REMEMBERED`, since it is how an operation is known (rule 11 of the package).
2. What became of elements is their *standing*, kept by intervals, whether the elements are here or
   not. Of two standings the later one counts, by epoch and turn. What is said of many intervals at
   once is one record, if it can be (`bundles.py`).
3. What was got for good is gone, whatever a later word says, or an earlier one that it is void.
   What is void is so until something is said of a later view than that: then those who were there
   did not know it (`attempts.py`, rule 3). Both are kept as intervals, which join.
4. Everything can come twice: what is known already changes nothing. Of what is gone before it comes
   (it was purged) only the small record is kept: who made it is known, as of all that is gone.
5. A shelf is a value in memory, changed at once; what has to be written for it is gathered until
   `changes` is called, and that is all that its disk needs to make the same shelf again.
6. What a get has in many stretches may be kept as a whole, which is entered in the rows when
   somebody looks at them (`wholes.py`).
"""

import struct
from collections.abc import Iterable, Sequence
from heapq import heappop, heappush
from typing import Final

import msgspec

from snowmelt.core.batch import Batch as Bodies
from snowmelt.core.interval import Interval
from snowmelt.core.keys import part as part_of
from snowmelt.core.names import OperationId
from snowmelt.core.pieces import Edges
from snowmelt.core.record import BULK, Change, Found, Record, Write, erase
from snowmelt.protocols.priority.attempts import attempts_of
from snowmelt.protocols.priority.batches import Share, Shares, union
from snowmelt.protocols.priority.bundles import BUNDLE, unpacked
from snowmelt.protocols.priority.gathered import gathered, joined
from snowmelt.protocols.priority.limits import LIMITS, Limits
from snowmelt.protocols.priority.lots import cut, whole
from snowmelt.protocols.priority.messages import Attempt, Elements, Mark, Origin, Piece
from snowmelt.protocols.priority.origins import Lot, Origins
from snowmelt.protocols.priority.positions import without
from snowmelt.protocols.priority.recent import Bulk, Endings, Recent
from snowmelt.protocols.priority.rows import STANDING, Row, Rows, Where
from snowmelt.protocols.priority.settings import REDONE, REMEMBERED, QueueSettings, State
from snowmelt.protocols.priority.standing import ENDED, Standing, standing_of
from snowmelt.protocols.priority.wholes import Wholes

_LOT: Final = b"l/"
SENT_BYTES: Final = 32 << 20
"""So much is sent in one message."""

_EDGES: Final = struct.Struct("<2i").pack
_ENCODE: Final = msgspec.msgpack.Encoder().encode
_LOTS: Final = msgspec.msgpack.Decoder(Lot).decode
_BULKS: Final = msgspec.msgpack.Decoder(Bulk).decode
_STANDINGS: Final = msgspec.msgpack.Decoder(tuple[int, Standing]).decode
_STOPS: Final = msgspec.msgpack.Decoder(tuple[int, int]).decode


class Shelf:
    """One queue at one node.

    >>> shelf = Shelf(b"q/")
    >>> made = Origin(OperationId("c", 1), 0, 2)
    >>> bodies = Bodies.of([b"one", b"two"])
    >>> where = (Share(0, (Interval(4, 6),)),)
    >>> lot = shelf.store(Elements(where, (made,), bytes(bodies.offsets), bytes(bodies.blob)))
    >>> shelf.mark(Mark((Share(0, (Interval(4, 5),)),), 1, 1, State.GONE))
    >>> shelf.rows.stored(), [type(change).__name__ for change in shelf.changes(0)]
    ((Share(priority=0, intervals=(Interval(start=5, stop=6),)),), ['Write', 'Write', 'Write'])
    """

    def __init__(
        self, prefix: bytes, limits: Limits = LIMITS, settings: QueueSettings | None = None
    ) -> None:
        self._prefix = prefix
        self._settings = settings
        self._read = limits.read
        self.unwritten: dict[int, Bulk] = {}
        """Bodies that `changes` has not given yet, by lots."""
        self.entered = Rows(limits.few)
        """Where what stands, but for what is kept as a whole."""
        self.wholes = Wholes(self.entered.row(0))
        self.origins = Origins()
        self._left: dict[int, int] = {}
        """How many of each lot are not gone."""
        self._forget: list[tuple[int, int]] = []
        """When which lot is forgotten, the earliest first."""
        self._emptied: list[int] = []
        """Lots of which all is gone, to be written so."""
        self.next = 0
        """The number of the next lot."""
        self._recent: Recent[int, Bulk] = Recent(limits.recent)
        """Bodies that came of late need not be read again; by lots."""
        self.ended = Endings()
        """Which leases ended in an acknowledgement, of late; it is not on the disk."""

    @property
    def rows(self) -> Rows:
        """Where what stands: all that is kept as a whole is entered (wholes, rule 3)."""
        if self.wholes.open:
            self._take_off(self.wholes.entered())
        return self.entered

    # --- from the disk ----------------------------------------------------------------------------

    def restore(self, key: bytes, value: bytes) -> None:
        """One small record of this shelf, as it was written; in any order, since rule 3 holds."""
        body = key[len(self._prefix) :]
        kind, rest = body[:2], body[2:]
        if kind == _LOT:
            number, lot = int.from_bytes(rest), _LOTS(value)
            self.next = max(self.next, number + 1)
            if self._settings is not None and not _fits(lot, self._settings):
                return
            self.origins.remember(number, lot)
            if lot.until:
                heappush(self._forget, (lot.until, number))
            elif not self._put_on(number, lot):  # its elements came again since, with another lot
                self._emptied.append(number)
            return
        priority, start = int.from_bytes(rest[:2]), int.from_bytes(rest[2:])
        if self._settings is not None and priority >= self._settings.rows:
            return
        row = self.rows.row(priority)
        if kind == STANDING:
            stop, standing = _STANDINGS(value)
            row.restore(Interval(start, stop), standing)
        elif kind == BUNDLE:
            for part in row.restore_bundle(start, *unpacked(value)):
                self._leave(row, part)
        else:
            stop, void = _STOPS(value)
            interval = Interval(start, stop)
            row.gone.restore(interval, void)
            self._leave(row, interval)

    # --- what comes -------------------------------------------------------------------------------

    def store(self, elements: Elements) -> int | None:
        """Keeps those of them that are not known yet (rule 4); the lot's number, if there are."""
        number, size = self.next, len(elements.blob)
        lot = Lot(elements.shares, elements.origins, size=size, keys=elements.keys)
        if not self._put_on(number, lot):
            if not self.origins.knows(lot):
                self.next += 1
                self.origins.remember(number, lot)
                self._emptied.append(number)
            return None
        self.next += 1
        self.origins.remember(number, lot)
        bulk = Bulk(elements.offsets, elements.blob, elements.headers, elements.put_at)
        self.unwritten[number] = bulk
        self._recent.keep(number, bulk, bulk.weight)
        if elements.due:
            self.mark(Mark(elements.shares, 0, 0, State.HELD, due=elements.due))
        return number

    def lot(self, number: int) -> Shares:
        """Where what is here of a lot stands."""
        return union(
            [
                Share(share.priority, (part,))
                for share in self.origins.lots[number].shares
                for interval in share.intervals
                for part, where in self.rows.row(share.priority).here.common(interval)
                if where.lot == number
            ]
        )

    def void(self, number: int) -> tuple[bytes, bytes]:
        """There was no room for a lot: it is not here. The keys that it would have had."""
        lot = self.origins.lots[number]
        self.unwritten.pop(number, None)
        self.origins.forget(number)
        for share in lot.shares:
            for interval in share.intervals:
                row = self.rows.row(share.priority)
                for part, where in row.here.common(interval):
                    if where.lot == number:
                        row.here.clear(part)
        self._left.pop(number, None)
        if number in self._emptied:
            self._emptied.remove(number)
        return self._bulk(number), self._small(number)

    def mark(self, *marks: Mark) -> None:
        """Takes what is later than what is known (rules 2 and 3), one after the other."""
        ended: list[Mark] = []
        """Some in a row that end elements, to be taken as one."""
        for mark in marks:
            if mark.state == State.GONE:
                ended.append(mark)
                continue
            if ended:
                self._end(ended)
                ended = []
            standing = standing_of(mark)
            for share in mark.shares:
                row, void = self.rows.row(share.priority), mark.state == State.VOID
                edges = None if void else row.many(share.intervals)
                if edges is not None and row.stand_all(share.intervals, edges, standing):
                    continue
                for interval in share.intervals:
                    if void:
                        for part in row.voided(interval, mark.epoch):
                            self._leave(row, part)
                    else:
                        row.stand(interval, standing)
        self._end(ended)

    def spare(self, shares: Shares) -> None:
        """Others keep these: they are taken off the shelf, and are not gone for that."""
        for share in shares:
            for interval in share.intervals:
                here = self.rows.row(share.priority).here
                self._take_off(here.take(Edges([interval.start], [interval.stop])))

    # --- what there is ----------------------------------------------------------------------------

    def made_by(self, operation: OperationId) -> list[Attempt]:
        """Which elements an operation made, and which of its own they are; also what is gone."""
        return _attempts(self.rows, self.origins.by(operation))

    def redone(self) -> list[Attempt]:
        """All that is here of operations that were begun anew."""
        return _attempts(self.rows, self.origins.redone())

    def keys(self, shares: Shares) -> tuple[bytes, ...]:
        """The bulk records that must be read for these, in order: as many as are read at once.

        Or one, however large it is.
        """
        lots = {where.lot: None for share in shares for where in owners(self.rows, share)}
        room = self._read
        keys: list[bytes] = []
        for number in lots:
            if self._at_hand(number) is None:
                room -= self.origins.lots[number].size
                if keys and room < 0:
                    break
                keys.append(self._bulk(number))
        return tuple(keys)

    def unread(self, shares: Shares, found: Iterable[Found]) -> Shares:
        """Which of these can't be read any more: their bulk records are damaged."""
        bad = {one.key for one in found if not isinstance(one, Record)}
        if not bad:
            return ()
        parts = [
            Share(share.priority, (part,))
            for share in shares
            for interval in share.intervals
            for part, where in self.rows.row(share.priority).here.common(interval)
            if self._bulk(where.lot) in bad and self._at_hand(where.lot) is None
        ]
        return union(parts)

    def pieces(self, found: Iterable[Found], *several: Shares) -> list[tuple[Piece, ...]]:
        """The elements of each, with what is on the bulk records that were read; in their order."""
        bulks = {one.key: _BULKS(one.value) for one in found if isinstance(one, Record)}
        lots: dict[int, tuple[Bodies, Bulk]] = {}
        rows: list[tuple[Piece, ...]] = []
        for shares in several:
            pieces: list[Piece] = []
            for share in shares:
                row = self.rows.row(share.priority)
                for interval in share.intervals:
                    for part, where in row.here.common(interval):
                        if where.lot not in lots:
                            bulk = self._at_hand(where.lot) or bulks.get(self._bulk(where.lot))
                            if bulk is None:  # damaged, or erased since
                                continue
                            unpacked = Bodies.known(bulk.offsets, bulk.blob)
                            lots[where.lot] = unpacked, bulk
                        bodies, bulk = lots[where.lot]
                        keys = self.origins.lots[where.lot].keys
                        for alike, standing in row.standings(part):
                            at, to = alike.start + where.base, alike.stop + where.base
                            row_of = part_of(keys, at, to)
                            pieces.append(
                                _piece(share.priority, alike, bodies, at, bulk, standing, row_of)
                            )
            rows.append(tuple(pieces))
        return rows

    def gathered(self, found: Iterable[Found], *several: Shares) -> list[Piece | None]:
        """Each as one piece, where it can be one (`gathered.py`)."""
        bulks = {one.key: _BULKS(one.value) for one in found if isinstance(one, Record)}

        def bulks_of(numbers: Sequence[int]) -> list[Bulk | None]:
            rows = zip(numbers, self._recent.each(numbers), strict=True)
            unwritten, key = self.unwritten, self._bulk
            return [one or unwritten.get(lot) or bulks.get(key(lot)) for lot, one in rows]

        lots, pieces = self.origins.lots, list[Piece | None]()
        for shares in several:
            whole = self.wholes.of(shares)
            if whole is None:
                pieces.append(gathered(self.rows, lots, bulks_of, shares))
                continue
            edges, standing = whole.edges, whole.bundle.standing
            parts = list(zip(edges.starts, edges.stops, whole.lots, strict=True))
            piece = joined(shares[0].priority, edges, parts, lots, bulks_of, standing)
            if piece is not None:
                whole.weight = len(piece.blob)
            pieces.append(piece)
        return pieces

    def first_lots(self, shares: Shares, most: int) -> Shares:
        """What of these is here, of so many lots at most, and of `SENT_BYTES`, or of one."""
        lots: set[int] = set()
        room = SENT_BYTES
        first: list[Share] = []
        for share in shares:
            for interval in share.intervals:
                for part, where in self.rows.row(share.priority).here.common(interval):
                    if where.lot not in lots:
                        lots.add(where.lot)
                        room -= self.origins.lots[where.lot].size
                        if len(lots) > most or (room < 0 and first):
                            return tuple(first)
                    first.append(Share(share.priority, (part,)))
        return tuple(first)

    def elements(self, shares: Shares, found: Iterable[Found]) -> tuple[Elements, ...]:
        """The elements as they came, lot by lot, to be kept elsewhere."""
        bulks = {one.key: _BULKS(one.value) for one in found if isinstance(one, Record)}
        lots: dict[int, list[Share]] = {}
        for share in shares:
            for interval in share.intervals:
                for part, where in self.rows.row(share.priority).here.common(interval):
                    lots.setdefault(where.lot, []).append(Share(share.priority, (part,)))
        whole: list[Elements] = []
        for number, wanted in lots.items():
            bulk = self._at_hand(number) or bulks.get(self._bulk(number))
            if bulk is not None:
                lot = self.origins.lots[number]
                came = Elements(
                    lot.shares, lot.origins, bulk.offsets, bulk.blob, bulk.headers, keys=lot.keys,
                    put_at=bulk.put_at,
                )  # fmt: skip
                whole.append(cut(came, union(wanted)))
        return tuple(whole)

    # --- to the disk ------------------------------------------------------------------------------

    @property
    def forgets(self) -> int | None:
        """When the next lot is forgotten, by the wall clock."""
        return self._forget[0][0] if self._forget else None

    def changes(self, wall: int) -> list[Change]:
        """What is to be written since this was last asked (rule 5)."""
        changes: list[Change] = []
        if self.wholes.full:
            self._take_off(self.wholes.entered())
        for number, bulk in self.unwritten.items():
            if number in self.origins.lots:
                changes.append(Write(self._bulk(number), _ENCODE(bulk)))
                changes.append(Write(self._small(number), _ENCODE(self.origins.lots[number])))
        self.unwritten = {}
        for number in self._emptied:
            lot = self.origins.lots[number]
            again = any(origin.again for origin in lot.origins)
            lot = msgspec.structs.replace(lot, until=wall + (REDONE if again else REMEMBERED))
            self.origins.lots[number] = lot
            heappush(self._forget, (lot.until, number))
            changes.append(erase(self._bulk(number)))
            changes.append(Write(self._small(number), _ENCODE(lot)))
        self._emptied = []
        while self._forget and self._forget[0][0] <= wall:
            _, number = heappop(self._forget)
            changes.append(erase(self._small(number)))
            self.origins.forget(number)
        for key, record in self.entered.records():
            kept = self._prefix + key
            changes.append(erase(kept) if record is None else Write(kept, record))
        return changes

    def _at_hand(self, number: int) -> Bulk | None:
        """The bodies of a lot that came of late, or are on their way to the disk, and not there."""
        return self._recent.get(number) or self.unwritten.get(number)

    # --- within -----------------------------------------------------------------------------------

    def _small(self, number: int) -> bytes:
        return self._prefix + _LOT + number.to_bytes(8)

    def _bulk(self, number: int) -> bytes:
        return BULK + self._prefix + number.to_bytes(8)

    def _put_on(self, number: int, lot: Lot) -> int:
        """How many of its elements were not known."""
        index, new = 0, 0
        rows = rows_at(self, lot.shares)
        for share in lot.shares:
            row = rows.row(share.priority)
            for interval in share.intervals:
                where = Where(number, index - interval.start)
                known = (*row.here.common(interval), *row.gone.common(interval))
                gaps = without(interval, [one for one, _ in known]) if known else (interval,)
                for gap in gaps:
                    row.here.put(gap, where)
                    new += gap.stop - gap.start
                index += interval.stop - interval.start
        if new:
            self._left[number] = new
        return new

    def _end(self, marks: Sequence[Mark]) -> None:
        """These elements are gone, and under which tokens is known (rule 3)."""
        if not marks:
            return
        shares = [share for mark in marks for share in mark.shares]
        for share in shares if len(marks) == 1 else union(shares):
            row = self.rows.row(share.priority)
            edges = row.many(share.intervals)
            if edges is not None and row.got_all(share.intervals, edges, ENDED):
                self._take_off(row.here.take(edges))
                continue
            for interval in share.intervals:
                for part in row.got(interval):
                    self._leave(row, part)
        for mark in marks:
            if mark.token:
                self.ended.add(mark.token, mark.shares)

    def _leave(self, row: Row, interval: Interval) -> None:
        row.forget(interval)
        self._take_off(row.here.take(Edges([interval.start], [interval.stop])))

    def _take_off(self, some: Iterable[tuple[Where, int]]) -> None:
        """So many elements of these lots are not here any more."""
        left = self._left
        for where, count in some:
            left[where.lot] -= count
            if not left[where.lot]:
                del left[where.lot]
                self._emptied.append(where.lot)
                self._recent.drop(where.lot)


def rows_at(shelf: Shelf, shares: Shares) -> Rows:
    """Its rows for who looks at these alone."""
    return shelf.rows if shelf.wholes.open and shelf.wholes.touch(shares) else shelf.entered


def number_of(key: bytes) -> int:
    """Which lot a bulk record is of."""
    return int.from_bytes(key[-8:])


def owners(rows: Rows, share: Share) -> Iterable[Where]:
    """Of each stretch of these, as they lie."""
    row = rows.row(share.priority)
    here, edges = row.here, row.many(share.intervals)
    found = None if edges is None else here.owners(edges)
    if found is not None:  # as mostly, where there are many
        return found
    return [where for interval in share.intervals for _, where in here.common(interval)]


def _fits(lot: Lot, settings: QueueSettings) -> bool:
    """Whether it can be of a queue of this kind (queues, rule 4)."""
    keyed = bool(lot.keys) == settings.keyed
    return keyed and all(share.priority < settings.rows for share in lot.shares)


def _attempts(rows: Rows, found: Iterable[tuple[Origin, Share]]) -> list[Attempt]:
    return [one for origin, share in found for one in attempts_of(rows, origin, share)]


def _piece(
    priority: int,
    where: Interval,
    bodies: Bodies,
    at: int,
    bulk: Bulk,
    standing: Standing,
    keys: bytes,
) -> Piece:
    """Of the elements of an interval, whose bodies begin at `at`."""
    if where.stop - where.start == 1:  # as what was put one by one
        blob = bytes(bodies[at])
        offsets = _EDGES(0, len(blob))
    else:
        some = bodies.slice(at, at + where.stop - where.start).trimmed()
        offsets, blob = whole(some.offsets), whole(some.blob)
    return Piece(
        priority, where.start, offsets, blob, bulk.headers,
        standing.failures, standing.reason, keys, bulk.put_at,
    )  # fmt: skip
