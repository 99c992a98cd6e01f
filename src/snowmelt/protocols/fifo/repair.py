"""Keeping every item on as many keepers as its queue wants.

1. A lane of a run is short when fewer of its keepers are here than there should be. How many living
   items are on which keepers is counted all the time, so it is known at once whether any are short;
   only then the runs are walked, some at a time. Short lanes are copied to the next keeper in the
   ring, pulled from one that has them, neighbours together; a few copies at a time, so that a
   repair never takes the place of work.
2. Nothing that is read can reduce the copies of what lives. What a keeper can't read counts only
   where the journal has a living item on it; of what was settled the keeper may have dropped it.
   It stays a keeper until a good copy was made instead: on itself, of what it may lack; or on
   another, of all.
3. Lost is what nobody can give: what its new keeper asked every keeper for that is not gone for
   ever, and could read nowhere; and what lies on nobody but keepers that have come back with other
   disks. That is counted, but for what was told to nobody (`early.py`, rule 6).
4. A copy counts when it names the term, the number and the extent it was asked for under, and the
   present run of its keeper: an older answer tells of another extent, or of what was erased since.
5. A keeper that was asked twice in vain is passed over for a while, if another can be asked.
6. Every keeper is told what it is to keep (`telling.py`).
"""

from typing import Final

import msgspec

from snowmelt.core.instant import Duration, Instant, later, seconds
from snowmelt.core.interval import Interval
from snowmelt.protocols.fifo.desk import Desk
from snowmelt.protocols.fifo.doubting import Doubting, Place, number
from snowmelt.protocols.fifo.early import Confirmed
from snowmelt.protocols.fifo.extents import Run
from snowmelt.protocols.fifo.journal import Journal
from snowmelt.protocols.fifo.messages import Broken, Extent, Kept, Missing, Replicate, Replicated
from snowmelt.protocols.fifo.passed_over import PassedOver
from snowmelt.protocols.fifo.queue import Dropped, Lost
from snowmelt.protocols.fifo.streams import Presence, gone_for_ever, node_of
from snowmelt.protocols.fifo.telling import Telling

AT_ONCE: Final = 2
GRACE: Final = seconds(1)
AGAIN_AFTER: Final = seconds(2)
AGAIN_LATEST: Final = seconds(60)
VAIN_TRIES: Final = 2
TOGETHER: Final = 64
"""From so many runs neighbours are copied together."""


class Order(msgspec.Struct):
    target: str
    extent: Extent
    lanes: dict[Place, Extent]
    """What is copied, and what of the extent is which."""
    number: int = 0
    asked_of: tuple[str, ...] = ()
    """The keepers that its target can ask."""
    asked: Instant = Instant(0)
    tries: int = 0

    @property
    def due(self) -> Instant:
        return later(self.asked, Duration(min(AGAIN_AFTER << min(self.tries, 8), AGAIN_LATEST)))


