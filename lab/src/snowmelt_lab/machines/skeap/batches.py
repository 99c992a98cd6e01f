"""Batches of operations on their way up the tree, and their positions on the way down.

A node's operations, in the order in which it was asked for them, are a row of *runs*: first what is
put, by priority, then how many are got. Batches are combined run by run, so however many operations
there are, what reaches the anchor is as long as the longest row of one node. What comes back is the
same row with positions in it, and is cut for those whose batches were combined, in their order.

1. Within a run, what is put comes before what is got. So a node that gets and then puts begins a
   new run; that is all the order between its operations needs.
2. Each operation on one element has an *order*, one number in all: that of its run's puts, as their
   sub-batches come, then of its run's gets, as they come. Gets that found nothing are last. The
   queue has done just what these operations do one after another.
3. A row is never longer than `RUNS_MAX`: who has more waits for the next batch.
"""

from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import Annotated, Final

import msgspec

from snowmelt.core.interval import Interval

RUNS_MAX: Final = 64
PRIORITIES_MAX: Final = 256

Priority = Annotated[int, msgspec.Meta(ge=0, lt=PRIORITIES_MAX)]
Count = Annotated[int, msgspec.Meta(ge=0, le=1 << 40)]
Order = Annotated[int, msgspec.Meta(ge=0, lt=1 << 62)]


class Some(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """So many elements of a priority."""

    priority: Priority
    count: Count


class Share(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Positions of a priority."""

    priority: Priority
    positions: Interval


Somes = Annotated[tuple[Some, ...], msgspec.Meta(max_length=PRIORITIES_MAX)]
Shares = Annotated[tuple[Share, ...], msgspec.Meta(max_length=PRIORITIES_MAX)]
"""Each priority once."""


class Run(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What is put, by priority, and then how many are got."""

    puts: Somes = ()
    gets: Count = 0


class Batch(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Operations of one node, or of a part of the tree."""

    runs: Annotated[tuple[Run, ...], msgspec.Meta(max_length=RUNS_MAX)] = ()


class GrantedRun(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The positions of a run: fewer than it wanted to get, where there were no more."""

    order: Order
    """Of its first put."""
    puts: Shares
    got_order: Order
    """Of its first get."""
    gets: Shares
    """The most urgent first."""


class Grant(msgspec.Struct, frozen=True, array_like=True, gc=False):
    runs: Annotated[tuple[GrantedRun, ...], msgspec.Meta(max_length=RUNS_MAX)] = ()


def combined(batches: Sequence[Batch]) -> Batch:
    """All of them as one, run by run.

    >>> one, other = Batch((Run((Some(1, 2),), 1),)), Batch((Run((Some(0, 1), Some(1, 1)), 2),))
    >>> combined([one, other]).runs
    (Run(puts=(Some(priority=0, count=1), Some(priority=1, count=3)), gets=3),)
    """
    columns = zip_longest(*[batch.runs for batch in batches], fillvalue=Run())
    return Batch(tuple([_run(column) for column in columns]))


def decomposed(grant: Grant, batches: Sequence[Batch]) -> list[Grant]:
    """The part of each of the batches that were combined.

    >>> one, other = Batch((Run((Some(1, 2),), 1),)), Batch((Run((Some(1, 1),), 1),))
    >>> puts, gets = Share(1, Interval(5, 8)), Share(1, Interval(5, 6))
    >>> parts = decomposed(Grant((GrantedRun(0, (puts,), 3, (gets,)),)), [one, other])
    >>> [str(part.runs[0].puts[0].positions) for part in parts]
    ['[5, 7)', '[7, 8)']
    >>> [part.runs[0].got_order for part in parts], parts[1].runs[0].gets
    ([3, 4], ())
    """
    cuts = [_Cut(run) for run in grant.runs]
    return [
        Grant(tuple([cuts[at].part(run) for at, run in enumerate(one.runs)])) for one in batches
    ]


def size(shares: Shares) -> int:
    """How many positions."""
    return sum([share.positions.size for share in shares])


def _run(column: Iterable[Run]) -> Run:
    counts: dict[int, int] = {}
    gets = 0
    for run in column:
        gets += run.gets
        for some in run.puts:
            counts[some.priority] = counts.get(some.priority, 0) + some.count
    return Run(tuple([Some(one, counts[one]) for one in sorted(counts)]), gets)


class _Cut:
    """A run that is handed out from the front, to one after another; orders go along (rule 2)."""

    def __init__(self, run: GrantedRun) -> None:
        self._order, self._got_order = run.order, run.got_order
        self._puts = {share.priority: share.positions for share in run.puts}
        self._gets = {share.priority: share.positions for share in run.gets}

    def part(self, run: Run) -> GrantedRun:
        puts = tuple([_taken(self._puts, some.priority, some.count) for some in run.puts])
        gets = self._got(run.gets)
        part = GrantedRun(self._order, puts, self._got_order, gets)
        self._order += size(puts)
        self._got_order += size(gets)
        return part

    def _got(self, count: int) -> Shares:
        """So many, of whatever priority comes first, or what there is."""
        parts: list[Share] = []
        for priority in list(self._gets):
            if count == 0:
                break
            parts.append(_taken(self._gets, priority, count))
            count -= parts[-1].positions.size
        return tuple(parts)


def _taken(left: dict[int, Interval], priority: int, count: int) -> Share:
    """So many of one priority, or what there is."""
    taken, rest = left[priority].split(count)
    if rest.size:
        left[priority] = rest
    else:
        del left[priority]
    return Share(priority, taken)
