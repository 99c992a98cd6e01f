"""Settling what is in doubt (`early.py`): every keeper that was named is asked to have it.

1. What is in doubt is copied like what a keeper can't read (`repair.py`, rule 2), but to who was
   named no more of a lane than that. Who has it gets it from itself, and says so like any other.
2. A doubt is over when all that were named have it. After a while it is enough that
   `copies_needed` have it: then the others are taken off, and what they lack is short.
3. Nobody is taken off while there is another doubt on the same run that its node may still settle
   by other keepers' words: it may count on just those.
4. A put is told when `copies_needed` of those that were named have flushed it, and who has flushed
   it has something there while it lives, were it damaged. So what is in doubt, and of which fewer
   than that are not known to have nothing, was told to nobody. What lingers is told unflushed.
5. What is known to be with `copies_needed` may be given, though it is in doubt for the others. What
   nobody has who is here, while somebody is away, lies aside (`aside.py`).
"""

from collections.abc import Callable, Iterator
from typing import Final

from snowmelt.core.instant import Instant, later, seconds
from snowmelt.core.interval import Interval, IntervalSet
from snowmelt.protocols.fifo.desk import Desk
from snowmelt.protocols.fifo.doubts import Name
from snowmelt.protocols.fifo.early import Confirmed, Enough
from snowmelt.protocols.fifo.extents import Lane, Run
from snowmelt.protocols.fifo.messages import Extent
from snowmelt.protocols.fifo.passed_over import PassedOver
from snowmelt.protocols.fifo.queue import Queue, found
from snowmelt.protocols.fifo.streams import Presence, living

ALL_WITHIN: Final = seconds(2)

Place = tuple[int, int]
"""A run, by its first position, and a lane of it, by its number."""
Bad = dict[Place, dict[str, None]]


