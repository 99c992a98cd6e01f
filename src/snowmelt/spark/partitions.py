"""From spans to Spark's partitions: a run of positions each, small enough for one task."""

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from snowmelt.client.fifo import Fifo
from snowmelt.client.group_steps import Mark
from snowmelt.core.interval import Interval
from snowmelt.protocols.fifo.calls import Located, Span

ROWS: Final = 65_536
BYTES: Final = 16 << 20
LOCATED_AT_ONCE: Final = 262_144
"""So many items are located by one call; of a queue put into one by one each item is a span."""


class Claim(msgspec.Struct, frozen=True):
    """Which items of a group these are: by this they are located again."""

    group: str
    after: Mark
    until: Mark


class Portion(msgspec.Struct, frozen=True):
    """What one task reads of one queue."""

    queue: str
    spans: tuple[Span, ...]
    row_bytes: int
    """About how large an item is."""
    claim: Claim | None = None
    """None for items that are only looked at."""


class Found(msgspec.Struct, frozen=True):
    """Items of one queue as they were located."""

    queue: str
    located: Located
    claim: Claim | None = None

    @property
    def rows(self) -> int:
        """How many there are to be read."""
        return sum(span.stop - span.start for span in self.located.spans)


def claimed(queue: Fifo, group: str, start: Mark, end: Mark, timeout: float) -> Iterator[Found]:
    """Where a group's items between two marks lie, some of them at a time."""
    for after in range(start.count, end.count, LOCATED_AT_ONCE):
        until = min(after + LOCATED_AT_ONCE, end.count)
        claim = Claim(group, Mark(end.lease, after), Mark(end.lease, until))
        located = queue.group(group).locate(claim.after, claim.until, timeout=timeout)
        yield Found(queue.name, located, claim)


def waiting(queue: Fifo, timeout: float) -> Iterator[Found]:
    """Where all items lie that wait now; those put meanwhile are left out."""
    start, tail = 0, queue.stats(timeout=timeout).tail
    while start < tail:
        located = queue.survey(start, items_max=LOCATED_AT_ONCE, timeout=timeout)
        if not located.spans:
            return
        start = located.spans[-1].stop
        spans = within(located.spans, (Interval(0, tail),))
        yield Found(queue.name, msgspec.structs.replace(located, spans=spans))


def portions(found: Iterable[Found], partitions_min: int) -> list[Portion]:
    """What each task reads: runs of `ROWS` items or `BYTES`, or less if more tasks are wanted.

    >>> some = Found("raw", Located((Span(0, 70, "s", 0, ()),), 0, 7000))
    >>> [(one.spans[0].start, one.spans[0].stop) for one in portions([some], 2)]
    [(0, 35), (35, 70)]
    """
    found = list(found)
    total = sum(one.rows for one in found)
    share = -(-total // partitions_min) if partitions_min else ROWS
    made: list[Portion] = []
    for one in found:
        if not one.rows:
            continue
        row_bytes = max(1, one.located.bytes // one.rows)
        rows = max(1, min(ROWS, share, BYTES // row_bytes))
        made += [
            Portion(one.queue, spans, row_bytes, one.claim)
            for spans in cut(one.located.spans, rows)
        ]
    return made


def cut(spans: Iterable[Span], rows: int) -> Iterator[tuple[Span, ...]]:
    """The same positions in their order, so many at a time.

    >>> spans = [Span(0, 3, "s", 0, ()), Span(9, 12, "t", 40, ())]
    >>> [[(one.start, one.stop, one.first) for one in some] for some in cut(spans, 4)]
    [[(0, 3, 0), (9, 10, 40)], [(10, 12, 41)]]
    """
    run: list[Span] = []
    room = rows
    for span in spans:
        start = span.start
        while start < span.stop:
            stop = min(span.stop, start + room)
            run.append(_part(span, start, stop))
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
        _part(span, max(span.start, one.start), min(span.stop, one.stop))
        for span in spans
        for one in intervals
        if max(span.start, one.start) < min(span.stop, one.stop)
    )


def _part(span: Span, start: int, stop: int) -> Span:
    if start == span.start and stop == span.stop:
        return span
    first = span.first + start - span.start
    return msgspec.structs.replace(span, start=start, stop=stop, first=first)
