"""The anchor: it knows which positions there are to be got, and gives them. It never sees a body.

What the paper's anchor keeps of a priority are two counters; here it is a set of positions, since
elements come back, are held, and are gone in no order. It has no disk: what lies with the nodes is
the truth, and whoever becomes the anchor begins with a census of it.

1. Positions and orders of an epoch begin above all of the epochs before, and above all that the
   census names. So none is ever given twice, though no anchor writes anything down, and though a
   coordinator on an older copy of its disk gives the number of an epoch again.
2. What is put is there to be got from the moment its position is given. Whoever comes for it before
   it has arrived waits where it will be.
3. Gets take from the most urgent priority first, and the least position first.
4. With a bound, what finds no room gets no position.
5. A position is *gone* when whoever keeps it says so. A position that nobody has and nobody calls
   gone is no harm: it may lie with one who is away, and is there again when that one is.
6. Those who keep positions know what is gone of their own, in small pieces. When much is gone they
   are told the large interval, so that what they must remember does not grow. What is void is not
   called gone: whoever asks after its put would take it for what was got (`attempts.py`, rule 3).
7. Which positions come next is such that what comes together lies together (`dealing.py`). What is
   passed over is gone from the beginning, so that the intervals on both sides of it can be joined.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from snowmelt.core.interval import Interval, IntervalSet, merged
from snowmelt.protocols.priority.batches import (
    Batch,
    Grant,
    GrantedRun,
    Order,
    Run,
    Share,
    Shares,
    Somes,
    union,
)
from snowmelt.protocols.priority.dealing import Dealing
from snowmelt.protocols.priority.limits import LIMITS, Limits
from snowmelt.protocols.priority.placing import Placing
from snowmelt.protocols.priority.positions import first

EPOCH_BITS: Final = 40
"""So many positions, and so many operations, an epoch has."""


def first_of(epoch: int) -> int:
    """The first position, and the first order, of an epoch (rule 1)."""
    return epoch << EPOCH_BITS


class Census(msgspec.Struct, frozen=True, array_like=True):
    """What a node, or a part of the tree, answers for: of each position, one node answers."""

    free: Shares = ()
    out: Shares = ()
    """There, but not to be got: leased, held back, or dead."""
    gone: Shares = ()
    void: Shares = ()
    order: Order = 0
    """The greatest that is known: of elements, and of leases."""


def joined(censuses: Sequence[Census]) -> Census:
    """What several parts of the tree answer for, as one."""
    return Census(
        union([share for one in censuses for share in one.free]),
        union([share for one in censuses for share in one.out]),
        union([share for one in censuses for share in one.gone]),
        union([share for one in censuses for share in one.void]),
        max([one.order for one in censuses]),
    )


NOTHING: Final = Census()


class _Row:
    """The positions of one priority."""

    def __init__(self, priority: int, begin: int) -> None:
        self.priority = priority
        self.next = begin
        self.free = IntervalSet()
        self.gone = IntervalSet()
        self.void = IntervalSet()
        self.untold = IntervalSet()
        """Gone since those who keep them were last told (rule 6)."""

    def grown(self, count: int, dealing: Dealing) -> list[Interval]:
        """The next positions (rules 1 and 7)."""
        grown: list[Interval] = []
        while count:
            start = dealing.start(self.priority, self.next)
            if start > self.next:
                self.gone.add(Interval(self.next, start))
            self.next = dealing.stop(start, count)
            grown.append(Interval(start, self.next))
            count -= grown[-1].size
        return grown

    def told(self, limits: Limits) -> Share | None:
        """The large intervals around what is gone of late; None while that is little."""
        if self.untold.total < limits.gone:
            return None
        late = self.untold
        self.untold = IntervalSet()
        large = [one for one in self.gone if one.size >= limits.gone_size and late.common(one)]
        return Share(self.priority, tuple(large))


class Anchor:
    """Gives positions and orders for one queue in one epoch.

    >>> from snowmelt.protocols.priority.batches import Some
    >>> anchor = Anchor(0, 2)
    >>> grant = anchor.granted(Batch((Run((Some(0, 1), Some(1, 2)), 2),)))
    >>> [(share.priority, str(share.intervals[0])) for share in grant.runs[0].gets]
    [(0, '[0, 1)'), (1, '[0, 1)')]
    >>> anchor.free
    1
    """

    def __init__(
        self,
        epoch: int,
        priorities: int,
        census: Census = NOTHING,
        *,
        bound: int | None = None,
        largest_first: bool = False,
        limits: Limits = LIMITS,
        placing: Placing | None = None,
    ) -> None:
        """Without a placing it is as if there were one node."""
        self._limits = limits
        begin = first_of(epoch)
        self._dealing = Dealing(placing, (begin + first_of(epoch + 1)) // 2, limits.deal)
        self._rows = [_Row(number, begin) for number in range(priorities)]
        self._by_urgency = self._rows[::-1] if largest_first else self._rows
        self._order = max(begin, census.order + 1)
        self._bound = bound
        self._live = 0
        self.hungry = False
        """Whether somebody waits for elements, of which there were none."""
        self._back(census.free)
        self._live = sum([share.total for share in (*census.free, *census.out)])
        for share in census.gone:
            for interval in share.intervals:
                self._rows[share.priority].gone.add(interval)
        for share in census.void:
            for interval in share.intervals:
                self._rows[share.priority].void.add(interval)
        for share in (*census.free, *census.out, *census.gone, *census.void):
            row = self._rows[share.priority]
            row.next = max(row.next, share.intervals[-1].stop)

    @property
    def free(self) -> int:
        return sum([row.free.total for row in self._rows])

    def granted(self, batch: Batch) -> Grant:
        """Serves a batch: what comes back first, then run by run."""
        if batch.back:
            self._back(batch.back)
        if batch.gone:
            self._gone(batch.gone)
        if batch.void:
            self._void(batch.void)
        runs = tuple([self._run(run, patient=batch.patient) for run in batch.runs])
        held = self._grown(batch.held) if batch.held else ()
        rows = [self._rows[share.priority] for share in batch.gone]
        told = [word for word in [row.told(self._limits) for row in rows] if word is not None]
        return Grant(runs, held, tuple(told))

    def first(self, count: int) -> Shares:
        """The positions that would be got next; nothing changes."""
        return first([(row.priority, row.free) for row in self._by_urgency], count)

    def ranked(self, rank: int) -> Shares:
        """The position that would be got as this one, from 1 on; nothing changes. O(intervals).

        >>> from snowmelt.protocols.priority.batches import Some
        >>> anchor = Anchor(0, 2)
        >>> _ = anchor.granted(Batch((Run((Some(0, 3), Some(1, 2)), 0),)))
        >>> [(share.priority, str(share.intervals[0])) for share in anchor.ranked(5)]
        [(1, '[1, 2)')]
        """
        for row in self._by_urgency:
            for one in row.free:
                if rank <= one.size:
                    return (
                        Share(row.priority, (Interval(one.start + rank - 1, one.start + rank),)),
                    )
                rank -= one.size
        return ()

    def check(self) -> None:
        """What is free is not gone, and was given."""
        for row in self._rows:
            row.free.check()
            assert all(one.stop <= row.next for one in row.free), f"free beyond {row.next}"
            assert not any(row.gone.common(one) for one in row.free), "free, and gone"

    def _run(self, run: Run, *, patient: bool) -> GrantedRun:
        order = self._order
        puts = self._put(run.puts)
        for share in puts:
            for grown in share.intervals:
                self._rows[share.priority].free.add(grown)  # rule 2
        got_order, gets = self._order, self._taken(run.gets) if run.gets else ()
        self._order += run.gets
        if patient and sum([share.total for share in gets]) < run.gets:
            self.hungry = True
        return GrantedRun(order, puts, got_order, gets)

    def _put(self, somes: Somes) -> Shares:
        """The positions of what is put, each of which has an order."""
        grown = self._grown(somes) if somes else ()
        self._order += sum([share.total for share in grown])
        return grown

    def _grown(self, somes: Somes) -> Shares:
        """The next positions, as far as there is room."""
        counts: dict[int, int] = {}
        for some in somes:
            count = some.count
            if self._bound is not None:
                count = min(count, max(0, self._bound - self._live))  # rule 4
            self._live += count
            if count:
                counts[some.priority] = count
        grown: dict[int, list[Interval]] = {priority: [] for priority in counts}
        dealing = self._dealing.of(counts)
        for part in dealing.parts(counts):
            for priority, count in part.items():
                grown[priority] += self._rows[priority].grown(count, dealing)
        return tuple([Share(priority, tuple(merged(those))) for priority, those in grown.items()])

    def _taken(self, count: int) -> Shares:
        shares: list[Share] = []
        for row in self._by_urgency:  # rule 3
            if count == 0:
                break
            intervals = row.free.take(count)
            if intervals:
                shares.append(Share(row.priority, tuple(intervals)))
                count -= shares[-1].total
        return tuple(shares)

    def _back(self, shares: Shares) -> None:
        for share in shares:
            row = self._rows[share.priority]
            for interval in share.intervals:
                row.free.add(interval)
                for gone in (*row.gone.common(interval), *row.void.common(interval)):
                    row.free.remove(gone)

    def _gone(self, shares: Shares) -> None:
        for share in shares:
            row = self._rows[share.priority]
            for interval in share.intervals:
                self._lose(row, interval)
                row.gone.add(interval)
                row.untold.add(interval)

    def _void(self, shares: Shares) -> None:
        for share in shares:
            row = self._rows[share.priority]
            for interval in share.intervals:
                self._lose(row, interval)
                row.void.add(interval)

    def _lose(self, row: _Row, interval: Interval) -> None:
        """It is there no more; it may be told twice."""
        known = merged([*row.gone.common(interval), *row.void.common(interval)])
        self._live -= interval.size - sum([one.size for one in known])
        row.free.remove(interval)
