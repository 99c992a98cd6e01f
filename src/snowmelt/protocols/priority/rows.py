"""Which positions of a queue have what, at one node: elements, standings, and what is gone."""

from collections.abc import Iterable, Iterator
from itertools import chain
from operator import itemgetter
from typing import Final

import msgspec

from snowmelt.core.interval import Interval, merged
from snowmelt.core.names import OperationId
from snowmelt.core.pieces import Edges, Pieces
from snowmelt.protocols.priority.batches import Share, Shares, union
from snowmelt.protocols.priority.bundles import BUNDLE, Bundles
from snowmelt.protocols.priority.limits import LIMITS
from snowmelt.protocols.priority.messages import Mark
from snowmelt.protocols.priority.positions import without
from snowmelt.protocols.priority.settings import State
from snowmelt.protocols.priority.standing import NEW, Standing, marked

STANDING: Final = b"s/"
GONE: Final = b"g/"
GOT: Final = 0
"""What is gone was there, and was got; else this is the view as of which it is void."""
_WHERE: Final = itemgetter(0)
_ENCODE: Final = msgspec.msgpack.Encoder().encode


class Where(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The lot of an element; its index there is its position and `base`."""

    lot: int
    base: int


class Row:
    """One priority."""

    def __init__(self, priority: int, changed: dict[bytes, None], few: int = LIMITS.few) -> None:
        name = priority.to_bytes(2)
        self._few = few
        self.here: Pieces[Where] = Pieces()
        self.standing: Pieces[Standing] = Pieces(changed, STANDING + name)
        self.gone: Pieces[int] = Pieces(changed, GONE + name)
        """`GOT`, or as of which view the position is void."""
        self.bundles = Bundles(name, changed, GONE + name)
        """Standings that many stretches have together; what is here is not in `standing`."""

    def many(self, intervals: tuple[Interval, ...]) -> Edges | None:
        """Their edges, where there are many, in order, none touching another."""
        return Edges.of(intervals) if len(intervals) >= self._few else None

    def living(self, interval: Interval) -> list[Interval]:
        gone = self.gone.common(interval)
        return without(interval, [one for one, _ in gone]) if gone else [interval]

    def got(self, interval: Interval) -> list[Interval]:
        """What was got counts, also where it was said to be void. What is gone by that now."""
        if not self.gone.common(interval):  # as mostly
            self.gone.put(interval, GOT)
            return [interval]
        new = [*self.living(interval), *self._void(interval)]
        for part in new:
            self.gone.put(part, GOT)
        return new

    def voided(self, interval: Interval, epoch: int) -> list[Interval]:
        """Void as of a view, where nothing was said in a later one. What is gone by that now."""
        new = [
            part
            for living in self.living(interval)
            for part, standing in self.standings(living)
            if standing.epoch <= epoch
        ]
        for part in (*new, *self._void(interval, before=epoch)):
            self.gone.put(part, epoch)
        return new

    def revive(self, interval: Interval, epoch: int) -> None:
        """Of what was void before this view something was said in it."""
        for part in self._void(interval, before=epoch):
            self.gone.clear(part)

    def stand(self, interval: Interval, standing: Standing) -> None:
        """A standing counts where none as late is known, and nothing is gone."""
        parts = [interval]
        if self.gone.common(interval):
            self.revive(interval, standing.epoch)
            parts = self.living(interval)
        for living in parts:
            told = self.told(living)
            later = [where for where, known in told if known.version >= standing.version]
            for part in without(living, later) if later else (living,):
                self.bundles.clear(part)
                self.standing.put(part, standing)

    def stand_all(self, intervals: tuple[Interval, ...], edges: Edges, standing: Standing) -> bool:
        """The same of many stretches, as one record; whether it can be (bundles, rule 1)."""
        if not self.gone.vacant(edges):
            return False
        if not (self.bundles.pieces.vacant(edges) and self.standing.vacant(edges)):
            known = [told for interval in intervals for _, told in self.told(interval)]
            if any(told.version >= standing.version for told in known):
                return False
            self._forget_all(intervals, edges)
        self.bundles.add(intervals, edges, standing)
        return True

    def got_all(self, intervals: tuple[Interval, ...], edges: Edges, standing: Standing) -> bool:
        """These are gone, as one record; whether it can be (bundles, rules 1 and 3)."""
        if not self.gone.vacant(edges):
            return False
        self._forget_all(intervals, edges)
        self.bundles.end(intervals, edges, standing, self.gone.fill(edges, GOT))
        return True

    def restore(self, interval: Interval, standing: Standing) -> None:
        """What was written of one stretch: of two standings the later one counts."""
        later: list[Interval] = []
        for part, known in self.bundles.common(interval):
            if known.version < standing.version:
                self.bundles.clear(part)
            else:
                later.append(part)
        for part in without(interval, later):
            self.standing.restore(part, standing)

    def restore_bundle(
        self, number: int, intervals: tuple[Interval, ...], standing: Standing
    ) -> list[Interval]:
        """What was written of many; what is gone by that now."""
        bundle = self.bundles.restore(number, intervals, standing)
        gone: list[Interval] = []
        for interval in intervals:
            if standing.state == State.GONE:
                gone += self.got(interval)
                continue
            for living in self.living(interval):
                told = self.told(living)
                later = [where for where, known in told if known.version >= standing.version]
                for part in without(living, later):
                    self.standing.clear(part)
                    self.bundles.clear(part)
                    self.bundles.keep(bundle, part)
        if not bundle.left:
            self.bundles.drop(bundle)
        return gone

    def alike(self, intervals: tuple[Interval, ...]) -> Standing | None:
        """What became of many stretches, if nothing did, or they are one bundle; else None."""
        edges = self.many(intervals)
        if edges is None:
            return None
        bundle = self.bundles.whole(intervals)
        if bundle is not None:  # nothing of it is gone: that would count less of it
            return bundle.standing
        if not self.gone.vacant(edges):
            return None
        vacant = self.standing.vacant(edges) and self.bundles.pieces.vacant(edges)
        return NEW if vacant else None

    def common_standing(self, intervals: tuple[Interval, ...]) -> Standing | None:
        """What all of these have of failures, in one that says it; None where they differ."""
        alike = self.alike(intervals)
        if alike is not None:
            return alike
        told = [standing for one in intervals for _, standing in self.standings(one)]
        same = all((one.failures, one.reason) == (told[0].failures, told[0].reason) for one in told)
        return told[0] if same else None

    def told(self, interval: Interval) -> list[tuple[Interval, Standing]]:
        """What was said of the parts of an interval, in order."""
        alone, together = self.standing.common(interval), self.bundles.common(interval)
        return sorted([*alone, *together], key=_WHERE) if alone and together else alone or together

    def all_told(self) -> Iterator[tuple[Interval, Standing]]:
        together = [(part, bundle.standing) for part, bundle in self.bundles.pieces]
        return (
            iter(sorted([*self.standing, *together], key=_WHERE))
            if together
            else iter(self.standing)
        )

    def _forget_all(self, intervals: tuple[Interval, ...], edges: Edges) -> None:
        if not self.standing.vacant(edges):
            for interval in intervals:
                self.standing.clear(interval)
        if not self.bundles.pieces.vacant(edges):
            self.bundles.clear_all(edges)

    def forget(self, interval: Interval) -> None:
        self.standing.clear(interval)
        self.bundles.clear(interval)

    def _void(self, interval: Interval, before: int | None = None) -> list[Interval]:
        gone = self.gone.common(interval)
        return [part for part, as_of in gone if as_of != GOT and (before is None or as_of < before)]

    def standings(self, living: Interval) -> list[tuple[Interval, Standing]]:
        """What became of each part of an interval, in order; `NEW` where nothing was said."""
        told = self.told(living)
        if not told:
            return [(living, NEW)]
        if len(told) == 1 and told[0][0] == living:
            return told
        gaps = [(gap, NEW) for gap in without(living, [where for where, _ in told])]
        return sorted([*told, *gaps], key=lambda piece: piece[0]) if gaps else told


class Rows:
    """All priorities. What changed is noted in `changed`, by the keys of its records."""

    def __init__(self, few: int = LIMITS.few) -> None:
        self._few = few
        self.changed: dict[bytes, None] = {}
        self._rows: dict[int, Row] = {}

    def records(self) -> list[tuple[bytes, bytes | None]]:
        """Those that have changed since this was last asked; None for what is to be erased."""
        changed = [(key, self._record(key)) for key in self.changed]
        self.changed.clear()
        return changed

    def stored(self) -> Shares:
        return self._all((p, merged([one for one, _ in row.here])) for p, row in self._sorted())

    def gone(self) -> Shares:
        return self._all(
            (p, [one for one, void in row.gone if void == GOT]) for p, row in self._sorted()
        )

    def voids(self) -> list[Mark]:
        """What is known to be void, by the views as of which it is."""
        return _voids((p, one, void) for p, row in self._sorted() for one, void in row.gone)

    def voids_of(self, shares: Shares) -> list[Mark]:
        return _voids(
            (share.priority, part, void)
            for share in shares
            for interval in share.intervals
            for part, void in self.row(share.priority).gone.common(interval)
        )

    def marks(self) -> Iterator[Mark]:
        for priority, row in self._sorted():
            for interval, standing in row.all_told():
                yield marked((Share(priority, (interval,)),), standing)

    def marks_of(self, shares: Shares) -> Iterator[Mark]:
        for priority, where, standing in self.standings(shares):
            if standing is not NEW:
                yield marked((Share(priority, (where,)),), standing)

    def told_of(self, shares: Shares) -> list[Mark]:
        """The standings of these, those alike together."""
        alike: dict[Standing, list[Share]] = {}
        for priority, where, standing in self.standings(shares):
            alike.setdefault(standing, []).append(Share(priority, (where,)))
        return [marked(union(those), standing) for standing, those in alike.items()]

    def lacking(self, shares: Shares) -> Shares:
        """What of these is neither here nor gone."""
        left: list[Share] = []
        for share in shares:
            row = self.row(share.priority)
            edges = row.many(share.intervals)
            if edges is not None and row.here.owners(edges) is not None:  # as mostly
                continue
            gaps: list[Interval] = []
            for interval in share.intervals:
                if row.here.covers(interval):  # as mostly
                    continue
                covered = [
                    one for one, _ in (*row.here.common(interval), *row.gone.common(interval))
                ]
                gaps.extend(without(interval, covered))
            if gaps:
                left.append(Share(share.priority, tuple(gaps)))
        return tuple(left)

    def present(self, shares: Shares) -> Shares:
        return self._all(
            (
                share.priority,
                merged(
                    [
                        part
                        for interval in share.intervals
                        for part, _ in self.row(share.priority).here.common(interval)
                    ]
                ),
            )
            for share in shares
        )

    def standings(self, shares: Shares) -> Iterator[tuple[int, Interval, Standing]]:
        """What became of each, in order, and by pieces; `NEW` for what nothing was said of.

        What is gone is left out.
        """
        for share in shares:
            row = self.row(share.priority)
            for interval in share.intervals:
                for living in row.living(interval):
                    for where, standing in row.standings(living):
                        yield share.priority, where, standing

    def alike(self, shares: Shares) -> Standing | None:
        """What became of all of these, where that is the same and it takes no long look to tell.

        None where it is not, or something of them is gone.
        """
        if len(shares) != 1:
            return None
        row, intervals = self.row(shares[0].priority), shares[0].intervals
        if len(intervals) != 1:
            return row.alike(intervals)
        interval = intervals[0]
        if row.gone.common(interval):
            return None
        told = row.told(interval)
        if not told:
            return NEW
        return told[0][1] if told[0][0] == interval else None

    def gone_of(self, shares: Shares) -> Shares:
        return self._gone_of(shares, got=True)

    def void_of(self, shares: Shares) -> Shares:
        """Which of these an earlier attempt has given up, with whoever still has copies of them."""
        return self._gone_of(shares, got=False)

    def leased_by(self, operations: Iterable[OperationId]) -> dict[OperationId, list[Mark]]:
        """Which leases operations have; all is looked at once, however many are asked after."""
        found: dict[OperationId, list[Mark]] = {operation: [] for operation in operations}
        for priority, row in self._sorted():
            for interval, standing in row.all_told():
                if standing.operation in found:
                    mark = marked((Share(priority, (interval,)),), standing)
                    found[standing.operation].append(mark)
        return found

    def row(self, priority: int) -> Row:
        row = self._rows.get(priority)
        if row is None:
            row = self._rows[priority] = Row(priority, self.changed, self._few)
        return row

    def _record(self, key: bytes) -> bytes | None:
        row, start = self.row(int.from_bytes(key[2:4])), int.from_bytes(key[4:])
        if key[:2] == BUNDLE:
            return row.bundles.record(start)
        piece = row.standing.at(start) if key[:2] == STANDING else row.gone.at(start)
        return None if piece is None else _ENCODE((piece[0].stop, piece[1]))

    def _gone_of(self, shares: Shares, *, got: bool) -> Shares:
        found: list[tuple[int, list[Interval]]] = []
        for share in shares:
            row = self.row(share.priority)
            gone, edges = row.gone, row.many(share.intervals)
            if edges is None or not gone.vacant(edges):
                parts = chain.from_iterable(map(gone.common, share.intervals))
                found.append((share.priority, [part for part, void in parts if got or void != GOT]))
        return self._all(found)

    def _sorted(self) -> list[tuple[int, Row]]:
        return sorted(self._rows.items())

    def _all(self, rows: Iterable[tuple[int, list[Interval]]]) -> Shares:
        return tuple([Share(priority, tuple(there)) for priority, there in rows if there])


def _voids(parts: Iterable[tuple[int, Interval, int]]) -> list[Mark]:
    """What of these is void, those of one view together."""
    by_view: dict[int, list[Share]] = {}
    for priority, interval, void in parts:
        if void != GOT:
            by_view.setdefault(void, []).append(Share(priority, (interval,)))
    return [Mark(union(those), void, 0, State.VOID) for void, those in by_view.items()]
