"""Keeping every run on as many keepers as its queue wants, and no keeper on what nobody wants.

1. A run is short when fewer of its keepers are here than there should be. Each short run is copied
   to the next keeper in the ring, pulled from one that has it; a few at a time, so that a repair
   never takes the place of work.
2. A keeper that can't read something loses the whole run, if another keeper here has it, and gets
   it anew. If nobody else has it, what can't be read is lost, and counted; so is a run whose
   keepers have all come back with other disks.
3. Every keeper is told once a run what it is to keep. That is said behind a step of the journal
   that is safe, so a master that was replaced can't say it.
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from snowmelt.core.instant import Instant, later, milliseconds, seconds
from snowmelt.core.interval import Interval
from snowmelt.core.names import NodeId
from snowmelt.protocols.fifo.desk import Desk
from snowmelt.protocols.fifo.extents import Run
from snowmelt.protocols.fifo.journal import Journal
from snowmelt.protocols.fifo.messages import Broken, Extent, Keep, Replicate, Replicated
from snowmelt.protocols.fifo.queue import Dropped
from snowmelt.protocols.fifo.streams import Presence, gone_for_ever, keeper_of, node_of

AT_ONCE: Final = 2
GRACE: Final = seconds(1)
AGAIN_AFTER: Final = seconds(2)
KEEP_AGAIN_AFTER: Final = milliseconds(1000)


class Order(msgspec.Struct):
    """A copy that was asked for."""

    number: int
    target: str
    extent: Extent
    asked: Instant


class Repair:
    """The copies of one queue."""

    def __init__(self, desk: Desk, journal: Journal, dropped: Dropped) -> None:
        self._desk = desk
        self._journal = journal
        self._queue = journal.queue
        self._dropped = dropped
        self._short: dict[int, Instant] = {}
        self._orders: dict[int, Order] = {}
        self._numbers = 0
        self._told: dict[str, None] = {}
        self._telling: dict[str, Instant] = {}

    # --- what every keeper is to keep (rule 3) ----------------------------------------------------

    def viewed(self) -> None:
        """Who is here has changed, or this master has begun."""
        presence = self._desk.presence
        if presence is None:
            return
        self._telling = {
            run: self._telling.get(run, Instant(0))
            for run in presence.streams
            if run not in self._told
        }
        self._told = {run: None for run in self._told if run in presence.streams}
        for name in list(self._queue.streams):
            # Who is only away may come back in the same run, and offer again what was decided.
            if name not in presence.streams and presence.view.member(node_of(name)) is not None:
                del self._queue.streams[name]
                self._queue.changed[b"d" + name.encode()] = None
        for run in self._queue.runs:
            self.watch(run)
        self._tell()

    def _tell(self) -> None:
        due = [
            run
            for run, asked in self._telling.items()
            if not asked or later(asked, KEEP_AGAIN_AFTER) <= self._desk.now
        ]
        presence = self._desk.presence
        if due and presence is not None:
            for run in due:
                self._telling[run] = self._desk.now
            self._queue.changed[b"s"] = None
            # As it stands now: what changes until this step is safe belongs to later ones.
            said = list(self._said(due, presence))
            self._journal.after(lambda: self._say(said))
        if self._telling:
            self._desk.wake(later(self._desk.now, KEEP_AGAIN_AFTER))

    def _say(self, said: list[tuple[NodeId, Keep]]) -> None:
        for node, message in said:
            self._desk.send(node, message)

    def _said(self, runs: list[str], presence: Presence) -> Iterator[tuple[NodeId, Keep]]:
        ends = tuple((stream, self._admitted_to(stream)) for stream in sorted(presence.streams))
        for run in runs:
            member = presence.streams.get(run)
            if member is not None:
                extents = self._kept_by(keeper_of(member))
                yield member.id, Keep(self._queue.name, self._journal.term, run, extents, ends)

    def _admitted_to(self, stream: str) -> int:
        """How far everything of a stream has its verdict."""
        known = self._queue.streams.get(stream)
        first = None if known is None else next(iter(known.decided), None)
        return first.stop if first is not None and first.start == 0 else 0

    def _kept_by(self, keeper: str) -> tuple[Extent, ...]:
        queue = self._queue
        extents = [_extent(run) for run in queue.runs if keeper in run.keepers]
        return (*extents, *queue.staged.kept_by(keeper))

    def kept(self, run: str) -> None:
        """A keeper has heard."""
        if self._telling.pop(run, None) is not None:
            self._told[run] = None

    # --- short runs (rule 1) ----------------------------------------------------------------------

    def watch(self, run: Run) -> None:
        """Looks whether a run is short."""
        if self._is_short(run):
            self._short.setdefault(run.start, later(self._desk.now, GRACE))
            self._desk.wake(self._short[run.start])

    def short_of_copies(self) -> int:
        """How many items are on fewer nodes than they should be."""
        runs = [self._queue.runs.at(start) for start in self._short]
        return sum(
            part.size
            for run in runs
            if run is not None and self._is_short(run)
            for part in self._queue.alive.common(run.interval)
        )

    def _is_short(self, run: Run) -> bool:
        presence = self._desk.presence
        here = [] if presence is None else [one for one in run.keepers if one in presence.keepers]
        return len(here) < self._queue.settings.replicas

    def tick(self) -> None:
        """Asks for copies, some at a time; asks again for those that nobody made."""
        now, presence = self._desk.now, self._desk.presence
        self._tell()
        if presence is None:
            return
        for start, order in list(self._orders.items()):
            run = self._queue.runs.at(start)
            if run is None or order.target not in presence.keepers:
                del self._orders[start]
            elif later(order.asked, AGAIN_AFTER) <= now:
                self._ask(run, order.target, presence)
        for start, since in list(self._short.items()):
            run = self._queue.runs.at(start)
            if run is None or not self._is_short(run):
                del self._short[start]
            elif gone_for_ever(run.keepers, presence):
                self._lose(run, _extent(run))
            elif start not in self._orders and since <= now and len(self._orders) < AT_ONCE:
                self._begin(run, presence)
        if self._short:
            self._desk.wake(later(now, AGAIN_AFTER if self._orders else GRACE))

    def _begin(self, run: Run, presence: Presence) -> None:
        ring = presence.after(run.keepers[0], len(presence.keepers))
        targets = [keeper for keeper in ring if keeper not in run.keepers]
        if targets:
            self._ask(run, targets[0], presence)

    def _ask(self, run: Run, target: str, presence: Presence) -> None:
        sources = tuple(node_of(one) for one in run.keepers if one in presence.keepers)
        if not sources:
            self._orders.pop(run.start, None)
            return
        run.closed = True  # it must not grow while it is copied
        self._numbers += 1
        order = Order(self._numbers, target, _extent(run), self._desk.now)
        self._orders[run.start] = order
        name, term = self._queue.name, self._journal.term
        message = Replicate(name, term, order.number, order.extent, sources)
        self._desk.send(node_of(target), message)

    def replicated(self, message: Replicated) -> None:
        """A copy was made, or could not be made whole."""
        presence = self._desk.presence
        answered = [
            start
            for start, order in self._orders.items()
            if (order.number, order.target) == (message.number, message.keeper)
        ]
        if not answered or not message.stored or presence is None:
            return  # it is asked for again, of another source
        start = answered[0]
        run = self._queue.runs.at(start)
        if run is None or any(self._needed(run, extent) for extent in message.missing):
            return
        del self._orders[start]
        here = [one for one in run.keepers if one in presence.keepers]
        away = [one for one in run.keepers if one not in presence.keepers]
        wanted = max(0, self._queue.settings.replicas - len(here) - 1)
        self._queue.rehouse(run, (*here, message.keeper, *away[:wanted]))
        self.tick()

    def _needed(self, run: Run, part: Extent) -> bool:
        """Whether a living item of a run lies in this part of its stream."""
        return bool(self._queue.alive.common(_positions(run, part)))

    # --- bad copies (rule 2) ----------------------------------------------------------------------

    def broken(self, message: Broken) -> None:
        """A keeper can't read a part of a run."""
        presence, bad = self._desk.presence, message.extent
        runs = [run for run in self._queue.runs if _overlap(run, bad)]
        for run in runs:
            if presence is None or message.keeper not in run.keepers:
                continue
            others = tuple(one for one in run.keepers if one != message.keeper)
            if any(one in presence.keepers for one in others):
                self._queue.rehouse(run, others)
                self.watch(run)
            elif gone_for_ever(others, presence):  # nobody else has it, or will have
                self._lose(run, bad)

    def _lose(self, run: Run, bad: Extent) -> None:
        where = _positions(run, bad)
        before = self._queue.lost
        self._dropped(self._queue.give_up(where))
        if self._queue.lost > before:
            self._desk.note(f"{self._queue.name}: {where} is lost: no copy of it can be read")


def _positions(run: Run, part: Extent) -> Interval:
    """The positions of a run that lie in a part of its stream."""
    first = min(max(run.first, part.first), run.first + run.count)
    stop = max(first, min(run.first + run.count, part.stop))
    return Interval(run.start + first - run.first, run.start + stop - run.first)


def _extent(run: Run) -> Extent:
    return Extent(run.stream, run.first + run.dropped, run.first + run.count)


def _overlap(run: Run, bad: Extent) -> bool:
    return run.stream == bad.stream and run.first < bad.stop and bad.first < run.first + run.count