class Repair:
    def __init__(self, desk: Desk, journal: Journal, dropped: Dropped) -> None:
        self._desk = desk
        self._journal = journal
        self._queue = journal.queue
        self._dropped = dropped
        self._telling = Telling(desk, journal)
        self._orders: dict[int, Order] = {}
        self._bad: dict[Place, dict[str, None]] = {}
        """Which keepers of a lane can't read a living item of it."""
        self.doubting = Doubting(desk, self._queue, self._bad, self.watch)
        self._out = PassedOver()
        self._numbers = 0
        self._since: Instant | None = None
        """When it was first seen that something is short, and a while added."""
        self._at = 0
        """The position from which on short lanes are looked for."""

    def viewed(self) -> None:
        presence = self._desk.presence
        if presence is not None:
            self._telling.forget_streams(presence)
            self._telling.viewed(presence)
            self._queue.aside.viewed(self._queue.runs, presence)
            self._out.forget()
            self.doubting.viewed()
            self.doubting.settle(presence)
            self._mend(presence)
            self._at = 0
            self._walk(presence)

    def kept(self, message: Kept) -> None:
        self._telling.kept(message)

    def watch(self, keepers: tuple[str, ...]) -> None:
        """Looks whether something that was just put on these is short."""
        if self._since is None and self._is_short(keepers):
            self._since = later(self._desk.now, GRACE)
            self._desk.wake(self._since)

    def short_of_copies(self) -> int:
        housed = self._queue.runs.housed.items()
        items = sum(count for keepers, count in housed if self._is_short(keepers))
        for start, at in self._bad:
            run = self._queue.runs.at(start)
            if run is not None and not self._is_short(run.lanes[at].keepers):
                items += run.lanes[at].living
        return items

    def _is_short(self, keepers: tuple[str, ...]) -> bool:
        presence = self._desk.presence
        here = () if presence is None else [one for one in keepers if one in presence.keepers]
        return len(here) < self._queue.settings.replicas

    def tick(self) -> None:
        """Asks for copies, some at a time; asks again for those that nobody made."""
        self._telling.tick()
        presence = self._desk.presence
        if presence is None:
            return
        for order in list(self._orders.values()):
            wanted = any(self._queue.runs.at(start) is not None for start, _ in order.lanes)
            if order.target not in presence.keepers or not wanted:
                del self._orders[order.number]
            elif order.due <= self._desk.now:
                self._ask_again(order, presence)
        self._out.end(self._desk.now)
        self.doubting.settle(presence)
        self._mend(presence)
        self._walk(presence)
        for instant in (*self._out.untils, *(order.due for order in self._orders.values())):
            self._desk.wake(instant)

    # --- short lanes (rule 1) ---------------------------------------------------------------------

    def _walk(self, presence: Presence) -> None:
        desk, runs = self._desk, self._queue.runs
        short = {keepers: None for keepers in runs.housed if self._is_short(keepers)}
        short = {one: None for one in short if self._can_be_helped(one, presence)}
        if not short:
            self._since = None
            return
        if self._since is None:
            self._since = later(desk.now, GRACE)
        if self._since > desk.now:
            desk.wake(self._since)
            return
        found = runs.after(self._at, desk.limits.walk_runs)
        for run in found:
            lost = self._queue.lost
            for at, lane in enumerate(run.lanes):
                if len(self._orders) >= AT_ONCE:
                    return  # an answer, or its time-out, goes on from here
                if lane.living and lane.keepers in short and not self._under_way((run.start, at)):
                    self._help(run, at, presence)
            self._at = run.stop
            if self._queue.lost > lost:  # which takes long
                break
        if found and self._at < self._queue.tail:
            desk.wake(desk.now)
        else:
            self._at = 0
            desk.wake(later(desk.now, GRACE))

    def _can_be_helped(self, keepers: tuple[str, ...], presence: Presence) -> bool:
        if not any(one in presence.keepers for one in keepers):
            return gone_for_ever(keepers, presence)
        return any(one not in self._out for one in presence.keepers if one not in keepers)

    def _help(self, run: Run, at: int, presence: Presence) -> None:
        lane = run.lanes[at]
        if gone_for_ever(lane.keepers, presence):
            whole = Extent(lane.stream, lane.first, lane.stop)
            for part in self._needed(run, at, whole):
                self._give_up(part, lane.keepers, ())
            return
        ring = presence.after(lane.keepers[0], len(presence.keepers))
        targets = [one for one in ring if one not in lane.keepers and one not in self._out]
        if targets:
            self._begin(targets[0], self._together(run, at), presence)

    def _together(self, run: Run, at: int) -> dict[Place, Extent]:
        """A lane and those of the next runs that go on with it, as far as one copy may be."""
        limits, lane = self._desk.limits, run.lanes[at]
        lanes = {(run.start, at): run.extents()[at]}
        items, size, stop = lane.count, lane.bytes, lane.stop
        for other in self._queue.runs.after(run.stop, TOGETHER):
            place = next(iter(_places(other, lane.stream, stop)), None)
            if place is None or self._under_way(place) or place in self._bad:
                break
            following = other.lanes[place[1]]
            items, size = items + following.count, size + following.bytes
            if items > limits.run_items or size > limits.run_bytes:
                break
            if following.keepers != lane.keepers or other.dropped:
                break
            lanes[place] = Extent(lane.stream, following.first, following.stop)
            stop = following.stop
        return lanes

    def _under_way(self, place: Place) -> bool:
        return any(place in order.lanes for order in self._orders.values())

    # --- bad copies (rule 2) ----------------------------------------------------------------------

    def broken(self, message: Broken) -> None:
        """A keeper can't read something that lies, or lay, at these positions."""
        bad, keeper = message.extent, message.keeper
        where = Interval(message.position, message.position + max(0, bad.stop - bad.first))
        for run in self._queue.runs.over(where):
            for strip in run.strips(where):
                index = bad.first + strip.start - message.position
                it_is = strip.lane.stream == bad.stream and strip.first == index
                lives = self._queue.alive.common(Interval(strip.start, strip.stop))
                if it_is and lives and keeper in strip.lane.keepers:
                    place = run.start, number(run, strip.lane)
                    self._bad.setdefault(place, {})[keeper] = None
                    self.doubting.is_more(place)
        if self._bad and self._desk.presence is not None:
            self._mend(self._desk.presence)

    def _mend(self, presence: Presence) -> None:
        """Has lanes copied that some keeper can't read: anew to that keeper, or to another."""
        for place, keepers in list(self._bad.items()):
            run = self._queue.runs.at(place[0])
            lane = None if run is None else run.lanes[place[1]]
            bad = [] if lane is None else [one for one in keepers if one in lane.keepers]
            if run is None or lane is None or not bad:
                del self._bad[place]
                self.doubting.is_more(place)
            elif len(self._orders) < AT_ONCE and not self._under_way(place):
                ring = presence.after(lane.keepers[0], len(presence.keepers))
                others = [one for one in ring if one not in lane.keepers]
                targets = self.doubting.targets(place, bad, others)
                targets = [one for one in targets if one in presence.keepers]
                targets = [one for one in targets if one not in self._out]
                if targets:
                    lacked = self.doubting.lacked(run, place, targets[0])
                    self._begin(targets[0], {place: lacked}, presence)
        if self._bad:
            self._desk.wake(later(self._desk.now, AGAIN_AFTER))

    # --- what is in doubt (`doubting.py`) ---------------------------------------------------------

    def confirmed(self, message: Confirmed) -> None:
        """These have what was put early; others that were named may not."""
        presence = self._desk.presence
        if self.doubting.confirmed(message) and presence is not None:
            self.doubting.settle(presence)
            self._mend(presence)

    # --- one copy (rules 3 and 4) -----------------------------------------------------------------

    def _begin(self, target: str, lanes: dict[Place, Extent], presence: Presence) -> None:
        for start, _ in lanes:
            run = self._queue.runs.at(start)
            assert run is not None
            run.closed = True  # it must not grow while it is copied
        parts = list(lanes.values())
        extent = Extent(parts[0].stream, parts[0].first, parts[-1].stop)
        self._ask(Order(target, extent, lanes), presence)

    def _ask(self, order: Order, presence: Presence) -> None:
        """Asks for a copy, under a number of its own; sources that are good stand first."""
        self._orders.pop(order.number, None)
        self._numbers += 1
        keepers: dict[str, None] = {}
        bad: dict[str, None] = {}
        for start, at in order.lanes:
            run = self._queue.runs.at(start)
            keepers.update(dict.fromkeys(() if run is None else run.lanes[at].keepers))
            bad.update(self._bad.get((start, at), {}))
        here = [one for one in keepers if one in presence.keepers]
        good = [one for one in here if one not in bad]
        turn = self._numbers % max(1, len(good))
        order.asked_of = (*good[turn:], *good[:turn], *(one for one in here if one in bad))
        if not order.asked_of:
            return
        order.number, order.asked, order.tries = self._numbers, self._desk.now, order.tries + 1
        self._orders[order.number] = order
        sources = tuple(node_of(one) for one in order.asked_of)
        name, term = self._queue.name, self._journal.term
        self._desk.send(
            node_of(order.target), Replicate(name, term, order.number, order.extent, sources)
        )
        self._desk.wake(order.due)

    def _ask_again(self, order: Order, presence: Presence) -> None:
        """The same keeper; or, in a while, another (rule 5)."""
        if order.tries < VAIN_TRIES or not self._others(order, presence):
            self._ask(order, presence)
            return
        self._out.silent(order.target, self._desk.now)
        del self._orders[order.number]

    def _others(self, order: Order, presence: Presence) -> bool:
        runs = ((self._queue.runs.at(start), at) for start, at in order.lanes)
        known = {one for run, at in runs if run is not None for one in run.lanes[at].keepers}
        known.add(order.target)
        return any(one not in known and one not in self._out for one in presence.keepers)

    def replicated(self, message: Replicated) -> None:
        presence, order = self._desk.presence, self._orders.get(message.number)
        if presence is None or order is None or message.keeper not in presence.keepers:
            return
        named = (message.term, message.extent, message.keeper, message.run)
        run = presence.run_of(message.keeper)
        if named != (self._journal.term, order.extent, order.target, run):
            return
        self._out.answered(order.target, self._desk.now, room=message.stored)
        if not message.stored or self._has_come(order, message.missing, presence):
            del self._orders[order.number]
        self.tick()

    def _has_come(self, order: Order, missing: tuple[Missing, ...], presence: Presence) -> bool:
        """Names the new keeper, where nothing is missing that anybody may yet have."""
        whole = True
        for place, extent in list(order.lanes.items()):
            run = self._queue.runs.at(place[0])
            wanted = extent.stop if run is None else run.extents()[place[1]].first
            if extent.first < wanted:  # settled while it was copied, and dropped by the others
                over = Extent(extent.stream, extent.first, wanted)
                self._dropped([Lost(over, (order.target,))])
            if run is None:
                continue
            lane, lacked = run.lanes[place[1]], self.doubting.lacked(run, place, order.target)
            if not extent.first <= lacked.first <= lacked.stop <= extent.stop:
                continue  # it lacks more than it did, or is named no more
            needed = [
                (part, one.absent)
                for one in missing
                for part in self._needed(run, place[1], _common(one.extent, extent))
            ]
            keepers = lane.keepers
            away = [one for one in keepers if one not in order.asked_of]
            if needed and not gone_for_ever(tuple(away), presence):
                has = self._needed(run, place[1], extent)
                waits = any(one in presence.keepers for one in away)  # it came since, and is asked
                nobody = [] if waits else [part for part, _ in needed]
                whole = self.doubting.partly(place, order.target, has, nobody) and whole
                continue
            self._rehouse(run, place[1], order.target, presence)
            for part, absent in needed:
                self._give_up(part, keepers, absent)
        return whole

    def _needed(self, run: Run, at: int, extent: Extent) -> list[Interval]:
        """Where living items of a lane lie in a part of its stream."""
        where = run.where(at, extent.first, extent.stop)
        return [part for one in where for part in self._queue.alive.common(one)]

    def _rehouse(self, run: Run, at: int, target: str, presence: Presence) -> None:
        """The new keeper takes the place of one that is away or bad, if there are enough."""
        lane, bad = run.lanes[at], self._bad.pop((run.start, at), {})
        bad.pop(target, None)
        good = [one for one in lane.keepers if one in presence.keepers and one not in bad]
        good += [] if target in good else [target]
        rest = [one for one in lane.keepers if one not in good]
        wanted = max(0, self._queue.settings.replicas - len(good))
        named = (*good, *rest[:wanted])
        left = {one: None for one in bad if one in named}
        if left:
            self._bad[run.start, at] = left
        if named != lane.keepers:
            self._queue.rehouse(run, lane, named)

    def _give_up(self, part: Interval, keepers: tuple[str, ...], absent: tuple[str, ...]) -> None:
        """Nobody can give this; of those that were named to keep it, these never had it."""
        queue = self._queue
        for where in queue.doubts.within(part):
            queue.producers.forget_put(where)
            if self.doubting.is_untold(keepers, absent):
                self._desk.note(f"{queue.name}: {where} was told to nobody, and nobody has it")
                self._dropped(queue.give_up(where, told=False))
        if queue.alive.common(part):
            self._desk.note(f"{queue.name}: {part} is lost: no copy of it can be read")
            self._dropped(queue.give_up(part))


def _common(part: Extent, extent: Extent) -> Extent:
    first = max(part.first, extent.first)
    return Extent(extent.stream, first, max(first, min(part.stop, extent.stop)))


def _places(run: Run, stream: str, first: int) -> list[Place]:
    lanes = enumerate(run.lanes)
    return [(run.start, at) for at, lane in lanes if (lane.stream, lane.first) == (stream, first)]
