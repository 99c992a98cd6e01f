"""How one phase shares out what is ready in all partitions: in order, to gets in theirs.

It is rule 8 of the package: nothing is kept here, and nothing waits.
"""

from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Final

import msgspec

from snowmelt.core.keys import unpacked
from snowmelt.core.names import OperationId
from snowmelt.protocols.queue.api.phase_stamp import NEVER, PhaseStamp
from snowmelt.protocols.queue.messages.partition_words import PartedGet, PartitionReport
from snowmelt.protocols.queue.state.tails import PRIORITY_BITS

Rank = tuple[int, int]
"""A key, or 0, and a position: smaller is earlier."""
FIRST: Final[Rank] = (-(1 << 63), 0)
LAST: Final[Rank] = (1 << 63, 1 << 63)


class PartitionRun(msgspec.Struct, gc=False):
    """Items of one partition that stand next to each other."""

    rank: Rank
    stop: int
    each: int
    """How many bytes an item has, about."""
    part: int


class Shared(msgspec.Struct):
    """What became of the gets of a phase."""

    given: dict[OperationId, dict[int, list[int]]] = {}
    """By partitions, edges of runs: none where it has a lease already."""
    again: dict[OperationId, PhaseStamp] = {}
    """Those of them that were given something before, and what the last such phase saw."""
    nothing: list[OperationId] = []
    """For these, which do not wait, there is nothing."""
    over: list[OperationId] = []
    """These had something, and are done with it."""
    short: bool = False
    """Whether others have nothing yet."""
    ended: bool = False
    """Whether there is nothing more, in any partition: else it is not certain what is next."""


class LeasedParts(msgspec.Struct):
    """What a get has leases of."""

    seen: PhaseStamp = NEVER
    """By the last phase that gave it some."""
    parts: list[int] = []
    count: int = 0
    last: Rank = FIRST


class PhaseShares:
    """How the anchor deals the ready items of one phase to its gets."""

    def __init__(self, reports: Mapping[int, PartitionReport]) -> None:
        self._runs: list[PartitionRun] = []
        self._certain = LAST
        """Behind this another one may come first that was not told."""
        for part, report in reports.items():
            runs = list(_runs(part, report))
            self._runs += runs
            if report.more:
                last = (runs[-1].rank[0], runs[-1].stop - 1) if runs else FIRST
                self._certain = min(self._certain, last)
        self._runs.sort(key=attrgetter("rank"))
        self._at = 0

    def take(self, items: int, size: int, before: Rank = LAST) -> dict[int, list[int]]:
        """The first so many, in so many bytes, and one in any case."""
        given: dict[int, list[int]] = {}
        runs = self._runs
        while items > 0 and self._at < len(runs):
            run = runs[self._at]
            if run.rank > self._certain or run.rank >= before:
                break
            start = run.rank[1]
            count = min(run.stop - start, items)
            if count * run.each > size:
                count = max(size // run.each, 0 if given else 1)
            if run.rank[0] == before[0]:
                count = min(count, before[1] - start)
            if count <= 0:
                break
            _add(given, run.part, start, start + count)
            items -= count
            size -= count * run.each
            if start + count == run.stop:
                self._at += 1
            else:
                run.rank = run.rank[0], start + count
        return given

    def fill(self, items: int, held: LeasedParts) -> dict[int, list[int]]:
        """What comes before the last that a get holds, in partitions that had a part in that phase.

        An earlier anchor gave it this, and the partition never heard of it.
        """
        given: dict[int, list[int]] = {}
        kept: list[PartitionRun] = []
        others = (*held.parts, *held.seen.away)
        for run in self._runs[self._at :]:
            start = run.rank[1]
            fits = run.part not in others and run.rank < held.last and run.rank <= self._certain
            left = held.seen.upto - start % (1 << PRIORITY_BITS)  # what came later was not given
            count = min(run.stop - start, items, left) if fits else 0
            if count > 0:
                _add(given, run.part, start, start + count)
                items -= count
                run.rank = run.rank[0], start + count
            if run.rank[1] < run.stop:
                kept.append(run)
        self._runs, self._at = kept, 0
        return given

    @property
    def ended(self) -> bool:
        """Whether nothing is left, and nothing was kept back."""
        return self._at == len(self._runs) and self._certain == LAST


def share_out(
    wants: Iterable[PartedGet],
    apart: Mapping[OperationId, PartedGet],
    asked: Sequence[OperationId],
    reports: Mapping[int, PartitionReport],
    most: int,
) -> Shared:
    """What each get has. No more of `wants` are looked at than have something, and one.

    `apart` are those of them that may be answered though nothing is left: in their order. `asked`
    are those of which partitions said whether they hold something.
    """
    sharing, shared = PhaseShares(reports), Shared()
    held = _held(asked, reports)
    alive = {place: (key, place) for one in reports.values() for place, key in one.live}
    rest = dict(apart)
    for want in wants:
        rest.pop(want.operation, None)
        if not _serve(want, sharing, shared, held, alive, most):
            shared.short = True
            break
    for want in rest.values():
        shared.short |= not _serve(want, sharing, shared, held, alive, most)
    shared.ended = sharing.ended
    return shared


def _serve(
    want: PartedGet,
    sharing: PhaseShares,
    shared: Shared,
    held: Mapping[OperationId, LeasedParts],
    alive: Mapping[int, Rank],
    most: int,
) -> bool:
    """Whether the get is answered."""
    operation = want.operation
    holds = held.get(operation)
    if holds is not None and not holds.parts:
        shared.over.append(operation)
        return True
    if holds is not None:
        given: dict[int, list[int]] = {part: [] for part in holds.parts}
        if want.items_max > holds.count:
            given |= sharing.fill(want.items_max - holds.count, holds)
        shared.given[operation], shared.again[operation] = given, holds.seen
        return True
    before = LAST if want.before < 0 else alive.get(want.before, FIRST)
    given = sharing.take(want.items_max, min(want.bytes_max, most), before)
    if given:
        shared.given[operation] = given
    elif want.before >= 0:
        shared.nothing.append(operation)
    else:
        return False
    return True


def _held(
    asked: Sequence[OperationId], reports: Mapping[int, PartitionReport]
) -> dict[OperationId, LeasedParts]:
    some = [(part, one) for part, report in reports.items() for one in report.holds]
    found: dict[OperationId, LeasedParts] = {}
    for part, one in sorted(some, key=lambda pair: pair[1].seen, reverse=True):
        if one.at >= len(asked):
            continue
        held = found.setdefault(asked[one.at], LeasedParts(one.seen))
        if one.count and part not in held.seen.away:  # else it was answered without that
            held.parts.append(part)
            held.count += one.count
            held.last = max(held.last, one.rank)
    return found


def _runs(part: int, report: PartitionReport) -> list[PartitionRun]:
    flat = report.runs
    keys = unpacked(report.keys) if report.keys else [0] * (len(flat) // 3)
    return [
        PartitionRun((key, start), stop, each or 1, part)
        for key, start, stop, each in zip(keys, flat[::3], flat[1::3], flat[2::3], strict=True)
        if start < stop
    ]


def _add(given: dict[int, list[int]], part: int, start: int, stop: int) -> None:
    edges = given.setdefault(part, [])
    if edges and edges[-1] == start:
        edges[-1] = stop
    else:
        edges += (start, stop)
