"""Handing items out: what the master's node keeps goes along, the rest is told where it is."""

from collections.abc import Callable

import msgspec

from snowmelt.core.interval import Interval
from snowmelt.protocols.fifo.calls import Part, Span
from snowmelt.protocols.fifo.desk import Desk
from snowmelt.protocols.fifo.keeper import Keeper
from snowmelt.protocols.fifo.messages import Extent
from snowmelt.protocols.fifo.queue import Queue
from snowmelt.protocols.fifo.reading import Budget, Stretch, parts_of
from snowmelt.protocols.fifo.segments import joined
from snowmelt.protocols.fifo.spans import spans_of

Told = Callable[[tuple[Part, ...], tuple[Span, ...]], None]


class Handing:
    """One answer with items in it, being put together span after span."""

    def __init__(
        self, desk: Desk, keeper: Keeper, queue: Queue, bytes_max: int, told: Told
    ) -> None:
        limits = desk.limits
        self._desk = desk
        self._keeper = keeper
        self._queue = queue
        wanted = min(bytes_max, limits.fetch_bytes)
        self._budget = Budget(wanted, limits.answer_bytes, limits.answer_segments)
        self._untold = limits.spans_bytes
        self._told = told
        self._spans: list[tuple[Span, int, bool]] = []
        """With what each weighs, and whether it is on this disk."""
        self._at = 0
        self._walking = False
        self._asking = False
        self._parts: list[Part] = []
        self._elsewhere: list[Span] = []

    def hand(self, positions: list[Interval]) -> None:
        """Begins; what is on this disk may come later."""
        for part in positions:
            self._add_spans(part)
        self._go_on()

    def _go_on(self) -> None:
        """Span after span; when what is at hand comes at once, this loop goes on, not a new one."""
        if self._walking:
            return
        self._walking = True
        while self._at < len(self._spans) and not self._asking:
            span, weight, own = self._spans[self._at]
            self._at += 1
            if own and self._budget.wanted > 0 and self._budget.segments > 0:
                self._asking = True
                self._budget.each = weight  # at least what a part has besides items
                self._read(span)
            else:
                self._elsewhere.append(span)
        self._walking = False
        if not self._asking:
            self._told(tuple(joined(self._parts)), tuple(self._elsewhere))

    def _read(self, span: Span) -> None:
        extent = Extent(span.stream, span.first, span.first + span.stop - span.start)

        def read(stretch: Stretch) -> None:
            parts = parts_of(stretch, extent, span.start, span.failures, span.reason)
            self._parts += parts
            count = sum([part.count for part in parts])
            if count < span.stop - span.start:
                self._elsewhere.append(_after(span, count))
            self._asking = False
            self._go_on()

        self._keeper.read(self._queue.name, extent, span.start, self._budget, read)

    def _add_spans(self, positions: Interval) -> None:
        """For each span there is room in the answer, should none of it be read here."""
        for span, strip in spans_of(self._queue, self._desk.presence, positions):
            weight = span.weight
            self._untold -= weight
            if self._untold < 0:
                return
            self._budget.room -= weight
            self._spans.append((span, weight, self._desk.keeper in strip.lane.keepers))


def _after(span: Span, count: int) -> Span:
    """What is left of a span behind its first items."""
    return msgspec.structs.replace(span, start=span.start + count, first=span.first + count)
