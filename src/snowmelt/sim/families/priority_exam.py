"""The last exam of a priority queue's life (`exam.py`), when the queues say that it may be held.

Who replaces one machine after the other goes by `short_of_copies`, and so does the exam. Who should
keep an element in a view is known, so the world looks at its disks in the same moment:

1. When all nodes are in one view, and their queues, which hear later of one that is not sure,
   nobody puts, and each queue has said since then that nothing is short of copies, each element
   that was told as put is with all who should keep it, unless somebody tried to acknowledge it, the
   promise does not cover it, or a record of it can't be read.
2. What is so has all its copies in that view, whatever its course was until then: from there on
   only disks that are lost later excuse that it does not come.
3. They have to say so: some time after such a view has begun nothing is short of copies any more,
   but for what no disk has to read any more, if the promise does not cover that: nor does it
   cover what nobody was told of, whose one copy may have been hurt.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from random import Random
from typing import Final

import msgspec

from snowmelt.check.history import Ended
from snowmelt.core.instant import Duration, Instant, later, milliseconds, seconds
from snowmelt.core.names import NodeId
from snowmelt.protocols.host import Host
from snowmelt.sim.families.exam import Losses
from snowmelt.sim.families.priority_disks import bodies, has, kept
from snowmelt.sim.families.priority_words import Ledger
from snowmelt.sim.judge.copies import Excuses, Told
from snowmelt.sim.judge.values import Place
from snowmelt.sim.scenario import Scenario
from snowmelt.sim.world import World

COPIED_WITHIN: Final = seconds(60)
"""So long after a view with all nodes has begun nothing lacks a copy any more."""
SLOW_SHARE: Final = 0.5
SLOWNESS: Final = milliseconds(800)
"""In so many exams all disks are slow, by so much at most: then it takes a while to make copies."""


class Said(msgspec.Struct, frozen=True):
    asked: Instant
    short: int
    anchor: NodeId | None = None
    """Of one that nobody has put anything into there is none."""


class Exam:
    """Of all queues of one life."""

    def __init__(self, scenario: Scenario, excuses: Excuses, ledgers: Sequence[Ledger]) -> None:
        most = min(ledger.settings.replicas for ledger in ledgers) - 1
        self.losses = Losses(scenario, most, len(scenario.nodes) - 1)
        self._nodes = scenario.nodes
        dice = Random(f"{scenario.seed}/{scenario.protocol}/copies")
        self._slowness = Duration(dice.randrange(SLOWNESS) if dice.random() < SLOW_SHARE else 0)
        """How much longer disks take until the exam is over, so that making copies does."""
        self._excuses = excuses
        self._ledgers = ledgers
        self._since: Instant | None = None
        """Since when all are in one view, and nobody puts."""
        self._said: dict[str, Said] = {}
        self._putting = dict.fromkeys([ledger.queue for ledger in ledgers], True)

    def says(self, queue: str, said: Said) -> None:
        self._said[queue] = said

    def is_over(self, world: World, queue: str, *, putting: bool) -> bool:
        """Whether nobody more is to be lost; somebody is as soon as nothing is short of copies.

        It is said whether anybody may put into a queue still.
        """
        losses, now = self.losses, world.now
        self._putting[queue] = putting
        for node in self._nodes:
            world.slots[node].disk_slowness = self._slowness if losses.left else Duration(0)
        if not losses.left:
            return True
        if any(self._putting.values()) or not self._are_all_here(world):
            self._since = None
            return False
        since = self._since = now if self._since is None else self._since
        said = {name: one for name, one in self._said.items() if one.asked >= since}
        late = now > later(since, COPIED_WITHIN)
        short = []
        for ledger in self._ledgers:
            unread, told = self._unread(world, ledger) if late else 0, said.get(ledger.queue)
            if told is None or told.short > unread:
                short.append(ledger)
        if not short:
            for ledger in self._ledgers:
                ledger.keepers.settle(now, self._complete(world, ledger))
            self._since = None
            losses.lose(world, now, [one.anchor for one in said.values() if one.anchor is not None])
        elif late:
            told = self._said.get(short[0].queue)
            text = "nobody says how it is" if told is None else f"{told.short} are short of copies"
            short[0].wrong(f"{text}, so long after all were there", short[0].queue)
        return False

    def _are_all_here(self, world: World) -> bool:
        there = [node for node in self._nodes if node not in self.losses.gone]
        hosts = [world.slots[node].node for node in there]
        run = all(one is not None for one in hosts)
        heard = not any(isinstance(one, Host) and one.waits for one in hosts)
        return run and heard and self._excuses.whole(world.now)

    def _unread(self, world: World, ledger: Ledger) -> int:
        """How many elements nobody has to copy, as far as the promise allows (rule 3)."""
        read = [kept(world.slots[node].disk, ledger.settings) for node in self._nodes]
        told = [one for _, one in _told(ledger)]
        lost = [one for one in told if not any(has(rows, one.place) for rows in read)]
        may_lack = sum(ledger.keepers.may_lack(one, world.now) for one in lost)
        return may_lack + self._untold(world, ledger)

    def _untold(self, world: World, ledger: Ledger) -> int:
        """How many of those may be there of which nobody was told, and no disk has.

        None where what a disk has is not on as many as it should be: that is short, too.
        """
        disks = [world.slots[node].disk for node in self._nodes]
        copies = Counter(
            value for disk in disks for value in dict.fromkeys(bodies(disk, ledger.queue))
        )
        untold = dict(_untold(ledger))
        ended = ledger.attempted if not ledger.purged else ledger.by_value
        alive = [value for value, _ in _told(ledger) if value not in ended]
        most = min(ledger.settings.replicas, len(self._nodes))
        if any(0 < copies[value] < most for value in (*alive, *untold)):
            return 0
        hurts = [one.at for one in self._excuses.hurts if not one.whole]
        lost = [called for value, called in untold.items() if not copies[value]]
        return sum(any(called <= at for at in hurts) for called in lost)

    def _complete(self, world: World, ledger: Ledger) -> dict[Place, None]:
        """Which elements have all their copies: all that are there for certain (rule 1)."""
        read = {node: kept(world.slots[node].disk, ledger.settings) for node in self._nodes}
        complete: dict[Place, None] = {}
        for value, told in _told(ledger):
            holders = ledger.keepers.holders_at(world.now, told.place)
            there = {node: has(read[node], told.place) for node in holders}
            lacking = [node for node, here in there.items() if here is False]
            if all(there.values()):
                complete[told.place] = None
            elif value in ledger.attempted or ledger.purged or not lacking:
                continue
            elif not ledger.keepers.may_lack(told, world.now):
                text = f"nothing is short of copies, it says, and {lacking[0]} lacks {value}"
                ledger.wrong(text, value)
        return complete


def _told(ledger: Ledger) -> Iterator[tuple[str, Told]]:
    """What was told as put: the values, and of each where and when."""
    for put in ledger.puts:
        if put.told and put.returned is not None:
            for value, place in zip(put.values, put.places, strict=True):
                yield value, Told(place, put.called, put.returned)


def _untold(ledger: Ledger) -> Iterator[tuple[str, Instant]]:
    """What may be there, though nobody was told of it: the values, and when each was sent."""
    for put in ledger.puts:
        if put.sent and put.ended is Ended.UNKNOWN:
            yield from dict.fromkeys(put.values, put.called).items()
