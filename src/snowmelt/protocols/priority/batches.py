"""Batches of operations on their way up the tree, and their positions on the way down.

A node's operations, in the order in which it was asked for them, are a row of *runs*: first what is
put, by priority, then how many are got. Batches are combined run by run, so however many operations
there are, what reaches the anchor is as long as the longest row of one node. What comes back is the
same row with positions in it, and is cut for those whose batches were combined, in their order.

Rules
-----
1. Within a run, what is put comes before what is got. So a node that gets and then puts begins a
   new run; that is all the order between its operations needs.
2. Each operation on one element has an *order*, one number in all: that of its run's puts, as their
   sub-batches come, then of its run's gets, as they come. Gets that found nothing are last. The
   queue has done just what these operations do one after another.
3. What comes back free, what is gone, and what is put but held back are sets of positions or
   counts: they need no place in the order of the runs. What comes back is there before the batch's
   runs are served.
4. A row is never longer than `RUNS_MAX`: who has more waits for the next batch.
"""

from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import Annotated, Final

import msgspec

from snowmelt.core.interval import Interval, merged
from snowmelt.core.pieces import Edges

RUNS_MAX: Final = 64
PRIORITIES_MAX: Final = 256
INTERVALS_MAX: Final = 1 << 20
"""Of one priority in one message; what a client names is bounded in `asked.py`."""
ROW_MAX: Final = 65_536

Priority = Annotated[int, msgspec.Meta(ge=0, lt=PRIORITIES_MAX)]
Count = Annotated[int, msgspec.Meta(ge=0, le=1 << 40)]
Order = Annotated[int, msgspec.Meta(ge=0, lt=1 << 62)]
"""What is counted on from it is a number of 64 bits still."""
Intervals = Annotated[tuple[Interval, ...], msgspec.Meta(max_length=INTERVALS_MAX)]


