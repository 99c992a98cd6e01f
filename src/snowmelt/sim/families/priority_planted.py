"""Known bugs of the priority family's own machine, which its lives must find.

Each was there once, or might have been: a part of the machine without one of its rules. A machine
with such a bug is one whose part has been replaced by that.
"""

from collections.abc import Mapping
from random import Random
from typing import Any

import msgspec

from snowmelt.core.instant import Duration, Instant
from snowmelt.core.names import NodeId, OperationId
from snowmelt.core.node import Effect, Event
from snowmelt.protocols.priority import PriorityNode
from snowmelt.protocols.priority.anchor import Anchor
from snowmelt.protocols.priority.batches import Share, Shares
from snowmelt.protocols.priority.calls import Get, Put
from snowmelt.protocols.priority.confirming import Confirming
from snowmelt.protocols.priority.copies import Copies
from snowmelt.protocols.priority.door import Door
from snowmelt.protocols.priority.hand import GetInHand, Memory
from snowmelt.protocols.priority.home import Home
from snowmelt.protocols.priority.leases import Leases
from snowmelt.protocols.priority.limits import Limits
from snowmelt.protocols.priority.messages import Kept, Mark, Spare, Store, Word
from snowmelt.protocols.priority.queue import NO_GETS, Here, Queue
from snowmelt.protocols.priority.repair import Repair
from snowmelt.protocols.priority.reports import Reports
from snowmelt.protocols.priority.rules import Rule, Rules
from snowmelt.protocols.priority.settings import How, State
from snowmelt.protocols.priority.shelf import Shelf
from snowmelt.protocols.priority.spreading import Outcome, Spreading
from snowmelt.protocols.priority.standing import Standing
from snowmelt.protocols.priority.writing import Task
from snowmelt.sim.families.lone_planted import early, spoil_lone
from snowmelt.sim.families.seap_planted import spoil_phases
from snowmelt.sim.planted import PRIORITY_BUGS, SEAP_BUGS, Bug


class NumberingAnchor(Anchor):
    """Gives positions that the anchor of an earlier epoch has given."""

    def forget_epoch(self) -> None:
        """Each row goes on after the last that is known to be free, or gone."""
        for row in self._rows:
            row.next = max([one.stop for one in (*row.free, *row.gone)], default=0)

    def check(self) -> None:
        """It does not notice."""


class LastAnchor(Anchor):
    """Takes the last of the most urgent first."""

    def _taken(self, count: int) -> Shares:
        shares: list[Share] = []
        for row in self._by_urgency:
            intervals = tuple(row.free)[::-1]
            for interval in intervals[:count]:
                row.free.remove(interval.split(1)[0])
                shares.append(Share(row.priority, (interval.split(1)[0],)))
                count -= 1
        return tuple(shares[:1]) if len(shares) == 1 else tuple(_by_row(shares))


def _by_row(shares: list[Share]) -> list[Share]:
    rows: dict[int, Share] = {}
    for share in shares:
        held = rows.get(share.priority, Share(share.priority, ()))
        rows[share.priority] = Share(share.priority, held.intervals + share.intervals)
    return list(rows.values())


class TrustingRules(Rules):
    """Looks at no token: whoever had an element once may say what became of it."""

    def of(self, word: Word) -> Rule:
        """What is leased, under whatever token, is gone."""
        if word.how != How.DONE:
            return super().of(word)

        def rule(was: Standing) -> Standing | None:
            live = was.state in (State.LEASED, State.FREE)
            return Standing(was.epoch, was.turn, State.GONE) if live else None

        return rule


class SilentReports(Reports):
    """Forgets to tell the anchor of what is free again."""

    def add(self, back: Shares = (), gone: Shares = (), void: Shares = ()) -> None:
        del back
        super().add((), gone, void)


class HastyDoor(Door):
    """Does not ask whether an operation was begun elsewhere."""

    def put(self, operation: OperationId, call: Put) -> None:
        """As if it had come here first."""
        super().put(operation, msgspec.structs.replace(call, via=self._desk.via))

    def get(self, operation: OperationId, call: Get) -> None:
        """As if it had come here first."""
        super().get(operation, msgspec.structs.replace(call, via=self._desk.via))


class NeverConfirming(Confirming):
    """Never asks whether the view still is."""

    def needed(self, one: GetInHand) -> bool:
        del one
        return False


class LoneSpreading(Spreading):
    """Waits for this node's own disk alone."""

    def flushed(self, number: int, refused: str = "") -> Outcome | None:
        one = self._open.get(number)
        if one is not None:
            one.waits = 1
        return super().flushed(number, refused)


class IdleRepair(Repair):
    """Tells those who need not have copies to erase them before those who should have them do."""

    @property
    def done(self) -> bool:
        return True

    def next_copy(self, wanted: list[Share]) -> tuple[NodeId, Shares] | None:
        del wanted
        return None


class ScantRepair(Repair):
    """Gives copies to the first of those who lack them, and takes the others for given."""

    def next_copy(self, wanted: list[Share]) -> tuple[NodeId, Shares] | None:
        for node in list(self._owed)[1:]:
            self._owed[node] = ()
        return super().next_copy(wanted)


class UntoldRepair(Repair):
    """Says that nothing is short of copies while they are still being made."""

    @property
    def short(self) -> Shares:
        return ()


class EagerHome(Home):
    """Takes what is for later as if it were for now."""

    def store(self, door: NodeId, message: Store) -> None:
        elements = msgspec.structs.replace(message.elements, due=0)
        super().store(door, msgspec.structs.replace(message, elements=elements))


