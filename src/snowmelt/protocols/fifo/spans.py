"""Where positions lie: the spans that a client fetches from keepers."""

from collections.abc import Iterator

from snowmelt.core.interval import Interval
from snowmelt.protocols.fifo.calls import Place, Span
from snowmelt.protocols.fifo.extents import Strip
from snowmelt.protocols.fifo.queue import Queue
from snowmelt.protocols.fifo.streams import Presence, living


def spans_of(
    queue: Queue, presence: Presence | None, positions: Interval
) -> Iterator[tuple[Span, Strip]]:
    """Positions by strip and by failures, with the keepers of each that are here."""
    for run in queue.runs.over(positions):
        for strip in run.strips(positions):
            lane = strip.lane
            places = () if presence is None else _places(lane.keepers, presence)
            away = len(places) < len(lane.keepers) and _may_be_back(lane.keepers, presence)
            for piece, times, reason in _by_failures(queue, Interval(strip.start, strip.stop)):
                first = strip.first + piece.start - strip.start
                where = piece.start, piece.stop, lane.stream, first
                yield Span(*where, places, times, reason, away), strip


def living_spans(
    queue: Queue, presence: Presence | None, positions: list[Interval], bytes_max: int
) -> tuple[list[Span], int]:
    """The spans of what is alive of some positions, and about how many bytes the items have.

    It ends with the span that makes them take more than `bytes_max` to tell.
    """
    spans: list[Span] = []
    size = 0
    for piece in positions:
        for part in queue.alive.common(piece):
            for span, strip in spans_of(queue, presence, part):
                spans.append(span)
                bytes_max -= span.weight
                if bytes_max < 0:
                    return spans, size
                size += strip.size(Interval(span.start, span.stop))
    return spans, size


def _places(keepers: tuple[str, ...], presence: Presence) -> tuple[Place, ...]:
    here = [presence.keepers[keeper] for keeper in keepers if keeper in presence.keepers]
    return tuple([Place(member.id, member.address) for member in here])


def _may_be_back(keepers: tuple[str, ...], presence: Presence | None) -> bool:
    """Whether any of these is away, and not known to be gone for ever."""
    if presence is None:
        return True
    away = tuple([one for one in keepers if one not in presence.keepers])
    return living(away, presence) > 0


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
