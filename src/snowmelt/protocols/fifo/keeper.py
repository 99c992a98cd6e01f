"""A keeper of bodies: stores segments, hands them out, sends them to other keepers, drops them.

It knows nothing of leases or orders; it keeps what it is told until it is told to drop it. Rules:

1. `Copied` is said after the flush. What is stored twice under one key is the same, so a doubled
   `Copy` does no harm.
2. What can't be read, or isn't there, is never served, and told to the queue's master as `Broken`,
   who knows whether it should be there. Whoever asked is told which of the two it is; but not by a
   node that was asked since the keeper was silent (`calling.py`, rule 2), and is none itself.
3. `Keep` names all that a node is to keep of streams that have ended; what else it has of them was
   never admitted, or was settled while it was away, and is erased. Of streams that have not ended
   it erases only below what was admitted: what comes after may be on its way to being admitted.
   And of streams from which a segment came since this node began it erases nothing: the master
   may not have known of that when it spoke.
"""

from collections.abc import Callable
from functools import partial
from typing import Final

from snowmelt.core.instant import Duration, milliseconds
from snowmelt.core.interval import Interval, IntervalSet
from snowmelt.core.names import NodeId, OperationId
from snowmelt.core.record import Change, Erase, Write
from snowmelt.protocols.fifo import messages
from snowmelt.protocols.fifo.calls import Fetch, Fetched
from snowmelt.protocols.fifo.desk import Desk, Refused, Then
from snowmelt.protocols.fifo.reading import Budget, Reading, Stretch, parts_of
from snowmelt.protocols.fifo.segments import (
    INDEX_MAX,
    Recent,
    Segment,
    erased,
    key,
    node_range,
    stored,
    unstored,
)
from snowmelt.protocols.fifo.streams import node_of

DROP_LINGER: Final = milliseconds(100)