class Doubting:
    def __init__(
        self, desk: Desk, queue: Queue, bad: Bad, watch: Callable[[tuple[str, ...]], None]
    ) -> None:
        self._desk = desk
        self._queue = queue
        self._bad = bad
        """Which keepers of a lane can't read, or may not have, a living item of it."""
        self._watch = watch
        self._until: dict[Name, Instant] = {}
        """Of each doubt that is settled here: so long all are waited for (rule 2)."""
        self._parts: dict[Place, Extent] = {}
        """Of lanes that are bad only for being in doubt: what of them is."""
        self._asked: dict[Place, PassedOver] = {}
        """Of lanes of which nobody here has all: who has said so lately."""
        self._had: dict[str, IntervalSet] = {}
        """What each has of them."""
        self._nobodys = IntervalSet()
        """What of them nobody has who is here, as was said since the view began."""

    def enough(self, message: Enough) -> None:
        """As many have what was put early as must (rule 5)."""
        where = self._queue.doubts.of((message.stream, message.first))
        if where is not None:
            found(self._queue, where)

    def partly(
        self, place: Place, keeper: str, has: list[Interval], nobody: list[Interval]
    ) -> bool:
        """A keeper has this of a lane, but for what nobody has who is here (rule 5).

        Whether that is all it is to be asked for a while; then others have their turn.
        """
        if not self._until:
            return False
        had = self._had.setdefault(keeper, IntervalSet())
        for part in has:
            had.add(part)
        for part in nobody:
            had.remove(part)
            self._nobodys.add(part)
        self._asked.setdefault(place, PassedOver()).silent(keeper, self._desk.now)
        return True

    def targets(self, place: Place, named: list[str], others: list[str]) -> list[str]:
        asked = self._asked.get(place)
        return [*named, *others] if asked is None else [one for one in named if one not in asked]

    def viewed(self) -> None:
        """Others are here now, who may have what nobody had."""
        self._asked.clear()
        self._nobodys = IntervalSet()

    def confirmed(self, message: Confirmed) -> bool:
        """These have what was put early; whether there is something to be settled here."""
        name = message.stream, message.first
        where = self._queue.doubts.of(name)
        if where is None:
            return False
        named = (run.lanes[at].keepers for run, at in self._lanes(where))
        if all(one in message.keepers for some in named for one in some):
            self._queue.doubts.end(name)
        else:
            self._queue.doubts.late(name)
            if len(message.keepers) >= self._queue.settings.copies_needed:
                found(self._queue, where)
            self._doubt(name, where, message.keepers)
        return bool(self._until)

    def begin(self) -> None:
        """This master is new: it knows of nobody who has said anything."""
        for name, where in self._queue.doubts.all():
            self._doubt(name, where, ())

    def is_more(self, place: Place) -> None:
        """A lane is bad for another reason, or not at all."""
        self._parts.pop(place, None)

    def lacked(self, run: Run, place: Place, keeper: str) -> Extent:
        """What of a bad lane it is to copy: all that lives, or what of it is in doubt (rule 1)."""
        whole, part = run.extents()[place[1]], self._parts.get(place)
        is_named = keeper in run.lanes[place[1]].keepers
        if part is None or part.stop <= whole.first or not is_named:
            return whole
        return Extent(whole.stream, max(whole.first, part.first), part.stop)

    def is_untold(self, keepers: tuple[str, ...], absent: tuple[str, ...]) -> bool:
        """Whether too few of these ever had what nobody can give, for it to be told (rule 4)."""
        settings = self._queue.settings
        had = sum(one not in absent for one in keepers)
        return not settings.linger and had < settings.copies_needed <= len(keepers)

    def settle(self, presence: Presence) -> None:
        """Ends the doubts that are none any more (rules 2 and 3)."""
        doubts = self._queue.doubts
        for asked in self._asked.values():
            asked.end(self._desk.now)
        unheard = [where for name, where in doubts.all() if name not in self._until]
        for name, until in list(self._until.items()):
            where = doubts.of(name)
            lanes = [] if where is None else self._lanes(where)
            if where is not None:
                self._look(where, presence)
            if any((run.start, at) in self._bad for run, at in lanes):
                if until > self._desk.now:
                    continue
                if any(one.common(run.interval).size for run, _ in lanes for one in unheard):
                    continue
                if not all(self._is_sure(run, at, presence) for run, at in lanes):
                    continue
            del self._until[name]
            if where is not None:
                found(self._queue, where)
                doubts.end(name)
            for run, at in lanes:
                self._take_off(run, at)
        if not self._until:
            self._asked.clear()
            self._had.clear()
            self._nobodys = IntervalSet()

    def _doubt(self, name: Name, where: Interval, sure: tuple[str, ...]) -> None:
        self._until[name] = later(self._desk.now, ALL_WITHIN)
        self._desk.wake(self._until[name])
        for run, at in self._lanes(where):
            place, lane = (run.start, at), run.lanes[at]
            run.closed = True  # what comes next has nothing to do with it
            if place not in self._bad or place in self._parts:
                self._parts[place] = _hull(run, lane, where, self._parts.get(place))
            unsure = dict.fromkeys(one for one in lane.keepers if one not in sure)
            self._bad.setdefault(place, {}).update(unsure)

    def _lanes(self, where: Interval) -> list[tuple[Run, int]]:
        found: dict[Place, Run] = {}
        for run in self._queue.runs.over(where):
            for part in self._queue.alive.common(where.common(run.interval)):
                for strip in run.strips(part):
                    found[run.start, number(run, strip.lane)] = run
        return [(run, at) for (_, at), run in found.items()]

    def _look(self, where: Interval, presence: Presence) -> None:
        """What of it is with enough keepers by now, and what with nobody who is here (rule 5)."""
        queue = self._queue
        for run, at, part in self._unsure(where):
            good = self._good(run, at, part)
            here = [one for one in run.lanes[at].keepers if one in presence.keepers]
            if living(good, presence) >= queue.settings.copies_needed:
                found(queue, part)
            elif not any(one in good for one in here) and (not here or self._nobodys.covers(part)):
                queue.aside.put(part)

    def _unsure(self, where: Interval) -> Iterator[tuple[Run, int, Interval]]:
        """What is unsure there, by lanes, and by whether anybody who is here may have it."""
        queue = self._queue
        for unsure in queue.doubts.unsure.common(where):
            for alive in queue.alive.common(unsure):
                for run in queue.runs.over(alive):
                    for strip in run.strips(alive.common(run.interval)):
                        rest = IntervalSet([Interval(strip.start, strip.stop)])
                        nobodys = self._nobodys.common(rest.first)
                        for part in nobodys:
                            rest.remove(part)
                        for part in (*nobodys, *rest):
                            yield run, number(run, strip.lane), part

    def _is_sure(self, run: Run, at: int, presence: Presence) -> bool:
        """Whether enough have all of a lane."""
        return living(self._good(run, at), presence) >= self._queue.settings.copies_needed

    def _good(self, run: Run, at: int, part: Interval | None = None) -> tuple[str, ...]:
        """The keepers that are known to have all of a lane, or this part of it."""
        bad = self._bad.get((run.start, at), {})
        return tuple(
            one
            for one in run.lanes[at].keepers
            if one not in bad
            or (part is not None and one in self._had and self._had[one].covers(part))
        )

    def _take_off(self, run: Run, at: int) -> None:
        bad = self._bad.pop((run.start, at), None)
        self._parts.pop((run.start, at), None)
        if bad:
            lane = run.lanes[at]
            named = tuple(one for one in lane.keepers if one not in bad)
            self._queue.rehouse(run, lane, named)
            self._watch(named)


def number(run: Run, lane: Lane) -> int:
    return next(at for at, one in enumerate(run.lanes) if one is lane)


def _hull(run: Run, lane: Lane, where: Interval, more: Extent | None) -> Extent:
    """The part of a lane that has what lies there, and what was in doubt of it before."""
    ends = [] if more is None else [more.first, more.stop]
    for strip in run.strips(where.common(run.interval)):
        if strip.lane is lane:
            ends += [strip.first, strip.first + strip.stop - strip.start]
    return Extent(lane.stream, min(ends), max(ends))