class ShortLeases(Leases):
    """Lets a lease end after half of its time."""

    def renew(self, token: int, time: Duration) -> None:
        super().renew(token, Duration(time // 2))


class DeafQueue(Queue):
    """Does not believe what others say is gone."""

    def settled(
        self,
        told: Mapping[NodeId, Kept],
        interrupted: Mapping[OperationId, int] = NO_GETS,
        chosen: Shares = (),
    ) -> None:
        """All that anybody stores is there."""
        deaf = {node: _without_gone(kept) for node, kept in told.items()}
        super().settled(deaf, interrupted, chosen)


def _without_gone(kept: Kept) -> Kept:
    marks = tuple([mark for mark in kept.marks if mark.state < State.GONE])
    return msgspec.structs.replace(kept, gone=(), marks=marks)


class SilentCopies(Copies):
    """Knows nothing any more of what it erased in this view."""

    def spare(self, message: Spare) -> None:
        self._shelf.spare(message.shares)


class RevivingShelf(Shelf):
    """Takes the later word about what is gone."""

    def mark(self, *marks: Mark) -> None:
        """Every tenth element that is done is put back."""
        super().mark(*[_revived(mark) for mark in marks])


def _revived(mark: Mark) -> Mark:
    if mark.state == State.GONE and mark.token % 10 == 0:
        return msgspec.structs.replace(mark, state=State.FREE)
    return mark


class ForgetfulMemory(Memory):
    """Does not know what it answered."""

    def get(self, operation: OperationId) -> Any:
        del operation


class Spoiled(PriorityNode):
    """A machine some of whose parts have been replaced."""

    def __init__(
        self, bug: Bug, me: NodeId, chance: Random, limits: Limits, *, alone: bool, on_disk: bool
    ) -> None:
        alone = alone or bug is Bug.TAKEN_FOR_ALONE
        super().__init__(me, chance, alone=alone, limits=limits, on_disk=on_disk)
        self._bug = bug

    def handle(self, event: Event[Any], now: Instant) -> list[Effect[Any]]:
        """As the machine does, with what it then consists of."""
        effects = super().handle(event, now)
        for queue in self._queues.all.values():
            self._spoil(queue)
            if queue.here is not None:
                self._spoil_here(queue.here)
        return effects

    def _flushed(self, tasks: list[Task]) -> None:
        if self._bug is Bug.OLD_FLUSH:
            tasks = [msgspec.structs.replace(task, era=self._desk.era) for task in tasks]
        super()._flushed(tasks)

    def _settle(self) -> None:
        super()._settle()
        if self._bug is Bug.EARLY_LONE:
            while tasks := early(self._desk.disk, self._queues.all):
                self._flushed(tasks)
                super()._settle()

    def _spoil(self, queue: Queue) -> None:
        match self._bug:
            case Bug.SILENT_RETURN:
                queue.door._reports.__class__ = SilentReports  # noqa: SLF001 - it is spoiled
            case Bug.HASTY_DOOR:
                queue.door.__class__ = HastyDoor
            case Bug.UNCONFIRMED:
                queue.door._answering._confirming.__class__ = NeverConfirming  # noqa: SLF001 - it is spoiled
            case Bug.DEAF_SETTLING:
                queue.__class__ = DeafQueue
            case Bug.REVIVED_ELEMENT:
                queue.shelf.__class__ = RevivingShelf
            case Bug.FORGOTTEN_OPERATION:
                queue.door._hand.answered.__class__ = ForgetfulMemory  # noqa: SLF001 - it is spoiled
            case _:
                pass

    def _spoil_here(self, here: Here) -> None:
        anchor = here.gathering.anchor
        match self._bug:
            case Bug.REUSED_POSITION if type(anchor) is Anchor:
                numbering = anchor
                numbering.__class__ = NumberingAnchor
                assert isinstance(numbering, NumberingAnchor)
                numbering.forget_epoch()
            case Bug.LAST_FIRST if type(anchor) is Anchor:
                anchor.__class__ = LastAnchor
            case Bug.IGNORED_TOKEN:
                here.home._rules.__class__ = TrustingRules  # noqa: SLF001 - it is spoiled
            case Bug.LONE_COPY:
                here.home.spreading.__class__ = LoneSpreading
            case Bug.IDLE_REPAIR if here.repair is not None:
                here.repair.__class__ = IdleRepair
            case Bug.SCANT_REPAIR if here.repair is not None:
                here.repair.__class__ = ScantRepair
            case Bug.UNTOLD_SHORTAGE if here.repair is not None:
                here.repair.__class__ = UntoldRepair
            case Bug.EAGER_ELEMENT:
                here.home.__class__ = EagerHome
            case Bug.SILENT_SPARING:
                here.copies.__class__ = SilentCopies
            case Bug.SHORT_LEASE:
                here.home._leases.__class__ = ShortLeases  # noqa: SLF001 - it is spoiled
            case _:
                spoil_lone(self._bug, here)
                spoil_phases(self._bug, here)


def machine(
    bug: Bug | None,
    me: NodeId,
    chance: Random,
    limits: Limits,
    *,
    alone: bool = False,
    on_disk: bool = True,
) -> PriorityNode:
    """The priority machine, with this bug in it if it is one of its own."""
    if bug is not None and bug in (*PRIORITY_BUGS, *SEAP_BUGS):
        return Spoiled(bug, me, chance, limits, alone=alone, on_disk=on_disk)
    return PriorityNode(me, chance, alone=alone, limits=limits, on_disk=on_disk)