class Keeper:
    """The bodies on one node's disk."""

    def __init__(self, desk: Desk, master_of: Callable[[str], NodeId | None]) -> None:
        self._desk = desk
        self._master_of = master_of
        self._recent = Recent(desk.limits.recent_bytes)
        self._heard: dict[tuple[str, str], None] = {}

    # --- storing ----------------------------------------------------------------------------------

    def store(
        self,
        queue: str,
        stream: str,
        segment: Segment,
        body: bytes,
        then: Then,
        refused: Refused,
        linger: Duration,
    ) -> None:
        """Puts a segment on the disk; until it is there it is served from memory."""
        stop = segment.stop
        self._heard[queue, stream] = None
        self._recent.add(queue, stream, segment, pin=True)

        def no_room(reason: str) -> None:
            self._recent.drop(queue, messages.Extent(stream, segment.first, stop))
            refused(reason)

        write = (Write(key(queue, stream, stop), body),)
        # Until it is on the disk it is nowhere else, though it be told as put before that.
        unpin = partial(self._recent.unpin, queue, stream, stop)
        self._desk.write(write, then, no_room, linger, unpin)

    def copy(self, source: NodeId, message: messages.Copy) -> None:
        """Another node's segment (rule 1)."""
        if not self._desk.keeper:
            return  # not in any view since it began, it has no name to be counted by
        queue, stream, stop = message.queue, message.stream, message.stop
        try:
            segment = unstored(message.body, stop)
        except ValueError as error:
            self._desk.note(f"a copy from {source} that is no segment: {error}")
            return

        def answer(refused: str = "") -> None:
            answered = messages.Copied(queue, stream, stop, self._desk.keeper, refused)
            self._desk.send(source, answered)

        self.store(queue, stream, segment, message.body, answer, answer, message.linger)

    def drop(self, message: messages.Drop) -> None:
        changes: list[Change] = []
        for extent in message.extents:
            self._recent.drop(message.queue, extent)
            changes.append(erased(message.queue, extent))
        # Nobody waits for room: it goes with the next write that somebody waits for.
        self._desk.write(tuple(changes), lambda: None, linger=DROP_LINGER)

    def keep(self, source: NodeId, message: messages.Keep) -> None:
        """Erases what of this queue is not to be kept (rule 3)."""
        if message.run != self._desk.stream:
            return
        queue = message.queue
        wanted: dict[str, IntervalSet] = {}
        for extent in message.extents:
            extents = wanted.setdefault(extent.stream, IntervalSet())
            extents.add(Interval(extent.first, max(extent.first, extent.stop)))
        ends = dict(message.open)
        ends.update((stream, 0) for named, stream in self._heard if named == queue)
        changes: list[Change] = []
        for node in sorted({node_of(stream) for stream, _ in message.open}):
            # Who is away may come back in the same run: of its streams nothing is erased.
            begin, end = node_range(queue, node)
            for stream in sorted({**wanted, **ends}):
                if node_of(stream) == node:
                    changes.append(Erase(begin, key(queue, stream, 0)))
                    held = wanted.get(stream, IntervalSet())
                    gaps = _gaps(held, ends.get(stream, INDEX_MAX))
                    changes += [
                        erased(queue, messages.Extent(stream, gap.start, gap.stop)) for gap in gaps
                    ]
                    begin = key(queue, stream, INDEX_MAX) + b"\0"
            changes.append(Erase(begin, end))
        answer = messages.Kept(queue, message.term, message.run)
        self._desk.write(tuple(changes), partial(self._desk.send, source, answer))

    # --- handing out ------------------------------------------------------------------------------

    def read(
        self,
        queue: str,
        extent: messages.Extent,
        position: int,
        budget: Budget,
        then: Callable[[Stretch], None],
    ) -> None:
        """Finds the segments that hold what begins at a position; tells the master what is bad."""

        def found(stretch: Stretch) -> None:
            if stretch.bad is not None:
                at = position + stretch.bad.first - extent.first
                self._broken(queue, stretch.bad, at, missing=stretch.missing)
            then(stretch)

        self._read(queue, extent, budget, found)

    def _read(
        self, queue: str, extent: messages.Extent, budget: Budget, then: Callable[[Stretch], None]
    ) -> None:
        Reading(self._desk, self._recent, queue, extent, budget, then).go_on()

    def fetch(self, operation: OperationId, message: Fetch) -> None:
        """A client's share of a lease, straight from here."""
        span = message.span
        is_keeper = any(one.node == self._desk.me for one in span.keepers)
        extent = messages.Extent(span.stream, span.first, span.first + span.stop - span.start)

        def found(stretch: Stretch) -> None:
            # How often they failed, and why, the client knows better than it told this node.
            parts = parts_of(stretch, extent, span.start)
            if stretch.bad is not None and not parts and not is_keeper:
                text = f"{self._desk.me} does not keep what begins at position {span.start}"
                self._desk.decline(operation, "Unavailable", text)
                return
            bad = 0 if stretch.bad is None else stretch.bad.stop - stretch.bad.first
            damaged, gone = (0, bad) if stretch.missing else (bad, 0)
            self._desk.reply(operation, Fetched(tuple(parts), damaged, gone))

        limits = self._desk.limits
        wanted = min(message.bytes_max, limits.fetch_bytes)
        budget = Budget(wanted, limits.answer_bytes, limits.answer_segments)
        self.read(message.queue, extent, span.start, budget, found)

    def pull(self, source: NodeId, message: messages.Pull) -> None:
        def found(stretch: Stretch) -> None:
            segments = tuple((one.stop, stored(one)) for one in stretch.segments)
            bad_until = 0 if stretch.bad is None else stretch.bad.stop
            absent = self._desk.keeper if stretch.missing else ""
            pulled = messages.Pulled(message.queue, message.extent, segments, bad_until, absent)
            self._desk.send(source, pulled)

        limits = self._desk.limits
        budget = Budget(limits.pull_bytes, limits.answer_bytes, limits.pull_segments)
        self._read(message.queue, message.extent, budget, found)

    def _broken(self, queue: str, bad: messages.Extent, position: int, *, missing: bool) -> None:
        how = "is not here" if missing else "can't be read here"
        self._desk.note(f"{queue}: {bad.stream} {bad.first} to {bad.stop} {how}")
        master = self._master_of(queue)
        if master is not None:
            self._desk.send(master, messages.Broken(queue, bad, self._desk.keeper, position))


def _gaps(held: IntervalSet, end: int) -> list[Interval]:
    """What lies between 0 and `end` and is not held. O(held)."""
    gaps: list[Interval] = []
    start = 0
    for interval in held:
        if start < min(interval.start, end):
            gaps.append(Interval(start, min(interval.start, end)))
        start = interval.stop
    return [*gaps, Interval(start, end)] if start < end else gaps
