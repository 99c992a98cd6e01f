"""The last exam of a priority queue's life (`exam.py`), when every copy that should be is made.

A queue does not say whether all have their copies: "in the background" they are made. But who
should keep an element in a view is known, so the world looks at its disks:

1. Some time after the last view, with all nodes in it, has begun, each element that was told as put
   is with all who should keep it, unless it may be done, or the promise does not cover it, or a
   record of it can't be read.
2. What is so has all its copies in that view, whatever its course was until then: from there on
   only disks that are lost later excuse that it does not come.

There is none where groups read, too: their notes are items of fifos, whose copies nobody counts
here, and who lost a note gives back what it named.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from snowmelt.check.history import Ended
from snowmelt.core.instant import Instant, later, seconds
from snowmelt.core.interval import Interval
from snowmelt.core.names import NodeId
from snowmelt.core.record import BULK, Found, Record
from snowmelt.protocols.priority.queue import prefix_of
from snowmelt.protocols.priority.rows import Rows
from snowmelt.protocols.priority.shelf import Shelf
from snowmelt.sim.disk import Disk
from snowmelt.sim.families.exam import Losses
from snowmelt.sim.families.fifo_actors import Phase, Stage
from snowmelt.sim.families.priority_excuses import Excuses, Place, Told
from snowmelt.sim.families.priority_ledger import Ledger
from snowmelt.sim.families.priority_steward import Steward
from snowmelt.sim.scenario import Scenario
from snowmelt.sim.world import World

LOOK_EVERY: Final = seconds(1)
COPIED_WITHIN: Final = seconds(60)
"""So long after a view with all nodes has begun nothing lacks a copy any more."""
_PREFIX: Final = b"priority/"


class Copies(msgspec.Struct):
    """Of one queue: which elements have all of theirs, and who lacks one of the others."""

    complete: dict[Place, None] = {}
    lacking: dict[str, NodeId] = {}


class Exam:
    """Of all queues of one life."""

    def __init__(
        self, scenario: Scenario, excuses: Excuses, ledgers: Sequence[Ledger], *, groups: bool
    ) -> None:
        most = 0 if groups else min(ledger.settings.replicas for ledger in ledgers) - 1
        self.losses = Losses(scenario, most, len(scenario.nodes) - 1)
        self._nodes = scenario.nodes
        self._excuses = excuses
        self._ledgers = ledgers
        self._since: Instant | None = None
        """Since when all are in one view, and nobody puts."""

    def begin(self, stage: Stage, stewards: Sequence[Steward]) -> None:
        """The load is over: nobody gets until the exam is, then all is drained."""
        stage.phase = Phase.REST
        putting = any(steward.putting for steward in stewards)
        if self._is_over(stage.world, putting=putting):
            for steward in stewards:
                steward.rest()
        else:
            stage.world.at(later(stage.world.now, LOOK_EVERY), self.begin, stage, stewards)

    def _is_over(self, world: World, *, putting: bool) -> bool:
        """Whether nobody more is to be lost; somebody is as soon as all have their copies."""
        losses, now = self.losses, world.now
        if not losses.left:
            return True
        if putting or not self._are_all_here(world):
            self._since = None
            return False
        since = self._since = now if self._since is None else self._since
        found = [(one, self._copies(world, one)) for one in self._ledgers]
        lacks = [(one, copies) for one, copies in found if copies.lacking]
        for ledger, copies in lacks if now > later(since, COPIED_WITHIN) else ():
            value, node = next(iter(copies.lacking.items()))
            text = f"{len(copies.lacking)} elements lack copies for so long; {value} at {node}"
            ledger.wrong(text, value)
        if not lacks:
            self._since = None
            for ledger, copies in found:
                ledger.keepers.settle(now, copies.complete)
            losses.lose(world, now)
        return False

    def _are_all_here(self, world: World) -> bool:
        there = [node for node in self._nodes if node not in self.losses.gone]
        run = all(world.slots[node].node is not None for node in there)
        return run and self._excuses.whole(world.now)

    def _copies(self, world: World, ledger: Ledger) -> Copies:
        """Where the elements of a queue are that are there for certain (rule 1)."""
        kept = {node: _kept(world.slots[node].disk, ledger) for node in self._nodes}
        done = {value for ack in ledger.acks for value in ack.values}
        copies = Copies()
        for put in ledger.puts:
            if put.ended is not Ended.SUCCEEDED or put.returned is None:
                continue
            for value, place in zip(put.values, put.places, strict=True):
                told = Told(place, put.called, put.returned)
                holders = ledger.keepers.holders_at(world.now, place)
                has = {node: _has(kept[node], place) for node in holders}
                lacking = [node for node, there in has.items() if there is False]
                if all(has.values()):
                    copies.complete[place] = None
                elif value in done or ledger.purged or not lacking:
                    continue
                elif not ledger.keepers.may_lack(told, world.now):
                    copies.lacking[value] = lacking[0]
        return copies


def _kept(disk: Disk, ledger: Ledger) -> Rows | None:
    """What of a queue is on a disk; None where a record of it can't be read."""
    prefix = prefix_of(ledger.queue)
    begin, started = _PREFIX + prefix, disk.start()
    large = disk.load(one for one in disk.copy().keys if one.startswith(BULK + begin))
    if any(key.startswith(begin) for key in started.damaged) or not _all_read(large):
        return None
    shelf = Shelf(prefix, settings=ledger.settings)
    for record in started.records:
        if record.key.startswith(begin):
            shelf.restore(record.key.removeprefix(_PREFIX), record.value)
    return shelf.rows


def _all_read(found: Sequence[Found]) -> bool:
    return all(isinstance(one, Record) for one in found)


def _has(rows: Rows | None, place: Place) -> bool | None:
    """Whether an element is there; None where nobody knows."""
    if rows is None:
        return None
    where = Interval(place.position, place.position + 1)
    return bool(rows.row(place.priority).here.common(where))
