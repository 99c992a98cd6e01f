"""Telling every keeper, once a run of it, what of a queue it is to keep; it erases the rest.

1. It is said behind a step of the journal that is safe, so a master that was replaced can't say it.
2. What is to be kept is gathered from the runs, some at a time, so that no turn is long. What comes
   in meanwhile stands behind all the runs that were looked at, and is found before the end; how far
   streams are decided is taken at the beginning; what is staged, at the beginning and at the end.
   And a keeper gets a new copy only in its present run (`Replicated.run`), in which it erases
   nothing of that stream (`keeper.py`, rule 3). So nothing that lives is ever left out.
3. What would be told in too many extents is told in fewer that hold more: too much is kept, and
   goes when it is dropped, or when its keeper is told the next time.
"""

from collections.abc import Iterator
from heapq import nlargest
from itertools import pairwise
from typing import Final

import msgspec

from snowmelt.core.instant import Instant, later, milliseconds
from snowmelt.core.interval import Interval, IntervalSet
from snowmelt.core.names import NodeId
from snowmelt.protocols.fifo.desk import Desk
from snowmelt.protocols.fifo.journal import Journal
from snowmelt.protocols.fifo.messages import Extent, Keep, Kept
from snowmelt.protocols.fifo.streams import Presence, keeper_of, node_of

AGAIN_AFTER: Final = milliseconds(1000)


class Gathering(msgspec.Struct):
    """What some keepers are to keep, as far as the runs were looked at."""

    runs: list[str]
    """The keepers' present runs."""
    ends: tuple[tuple[str, int], ...]
    wanted: dict[str, dict[str, IntervalSet]]
    """By keeper and stream."""
    at: int = 0
    """The position from which on no run was looked at."""

    def add(self, keeper: str, extent: Extent) -> None:
        streams = self.wanted.get(keeper)
        if streams is not None:
            held = streams.setdefault(extent.stream, IntervalSet())
            held.add(Interval(extent.first, extent.stop))


class Telling:
    def __init__(self, desk: Desk, journal: Journal) -> None:
        self._desk = desk
        self._journal = journal
        self._queue = journal.queue
        self._told: dict[str, None] = {}
        self._asked: dict[str, Instant] = {}
        self._gathering: Gathering | None = None

    def viewed(self, presence: Presence) -> None:
        self._asked = {
            run: self._asked.get(run, Instant(0))
            for run in presence.streams
            if run not in self._told
        }
        self._told = {run: None for run in self._told if run in presence.streams}
        self._gathering = None
        self.tick()

    def kept(self, message: Kept) -> None:
        """A keeper has done what this master, in this term, told it."""
        if message.term == self._journal.term and self._asked.pop(message.run, None) is not None:
            self._told[message.run] = None

    def tick(self) -> None:
        """Begins to gather for those that were not told or are silent, or goes on with it."""
        presence, now = self._desk.presence, self._desk.now
        if presence is None or not self._asked:
            return
        if self._gathering is None:
            due = [
                run
                for run, asked in self._asked.items()
                if not asked or later(asked, AGAIN_AFTER) <= now
            ]
            if due:
                self._begin(due, presence)
        if self._gathering is not None:
            self._go_on(self._gathering, presence)
        self._desk.wake(now if self._gathering is not None else later(now, AGAIN_AFTER))

    def _begin(self, runs: list[str], presence: Presence) -> None:
        ends = tuple((stream, self._admitted_to(stream)) for stream in sorted(presence.streams))
        keepers = [keeper_of(presence.streams[run]) for run in runs]
        self._gathering = Gathering(runs, ends, {keeper: {} for keeper in keepers})
        self._add_staged(self._gathering)

    def _go_on(self, gathering: Gathering, presence: Presence) -> None:
        """Looks at some runs; at the end says what came of it (rules 1 and 2)."""
        most = self._desk.limits.walk_runs
        found = self._queue.runs.after(gathering.at, most)
        for run in found:
            gathering.at = run.stop
            for lane, extent in zip(run.lanes, run.extents(), strict=True):
                for keeper in lane.keepers if extent.first < extent.stop else ():
                    gathering.add(keeper, extent)
        if len(found) == most:
            return
        self._gathering = None
        self._add_staged(gathering)
        for name in gathering.runs:
            self._asked[name] = self._desk.now
        self._queue.changed[b"s"] = None
        said = list(self._said(gathering, presence))
        self._journal.after(lambda: self._say(said))

    def _add_staged(self, gathering: Gathering) -> None:
        for keeper in gathering.wanted:
            for extent in self._queue.staged.kept_by(keeper):
                gathering.add(keeper, extent)

    def _said(self, gathering: Gathering, presence: Presence) -> Iterator[tuple[NodeId, Keep]]:
        for run in gathering.runs:
            member = presence.streams.get(run)
            if member is not None:
                wanted = gathering.wanted[keeper_of(member)]
                extents = fewest(wanted, self._desk.limits.keep_extents)
                name, term = self._queue.name, self._journal.term
                yield member.id, Keep(name, term, run, extents, gathering.ends)

    def _say(self, said: list[tuple[NodeId, Keep]]) -> None:
        for node, message in said:
            self._desk.send(node, message)

    def _admitted_to(self, stream: str) -> int:
        """How far everything of a stream has its verdict."""
        known = self._queue.streams.get(stream)
        first = None if known is None else next(iter(known.decided), None)
        return first.stop if first is not None and first.start == 0 else 0

    def forget_streams(self, presence: Presence) -> None:
        """Nothing is decided any more of streams that have ended."""
        for name in list(self._queue.streams):
            # Who is only away may come back in the same run, and offer again what was decided.
            if name not in presence.streams and presence.view.member(node_of(name)) is not None:
                del self._queue.streams[name]
                self._queue.changed[b"d" + name.encode()] = None


def fewest(wanted: dict[str, IntervalSet], most: int) -> tuple[Extent, ...]:
    """What is wanted of each stream, in not many more extents than `most` (rule 3).

    >>> spread = IntervalSet([Interval(0, 1), Interval(2, 3), Interval(9, 10)])
    >>> [(one.first, one.stop) for one in fewest({"n1/1/1": spread}, 2)]
    [(0, 3), (9, 10)]
    """
    if sum(held.pieces for held in wanted.values()) > most:
        wanted = {stream: _joined(held, most // len(wanted)) for stream, held in wanted.items()}
    return tuple(
        Extent(stream, part.start, part.stop)
        for stream, held in sorted(wanted.items())
        for part in held
    )


def _joined(held: IntervalSet, most: int) -> IntervalSet:
    gaps = [(right.start - left.stop, left.stop, right.start) for left, right in pairwise(held)]
    edges = [next(iter(held)).start]
    for _, start, stop in sorted(nlargest(most - 1, gaps), key=lambda gap: gap[1]):
        edges += [start, stop]
    edges.append(max(part.stop for part in held))
    return IntervalSet(map(Interval, edges[::2], edges[1::2]))
