"""Which positions of a queue have what, at one node: elements, standings, and what is gone."""

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from snowmelt.core.interval import Interval, merged
from snowmelt.core.names import OperationId
from snowmelt.core.pieces import Pieces
from snowmelt.protocols.priority.batches import Share, Shares, union
from snowmelt.protocols.priority.messages import Mark
from snowmelt.protocols.priority.positions import without
from snowmelt.protocols.priority.standing import NEW, Standing, marked

STANDING: Final = b"s/"
GONE: Final = b"g/"


class Where(msgspec.Struct, frozen=True, array_like=True):
    """The lot of an element; its index there is its position and `base`."""

    lot: int
    base: int


class Row:
    """One priority."""

    def __init__(self, priority: int, changed: dict[bytes, None]) -> None:
        name = priority.to_bytes(2)
        self.here: Pieces[Where] = Pieces()
        self.standing: Pieces[Standing] = Pieces(changed, STANDING + name)
        self.gone: Pieces[bool] = Pieces(changed, GONE + name)
        """Whether there was an element, or the position is void."""

    def living(self, interval: Interval) -> list[Interval]:
        """What of an interval is not gone."""
        gone = self.gone.common(interval)
        return without(interval, [one for one, _ in gone]) if gone else [interval]

    def standings(self, living: Interval) -> list[tuple[Interval, Standing]]:
        """What became of each part of an interval, in order; `NEW` where nothing was said."""
        told = self.standing.common(living)
        if not told:
            return [(living, NEW)]
        if len(told) == 1 and told[0][0] == living:
            return told
        gaps = [(gap, NEW) for gap in without(living, [where for where, _ in told])]
        return sorted([*told, *gaps], key=lambda piece: piece[0]) if gaps else told


class Rows:
    """All priorities. What changed is noted in `changed`, by the keys of its records."""

    def __init__(self) -> None:
        self.changed: dict[bytes, None] = {}
        self._rows: dict[int, Row] = {}

    def stored(self) -> Shares:
        """What is here."""
        return self._all((p, merged([one for one, _ in row.here])) for p, row in self._sorted())

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
        """What of these is here."""
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

    def gone_of(self, shares: Shares) -> Shares:
        """What of these is gone."""
        return self._gone_of(shares, (True, False))

    def void_of(self, shares: Shares) -> Shares:
        """Which of these an earlier attempt has given up, with whoever still has copies of them."""
        return self._gone_of(shares, (False,))

    def leased_by(self, operations: Iterable[OperationId]) -> dict[OperationId, list[Mark]]:
        """Which leases operations have; all is looked at once, however many are asked after."""
        found: dict[OperationId, list[Mark]] = {operation: [] for operation in operations}
        for priority, row in self._sorted():
            for interval, standing in row.standing:
                if standing.operation in found:
                    mark = marked((Share(priority, (interval,)),), standing)
                    found[standing.operation].append(mark)
        return found

    def row(self, priority: int) -> Row:
        """One priority."""
        row = self._rows.get(priority)
        if row is None:
            row = self._rows[priority] = Row(priority, self.changed)
        return row

    def _gone_of(self, shares: Shares, was: tuple[bool, ...]) -> Shares:
        return self._all(
            (
                share.priority,
                [
                    part
                    for interval in share.intervals
                    for part, there in self.row(share.priority).gone.common(interval)
                    if there in was
                ],
            )
            for share in shares
        )

    def _sorted(self) -> list[tuple[int, Row]]:
        return sorted(self._rows.items())

    def _all(self, rows: Iterable[tuple[int, list[Interval]]]) -> Shares:
        return tuple([Share(priority, tuple(there)) for priority, there in rows if there])
