"""What a task does with its portions: reads them piece by piece, ahead of what Spark takes.

Reading changes nothing in the queue, so a task may be run twice, or at two places at once.

While a task waits for its first piece, its Java waits too, and so does every other: all tasks of a
batch begin at once, and a node serves them in turn. So the first piece is small, the others are of
some megabytes, and two are always on their way: one is being read while the other is awaited.
Each span of a piece is a call of its own, so none is cut that fits into a piece. Pieces that are
small, as those of many queues are, are read at once.
"""

import logging
import time
from collections import deque
from collections.abc import Awaitable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final, NamedTuple, TypeAlias

import pyarrow as pa

from snowmelt.client.cluster_async import Cluster
from snowmelt.client.leases.delivered import runs
from snowmelt.client.queue.group_steps import GroupBodies
from snowmelt.core.errors import DataLost, SnowmeltError, StateError, Unavailable
from snowmelt.core.interval import Interval, without
from snowmelt.protocols.queue.api.calls import ItemRun, Span
from snowmelt.protocols.queue.api.partition_names import whole_of
from snowmelt.spark.connections import cluster_at
from snowmelt.spark.options import SourceOptions
from snowmelt.spark.partitions import TaskItems, cut, within
from snowmelt.spark.rows import Rows, joined_rows
from snowmelt.spark.several import asked, queue_of, queues_of

PIECE_ROWS: Final = 32_768
PIECE_BYTES: Final = 4 << 20
FIRST_SHARE: Final = 4
"""The first piece of a task is such a part of the others."""
AHEAD: Final = 2
_FIRST_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 2.0
_NAMED_AT_MOST: Final = 5
_LOG: Final = logging.getLogger(__name__)


