"""From spans to Spark's partitions: what one task reads, of one queue or of several.

1. Where a person says how many tasks there are to be at least, there are as many, however small.
2. Where it is known how many tasks are run at once, there are as many, as far as each has work that
   is worth a task: `WORTH_ROWS`, or less where they are large. A task costs processors some 40 ms.
3. A task reads `ROWS` items or `BYTES` at most; as long as nobody knows how many are run at once, a
   quarter of that, so that more cores than two or three have something to do.
4. What is less than a task's share is read together with others, also of other queues.
"""

from collections.abc import AsyncIterator, Iterable, Iterator
from typing import Any, Final

import msgspec

from snowmelt.client.fifo.face import Fifo
from snowmelt.client.queue.face_async import Queue
from snowmelt.client.queue.group_steps import Mark
from snowmelt.core.interval import Interval
from snowmelt.protocols.queue.api.calls import Located, Span

ROWS: Final = 262_144
BYTES: Final = 64 << 20
BLIND_ROWS: Final = ROWS // 4
BLIND_BYTES: Final = BYTES // 4
WORTH_ROWS: Final = 1000
WORTH_BYTES: Final = 256 << 10
LOCATED_AT_ONCE: Final = 262_144
"""So many items are located by one call; of a queue put into one by one each item is a span."""


class GroupSpan(msgspec.Struct, frozen=True):
    """Which items of a group these are: by this they are located again."""

    group: str
    after: Mark
    until: Mark


class TaskItems(msgspec.Struct, frozen=True):
    """What one task reads of one queue."""

    queue: str
    spans: tuple[Span, ...]
    row_bytes: int
    """About how large an item is."""
    claim: GroupSpan | None = None
    """None for items that are only looked at."""

    @property
    def rows(self) -> int:
        return sum(span.stop - span.start for span in self.spans)

    @property
    def bytes(self) -> int:
        """About how large they all are."""
        return self.rows * self.row_bytes


class LocatedItems(msgspec.Struct, frozen=True):
    """Items of one queue as they were located."""

    queue: str
    located: Located
    claim: GroupSpan | None = None

    @property
    def rows(self) -> int:
        return sum(span.stop - span.start for span in self.located.spans)


async def claimed(
    queue: Queue[Any], group: str, start: Mark, end: Mark, timeout: float
) -> AsyncIterator[LocatedItems]:
    """Where a group's items between two marks lie, some of them at a time."""
    for after in range(start.count, end.count, LOCATED_AT_ONCE):
        until = min(after + LOCATED_AT_ONCE, end.count)
        claim = GroupSpan(group, Mark(end.lease, after), Mark(end.lease, until))
        located = await queue.group(group).locate(claim.after, claim.until, timeout=timeout)
        yield LocatedItems(queue.name, located, claim)


def waiting(queue: Fifo, timeout: float) -> Iterator[LocatedItems]:
    """Where all items lie that wait now; those put meanwhile are left out."""
    start, tail = 0, queue.stats(timeout=timeout).tail
    while start < tail:
        located = queue.survey(start, items_max=LOCATED_AT_ONCE, timeout=timeout)
        if not located.spans:
            return
        start = located.spans[-1].stop
        spans = within(located.spans, (Interval(0, tail),))
        yield LocatedItems(queue.name, msgspec.structs.replace(located, spans=spans))