class Some(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """So many elements of a priority."""

    priority: Priority
    count: Count


class Share(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Positions of a priority."""

    priority: Priority
    intervals: Intervals

    @property
    def total(self) -> int:
        """How many positions. O(intervals)."""
        if len(self.intervals) == 1:  # as mostly
            return self.intervals[0].stop - self.intervals[0].start
        return sum([one.stop - one.start for one in self.intervals])


Somes = Annotated[tuple[Some, ...], msgspec.Meta(max_length=PRIORITIES_MAX)]
Shares = Annotated[tuple[Share, ...], msgspec.Meta(max_length=PRIORITIES_MAX)]
"""A set: each priority once."""
SharesInOrder = Annotated[tuple[Share, ...], msgspec.Meta(max_length=ROW_MAX)]
"""In the order of their elements: a priority may come again."""


class Run(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What is put, by priority, and then how many are got."""

    puts: Somes = ()
    gets: Count = 0


class Batch(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Operations of one node, or of a part of the tree."""

    runs: Annotated[tuple[Run, ...], msgspec.Meta(max_length=RUNS_MAX)] = ()
    held: Somes = ()
    """Put, but not to be got before its time."""
    back: Shares = ()
    """To be got again."""
    gone: Shares = ()
    """Acknowledged: there no more."""
    void: Shares = ()
    """There never was anything that counts."""
    patient: bool = False
    """Whether a get of it waits for elements when there are none."""
    fresh: bool = False
    """Whether a home has something for those who wait (`seap`, rule 11)."""


class GrantedRun(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The positions of a run. Fewer than asked for: there was no room, or there were no more."""

    order: Order
    """Of its first put."""
    puts: Shares
    got_order: Order
    """Of its first get."""
    gets: Shares
    """In the order in which they are handed out."""


class Grant(msgspec.Struct, frozen=True, array_like=True, gc=False):
    runs: Annotated[tuple[GrantedRun, ...], msgspec.Meta(max_length=RUNS_MAX)] = ()
    held: Shares = ()
    gone: Shares = ()
    """Large intervals of which all is gone now: whoever knows it in small pieces may join them."""
    phase: Order = 0
    """Which phase its gets were served by, whose positions are ranks (`seap`, rule 9)."""


def combined(batches: Sequence[Batch]) -> Batch:
    """All of them as one, run by run.

    >>> one, other = Batch((Run((Some(1, 2),), 1),)), Batch((Run((Some(0, 1), Some(1, 1)), 2),))
    >>> combined([one, other]).runs
    (Run(puts=(Some(priority=0, count=1), Some(priority=1, count=3)), gets=3),)
    """
    if len(batches) == 1:
        return batches[0]
    columns = zip_longest(*[batch.runs for batch in batches], fillvalue=Run())
    return Batch(
        tuple([_run(column) for column in columns]),
        summed([some for batch in batches for some in batch.held]),
        union([share for batch in batches for share in batch.back]),
        union([share for batch in batches for share in batch.gone]),
        union([share for batch in batches for share in batch.void]),
        any(batch.patient for batch in batches),
        any(batch.fresh for batch in batches),
    )


def decomposed(grant: Grant, batches: Sequence[Batch]) -> list[Grant]:
    """The part of each of the batches that were combined.

    >>> one, other = Batch((Run((Some(1, 2),), 1),)), Batch((Run((Some(1, 1),), 1),))
    >>> puts, gets = Share(1, (Interval(5, 8),)), Share(1, (Interval(5, 6),))
    >>> parts = decomposed(Grant((GrantedRun(0, (puts,), 3, (gets,)),)), [one, other])
    >>> [[str(each) for each in part.runs[0].puts[0].intervals] for part in parts]
    [['[5, 7)'], ['[7, 8)']]
    >>> [part.runs[0].got_order for part in parts], parts[1].runs[0].gets
    ([3, 4], ())
    """
    if len(batches) == 1:
        return [grant]
    rows = [RunCut(run) for run in grant.runs]
    held = Cut(grant.held)
    return [
        Grant(
            tuple([rows[at].part(run) for at, run in enumerate(batch.runs)]),
            held.by_priority(batch.held),
            grant.gone,
            grant.phase,
        )
        for batch in batches
    ]


def union(shares: Iterable[Share]) -> Shares:
    """The same positions, each priority once, in order, as the fewest intervals."""
    shares = tuple(shares)
    if len(shares) < 2:  # as mostly
        if not shares:
            return ()
        intervals = shares[0].intervals
        if len(intervals) == 1 and shares[0].total:
            return shares
        if len(intervals) > 1 and Edges.of(intervals) is not None:
            return shares
    by_priority: dict[int, list[Interval]] = {}
    for share in shares:
        by_priority.setdefault(share.priority, []).extend(share.intervals)
    return tuple([Share(one, tuple(merged(by_priority[one]))) for one in sorted(by_priority)])


def _run(column: Iterable[Run]) -> Run:
    runs = list(column)
    return Run(summed([some for run in runs for some in run.puts]), sum([run.gets for run in runs]))


def summed(somes: Iterable[Some]) -> Somes:
    somes = tuple(somes)
    if len(somes) < 2:  # as mostly
        return somes if somes and somes[0].count else ()
    counts: dict[int, int] = {}
    for some in somes:
        counts[some.priority] = counts.get(some.priority, 0) + some.count
    return tuple([Some(one, counts[one]) for one in sorted(counts) if counts[one]])


class Cut:
    """Positions that are handed out from the front, to one after another."""

    def __init__(self, shares: Shares) -> None:
        self._left: dict[int, list[Interval]] = {}
        for share in shares:
            self._left[share.priority] = [*reversed(share.intervals)]

    @property
    def left(self) -> Shares:
        if not self._left:  # as mostly
            return ()
        rows = [(one, tuple(reversed(intervals))) for one, intervals in self._left.items()]
        return tuple([Share(one, intervals) for one, intervals in rows])

    def by_priority(self, somes: Somes) -> Shares:
        """So many of each, or what there is."""
        parts = [Share(some.priority, self.taken(some.priority, some.count)) for some in somes]
        return tuple([part for part in parts if part.intervals])

    def in_order(self, count: int) -> Shares:
        """So many, of whatever priority comes first, or what there is."""
        parts: list[Share] = []
        for priority in list(self._left):
            taken = self.taken(priority, count)
            if taken:
                parts.append(Share(priority, taken))
                count -= parts[-1].total
            if count == 0:
                break
        return tuple(parts)

    def taken(self, priority: int, count: int) -> tuple[Interval, ...]:
        """So many of one priority, or what there is."""
        left, taken = self._left.get(priority, []), []
        while left and count:
            head = left.pop()
            if head.stop - head.start > count:
                head, rest = head.split(count)
                left.append(rest)
            taken.append(head)
            count -= head.stop - head.start
        if not left:
            self._left.pop(priority, None)
        return tuple(taken)


class RunCut:
    """A run that is handed out, to one after another; orders go along (rule 2)."""

    def __init__(self, run: GrantedRun) -> None:
        self.order, self._got_order = run.order, run.got_order
        self.puts, self.gets = Cut(run.puts), Cut(run.gets)

    def part(self, run: Run) -> GrantedRun:
        order, puts = self.order, self.puts.by_priority(run.puts)
        self.order += sum([share.total for share in puts])
        gets, got_order = self.got(run.gets)
        return GrantedRun(order, puts, got_order, gets)

    def got(self, count: int) -> tuple[Shares, int]:
        """What a get of so many has of it, and its order."""
        order, gets = self._got_order, self.gets.in_order(count)
        self._got_order += sum([share.total for share in gets])
        return gets, order