def rows_of(
    portions: Sequence[TaskItems], options: SourceOptions, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """The rows of portions, one after the other, each in the order of its queue."""
    makers = {portion.queue: Rows(whole_of(portion.queue), schema) for portion in portions}
    for pieces in _ahead(_together(_pieces(portions)), options):
        made = [batch for piece, parts in pieces for batch in makers[piece.queue].of(parts)]
        if len(pieces) == 1:
            yield from made
        elif made:  # a batch costs Spark much more than a copy
            yield joined_rows(made)


class _Piece(NamedTuple):
    """So many items as are read by one call."""

    portion: TaskItems
    spans: tuple[Span, ...]

    @property
    def queue(self) -> str:
        return self.portion.queue

    @property
    def rows(self) -> int:
        return sum(span.stop - span.start for span in self.spans)

    @property
    def bytes(self) -> int:
        return self.rows * self.portion.row_bytes


def _pieces(portions: Iterable[TaskItems]) -> Iterator[_Piece]:
    for number, portion in enumerate(portions):
        most = max(1, min(PIECE_ROWS, PIECE_BYTES // portion.row_bytes))
        first = 0 if number else most // FIRST_SHARE
        for spans in cut(portion.spans, most, first, whole=True):
            yield _Piece(portion, spans)


def _together(pieces: Iterable[_Piece]) -> Iterator[list[_Piece]]:
    """Small pieces, which are read at once: a task of a thousand queues has a thousand of them."""
    run: list[_Piece] = []
    rows = size = 0
    for piece in pieces:
        if run and (size + piece.bytes > PIECE_BYTES or rows + piece.rows > PIECE_ROWS):
            yield run
            run, rows, size = [], 0, 0
        run.append(piece)
        rows, size = rows + piece.rows, size + piece.bytes
    if run:
        yield run


Read: TypeAlias = list[tuple[_Piece, list[ItemRun]]]


def _ahead(groups: Iterable[list[_Piece]], options: SourceOptions) -> Iterator[Read]:
    """Reads the next pieces while Spark is busy with those before."""
    with ThreadPoolExecutor(AHEAD) as threads:
        coming: deque[Future[Read]] = deque()
        for pieces in groups:
            coming.append(threads.submit(_read, pieces, options))
            if len(coming) > AHEAD:
                yield coming.popleft().result()
        for read in coming:
            yield read.result()


def _read(pieces: list[_Piece], options: SourceOptions) -> Read:
    def read_one(cluster: Cluster, piece: _Piece) -> Awaitable[GroupBodies]:
        return queue_of(cluster, piece.queue, options.kind).read(piece.spans, bytes_max=PIECE_BYTES)

    readings = asked(options.connection, pieces, read_one)
    return [
        (piece, _whole(piece, reading, options))
        for piece, reading in zip(pieces, readings, strict=True)
    ]


def _whole(piece: _Piece, reading: GroupBodies, options: SourceOptions) -> list[ItemRun]:
    if not reading.unread:
        return list(reading.parts)
    return _Seeker(piece.portion, options).whole(reading)


def report_loss(text: str, options: SourceOptions) -> None:
    """Ends the query with this text, or with `failOnDataLoss` false only logs it."""
    if options.fail_on_loss:
        raise DataLost(f"{text}. To go on without them: option failOnDataLoss=false")
    _LOG.warning("%s; going on without them", text)


class _Seeker:
    """Makes a reading whole: what no node gives now is sought again until the time is over.

    Only what the leader says is gone is gone. What nobody gives in the time is with nodes that
    are away, and is not passed over, whatever the options say of loss.
    """

    def __init__(self, portion: TaskItems, options: SourceOptions) -> None:
        cluster = cluster_at(options.connection)
        self._queue = queues_of(cluster, options.kind)(portion.queue)
        self._portion = portion
        self._options = options

    def whole(self, reading: GroupBodies) -> list[ItemRun]:
        """The items that were to be read, in order."""
        parts, missing = list(reading.parts), runs(reading.unread)
        end = time.monotonic() + self._options.connection.timeout
        pause = _FIRST_PAUSE
        gone: list[Interval] = []
        while missing and time.monotonic() < end:
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
            found = self._located_again(missing)
            if found is None:
                continue
            gone += without(missing, [Interval(one.start, one.stop) for one in found])
            reading = self._queue.read(found, bytes_max=PIECE_BYTES)
            parts += reading.parts
            missing = runs(reading.unread)
        if missing:
            raise Unavailable(f"{self._named(missing)}: {self._silent()}")
        if gone:
            self._report(runs(gone))
        return sorted(parts, key=self._turn)

    def _turn(self, part: ItemRun) -> tuple[int, int]:
        """By keys an item may come before one that stands before it."""
        spans = enumerate(self._portion.spans)
        at = next((at for at, one in spans if one.start <= part.start < one.stop), 0)
        return at, part.start

    def _located_again(self, missing: tuple[Interval, ...]) -> tuple[Span, ...] | None:
        """Where these lie by now: nodes come and go; None when no node knows at the moment."""
        claim = self._portion.claim
        try:
            if claim is None:
                count = missing[-1].stop - missing[0].start
                located = self._queue.survey(missing[0].start, items_max=count)
            else:
                located = self._queue.group(claim.group).locate(claim.after, claim.until)
        except StateError:
            return None
        except SnowmeltError as error:
            if error.definite:
                raise
            return None
        return within(located.spans, missing)

    def _report(self, lost: tuple[Interval, ...]) -> None:
        why = "lost with all copies"
        if self._portion.claim is None:
            why += ", or others took them before this snapshot came to read them"
        report_loss(f"{self._named(lost)}: {why}", self._options)

    def _silent(self) -> str:
        return (
            f"no node gave them within {self._options.connection.timeout:g} s (option timeout); "
            "they are not lost, the nodes that keep them are away: start again when these run "
            "(`snowmelt status`)"
        )

    def _named(self, some: tuple[Interval, ...]) -> str:
        count = sum(interval.size for interval in some)
        named = ", ".join(f"{one.start} to {one.stop - 1}" for one in some[:_NAMED_AT_MOST])
        more = ", ..." if len(some) > _NAMED_AT_MOST else ""
        return f"{count} items of queue {self._queue.name!r}, positions {named}{more}"
