"""What waits in a queue and can't be had: nobody who is here has it.

1. Either nobody who keeps it is here. A get that meets it at the head passes it over, and then it
   lies aside, so that it is passed over once; a group takes it in its turn, and waits. Or it is in
   doubt, and those of its keepers who are here, if any, have said that they have nothing
   (`doubting.py`, rule 5): then it may be nowhere, and lies aside for groups as well.
2. Nothing waits behind it. Who is given something, or nothing, is told of it; whoever looks at the
   queue, or empties it, finds it among what waits.
3. Another view may have somebody who has it: with that, all waits as before. So does what others
   keep now, and what enough are known to have.

It is a state in memory alone; in the journal these items are ready.
"""

from itertools import islice
from typing import Final

from snowmelt.core.interval import POSITION_MAX, Interval, IntervalSet
from snowmelt.protocols.fifo.extents import Run, Runs
from snowmelt.protocols.fifo.streams import Presence

TOLD: Final = 64
"""So many intervals of it are told to who is given something, or nothing."""
FEW: Final = 64
"""So many are quicker moved one by one, though a set is long."""


class Aside:
    """Of one queue, beside what is `ready`.

    >>> ready = IntervalSet([Interval(0, 5)])
    >>> aside = Aside(ready)
    >>> aside.put(Interval(0, 2))
    >>> ready, aside.items, aside.waiting
    (IntervalSet([2, 5)), IntervalSet([0, 2)), IntervalSet([0, 5)))
    """

    def __init__(self, ready: IntervalSet) -> None:
        self.items = IntervalSet()
        self._ready = ready
        self._away: dict[tuple[str, ...], None] = {}
        """Keepers of whom, together, nobody is here."""

    def viewed(self, runs: Runs, presence: Presence) -> None:
        here = presence.keepers
        self._away = {one: None for one in runs.housed if not any(name in here for name in one)}
        self.look_again(Interval(0, POSITION_MAX))

    @property
    def begun(self) -> bool:
        """Whether anything may have to be passed over."""
        return bool(self._away)

    def first(self, run: Run) -> Interval:
        """Of what is first, and lies in this run, as much as can be had, or can't, alike.

        What can't is put aside, and then it is empty.
        """
        head, away = self._ready.first, self._away
        if all(not lane.living or lane.keepers in away for lane in run.lanes):  # many at once
            found = head.common(run.interval)
        else:
            strip = next(run.strips(head))
            found = Interval(strip.start, strip.stop)
            if strip.lane.keepers not in away:
                return found
        self.put(found)
        return Interval(found.stop, found.stop)

    def put(self, where: Interval) -> None:
        """What is ready of this can't be had."""
        _move(where, self._ready, self.items)

    def look_again(self, where: Interval) -> None:
        _move(where, self.items, self._ready)

    @property
    def waiting(self) -> IntervalSet:
        """All that waits, whether it can be had or not."""
        if not self.items.total:
            return self._ready
        waiting = IntervalSet(self._ready)
        waiting.add_all(self.items)
        return waiting

    @property
    def told(self) -> tuple[Interval, ...]:
        """The first of it, for who hears of items."""
        return tuple(islice(self.items, TOLD)) if self.items.total else ()


def _move(where: Interval, source: IntervalSet, target: IntervalSet) -> None:
    """What one set has there is in the other from now on: one by one, or many at once."""
    parts = source.common(where)
    source.remove(where)
    if len(parts) > FEW:
        target.add_all(parts)
    else:
        for part in parts:
            target.add(part)
