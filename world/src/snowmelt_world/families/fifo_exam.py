"""The last exam of a fifo's life (`exam.py`), when every queue says that nothing lacks a copy.

1. Each item that was told as put, and that nobody tried to settle, is on as many disks then as its
   queue has replicas.
2. Fewer nodes than `copies_needed` are lost at one moment, and what was told comes all the same.
   Some items are put one by one until then: so there is something of which nobody but its leader
   knows for certain who has it.

There is none where somebody may lack what nobody knows: where a disk was put back from an older
copy, or flushes linger. None where links stay cut, which may keep a follower behind for ever; and
none where one copy is enough, since its disk is its queue's.
"""

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Final

import msgspec

from snowmelt.core.instant import Instant, later, milliseconds, seconds
from snowmelt.core.names import NodeId
from snowmelt.protocols.queue.api.calls import QueueStatus
from snowmelt_world.disk import Disk
from snowmelt_world.families.exam import Losses
from snowmelt_world.families.fifo_clients import Producer
from snowmelt_world.families.fifo_engine import FIFO, Engine
from snowmelt_world.families.fifo_words import Ledger
from snowmelt_world.faults import CutLinks, OlderDisk
from snowmelt_world.scenario import Scenario
from snowmelt_world.world import World

STEADY: Final = seconds(2)
"""For so long all queues have to say that they are whole."""
PUTS: Final = 20
PUTTING: Final = milliseconds(400)


class Whole(msgspec.Struct):
    """Since when a queue says that it is whole, and when it was asked last."""

    since: Instant
    asked: Instant


class Examiner(Producer):
    """Puts single items into one queue until nodes are lost, through whichever it is granted."""

    items_max = 1
    delays = False

    def puts(self) -> None:
        """Each as a program that has just begun."""
        for coming in range(-PUTS, 0):
            self.unfinished[coming] = None  # so nobody takes its queue for empty before that
            self.after(self.some(PUTTING), partial(self._put_next, coming))

    def _put_next(self, coming: int) -> None:
        self.unfinished.pop(coming, None)
        self.steps = self.opened()
        self._sequence += 1
        self.put(self._sequence - 1)


class Exam:
    """Of all queues of one life."""

    examiners: Sequence[Examiner] = ()

    def __init__(self, scenario: Scenario, ledgers: Sequence[Ledger], engine: Engine) -> None:
        self._engine = engine
        needed = [ledger.settings.copies_needed for ledger in ledgers]
        most = min(needed) - 1 if _can_be_held(scenario, ledgers) else 0
        self.losses = Losses(scenario, most, len(scenario.nodes) - max(needed))
        self._nodes = scenario.nodes
        self._whole: dict[str, Whole] = {}
        self._masters: dict[NodeId, None] = {}

    def saw(self, status: QueueStatus, asked: Instant, *, putting: bool) -> None:
        self._masters[status.leader] = None
        lacks = status.short_of_copies or status.followers_behind or status.waiting_puts
        if lacks or putting:
            self._whole.pop(status.queue, None)
        else:
            self._whole.setdefault(status.queue, Whole(asked, asked)).asked = asked

    def is_over(self, world: World, ledgers: Sequence[Ledger]) -> bool:
        """Whether nobody more is to be lost; somebody is as soon as all is whole."""
        losses = self.losses
        if losses.left and all(self._is_whole(one, world.now) for one in ledgers):
            disks = [world.slots[node].disk for node in self._nodes]
            for ledger in ledgers:
                judge_copies(ledger, disks, self._engine)
            self._whole.clear()
            for examiner in self.examiners:
                if examiner.ledger in ledgers and examiner.ledger.drained is None:
                    examiner.puts()
            losses.lose(world, later(world.now, PUTTING), list(self._masters))
        return not losses.left

    def _is_whole(self, ledger: Ledger, now: Instant) -> bool:
        if ledger.drained is not None:  # nobody has put anything
            return True
        whole = self._whole.get(ledger.queue)
        if whole is None or ledger.excuses.not_back:
            return False
        return later(whole.since, STEADY) <= whole.asked and now <= later(whole.asked, STEADY)


def _can_be_held(scenario: Scenario, ledgers: Sequence[Ledger]) -> bool:
    faults = scenario.faults
    unknown = any(isinstance(one, OlderDisk) for one in faults)
    cut = any(isinstance(one, CutLinks) and one.stays for one in faults)
    return not (unknown or cut or any(ledger.settings.linger for ledger in ledgers))


def judge_copies(ledger: Ledger, disks: Sequence[Disk], engine: Engine = FIFO) -> None:
    """Whether what lives of a queue for certain is on as many disks as it says (rule 1)."""
    copies: Counter[str] = Counter()
    for disk in disks:
        kept = engine.kept(disk, ledger.queue)
        if ledger.excuses.may_lose or kept is None:
            return  # what can't be read is found when somebody wants to read it
        copies.update(dict.fromkeys(kept, 1))
    for put in ledger.puts:
        if not put.told or put.start is None:
            continue
        for value in put.values:
            where = ledger.place(value)
            there, wanted = copies[value], ledger.agreed.least_copies
            if where not in ledger.attempted and there < wanted:
                text = f"nothing lacks a copy, it says, and {value} is on {there} disks"
                ledger.wrong(f"{text}, not on {wanted}", value)
