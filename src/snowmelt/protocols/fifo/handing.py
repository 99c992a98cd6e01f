"""Handing items out: what the master's node keeps goes along, the rest is told where it is."""

from collections.abc import Callable

from snowmelt.core.interval import Interval
from snowmelt.protocols.fifo.calls import Part, Place, Span
from snowmelt.protocols.fifo.desk import Desk
from snowmelt.protocols.fifo.keeper import FETCH_BYTES_MAX, Keeper
from snowmelt.protocols.fifo.messages import Extent
from snowmelt.protocols.fifo.queue import Queue
from snowmelt.protocols.fifo.reading import Stretch, parts_of
from snowmelt.protocols.fifo.segments import joined
from snowmelt.protocols.fifo.streams import Presence

Told = Callable[[tuple[Part, ...], tuple[Span, ...]], None]


class Handing:
    """One answer with items in it, being put together span after span."""

    def __init__(
        self, desk: Desk, keeper: Keeper, queue: Queue, bytes_max: int, told: Told
    ) -> None:
        self._desk = desk
        self._keeper = keeper
        self._queue = queue
        self._left = min(bytes_max, FETCH_BYTES_MAX)
        self._told = told
        self._spans: list[Span] = []
        self._own: list[bool] = []
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
            span, own = self._spans[self._at], self._own[self._at]
            self._at += 1
            if own and self._left > 0:
                self._asking = True
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
            self._left -= sum(len(part.blob) for part in parts)
            count = sum(part.count for part in parts)
            if count < span.stop - span.start:
                self._elsewhere.append(_after(span, count))
            self._asking = False
            self._go_on()

        self._keeper.read(self._queue.name, extent, self._left, read)

    def _add_spans(self, positions: Interval) -> None:
        """Positions by run and by failures."""
        presence = self._desk.presence
        for run in self._queue.runs.over(positions):
            start, stop = max(run.start, positions.start), min(run.stop, positions.stop)
            places = () if presence is None else _places(run.keepers, presence)
            for piece, times, reason in _by_failures(self._queue, Interval(start, stop)):
                index = run.index(piece.start)
                self._spans.append(
                    Span(piece.start, piece.stop, run.stream, index, places, times, reason)
                )
                self._own.append(self._desk.keeper in run.keepers)


def _places(keepers: tuple[str, ...], presence: Presence) -> tuple[Place, ...]:
    here = [presence.keepers[keeper] for keeper in keepers if keeper in presence.keepers]
    return tuple(Place(member.id, member.address) for member in here)


def _after(span: Span, count: int) -> Span:
    """What is left of a span behind its first items."""
    return Span(
        span.start + count,
        span.stop,
        span.stream,
        span.first + count,
        span.keepers,
        span.failures,
        span.reason,
    )


def _by_failures(queue: Queue, positions: Interval) -> list[tuple[Interval, int, str]]:
    pieces: list[tuple[Interval, int, str]] = []
    start = positions.start
    for where, failure in queue.failures.common(positions):
        if start < where.start:
            pieces.append((Interval(start, where.start), 0, ""))
        pieces.append((where, failure.times, failure.reason))
        start = where.stop
    if start < positions.stop:
        pieces.append((Interval(start, positions.stop), 0, ""))
    return pieces