class Tasks(msgspec.Struct, frozen=True):
    """Into how many tasks something is cut; 0 for what is not said."""

    least: int = 0
    cores: int = 0
    """How many tasks are run at once."""

    def share(self, rows: int, row_bytes: int) -> int:
        """How many of so many rows, each about so large, one task reads at most.

        >>> Tasks().share(50_000, 100), Tasks(cores=8).share(50_000, 100), Tasks(3).share(10, 100)
        (50000, 6250, 4)
        >>> Tasks(cores=8).share(3_000, 100), Tasks(cores=8).share(16, 200 << 10)
        (1000, 2)
        >>> Tasks().share(500_000, 100), Tasks(cores=2).share(500_000, 100)
        (65536, 250000)
        """
        share = rows
        if self.least:
            share = -(-rows // self.least)
        elif self.cores:
            share = max(-(-rows // self.cores), min(WORTH_ROWS, WORTH_BYTES // row_bytes))
        most = (ROWS, BYTES) if self.cores else (BLIND_ROWS, BLIND_BYTES)
        return max(1, min(share, most[0], most[1] // row_bytes))


def tasks(found: Iterable[LocatedItems], wanted: Tasks) -> list[tuple[TaskItems, ...]]:
    """What each task reads: portions of one queue or of several.

    >>> some = LocatedItems("raw", Located((Span(0, 70, "s", 0, ()),), 0, 7000))
    >>> [[one.rows for one in task] for task in tasks([some], Tasks(2))]
    [[35], [35]]
    >>> three = [msgspec.structs.replace(some, queue=name) for name in "abc"]
    >>> [[one.rows for one in task] for task in tasks(three, Tasks(2))]
    [[70, 35], [35, 70]]
    >>> few = [LocatedItems(name, Located((Span(0, 3, "s", 0, ()),), 0, 300)) for name in "abc"]
    >>> [[one.queue for one in task] for task in tasks(few, Tasks())]
    [['a', 'b', 'c']]
    """
    found = [one for one in found if one.rows]
    total = sum(one.rows for one in found)
    if not total:
        return []
    share = wanted.share(total, max(1, sum(one.located.bytes for one in found) // total))
    made: list[tuple[TaskItems, ...]] = []
    run: list[TaskItems] = []
    rows = size = 0
    for one in found:
        for portion in _portions(one, share, share - rows, BYTES - size):
            if run and (rows + portion.rows > share or size + portion.bytes > BYTES):
                made.append(tuple(run))
                run, rows, size = [], 0, 0
            run.append(portion)
            rows, size = rows + portion.rows, size + portion.bytes
    return [*made, tuple(run)]


def _portions(one: LocatedItems, share: int, rows: int, size: int) -> Iterator[TaskItems]:
    """What is found in one queue: first what a begun task has room for, then a share at a time."""
    row_bytes = max(1, one.located.bytes // one.rows)
    first = min(rows, size // row_bytes)
    for spans in cut(one.located.spans, max(1, min(share, BYTES // row_bytes)), first):
        yield TaskItems(one.queue, spans, row_bytes, one.claim)


def cut(
    spans: Iterable[Span], rows: int, first: int = 0, *, whole: bool = False
) -> Iterator[tuple[Span, ...]]:
    """The same positions in their order, so many at a time; `first` of them before, if any.

    With `whole`, no span is cut that has not too many of its own: what was put at once is then
    read by one call, and handed out as it is stored.

    >>> spans = [Span(0, 3, "s", 0, ()), Span(9, 12, "t", 40, ())]
    >>> [[(one.start, one.stop, one.first) for one in some] for some in cut(spans, 4)]
    [[(0, 3, 0), (9, 10, 40)], [(10, 12, 41)]]
    >>> [sum(one.stop - one.start for one in some) for some in cut(spans, 4, first=1)]
    [1, 4, 1]
    >>> [[(one.start, one.stop) for one in some] for some in cut(spans, 4, whole=True)]
    [[(0, 3)], [(9, 12)]]
    """
    run: list[Span] = []
    room = first if first > 0 else rows
    for span in spans:
        start = span.start
        if run and whole and room < span.stop - start <= rows:
            yield tuple(run)
            run, room = [], rows
        while start < span.stop:
            stop = min(span.stop, start + room)
            run.append(span.part(start, stop))
            room -= stop - start
            start = stop
            if room == 0:
                yield tuple(run)
                run, room = [], rows
    if run:
        yield tuple(run)


def within(spans: Iterable[Span], where: Iterable[Interval]) -> tuple[Span, ...]:
    """What of some spans lies in some intervals.

    >>> [one.start for one in within([Span(0, 9, "s", 0, ())], [Interval(2, 3), Interval(7, 20)])]
    [2, 7]
    """
    intervals = list(where)
    return tuple(
        span.part(max(span.start, one.start), min(span.stop, one.stop))
        for span in spans
        for one in intervals
        if max(span.start, one.start) < min(span.stop, one.stop)
    )
