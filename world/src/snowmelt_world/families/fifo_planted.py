"""Known bugs of the queue's own machine, which its lives must find.

Each was there once, or might have been: a part of the machine without one of its rules. A machine
with such a bug is one whose part has been replaced by that.
"""

from random import Random
from typing import Any

from msgspec.structs import replace

from snowmelt.core.instant import Instant
from snowmelt.core.interval import Interval
from snowmelt.core.names import NodeId, OperationId
from snowmelt.core.node import Effect, Event
from snowmelt.core.record import Change
from snowmelt.protocols.queue import QueueNode
from snowmelt.protocols.queue.api import calls
from snowmelt.protocols.queue.controller.homes import Homes
from snowmelt.protocols.queue.erasing import Erasing
from snowmelt.protocols.queue.follower.follower_role import FollowerRole
from snowmelt.protocols.queue.leader.deadlines import Deadlines
from snowmelt.protocols.queue.leader.leader import Leader
from snowmelt.protocols.queue.leader.settling import Settling
from snowmelt.protocols.queue.leader.terms import Terms
from snowmelt.protocols.queue.limits import QueueLimits
from snowmelt.protocols.queue.messages import words
from snowmelt.protocols.queue.messages.home_words import Assignment
from snowmelt.protocols.queue.node_drain import NodeDrain
from snowmelt.protocols.queue.replication.follower_progress import Followers
from snowmelt.protocols.queue.replication.in_sync import InSync
from snowmelt.protocols.queue.replication.takeover import TakeOver
from snowmelt.protocols.queue.state.producers import Producers, ProducerState
from snowmelt.protocols.queue.store.copy import Copy
from snowmelt_world.planted import QUEUE_BUGS, Bug


class HastyInSync(InSync):
    """Counts a step as on enough disks when its own has it."""

    def has(self, own: int) -> int:
        """As if nobody else were needed."""
        return own


class HastyFollowing(FollowerRole):
    """Tells its leader of a step before it is flushed."""

    def _take(self, source: NodeId, copy: Copy, step: words.Append) -> None:
        keeper = self._outbox.keeper
        self._outbox.send(source, words.Appended(step.queue, step.term, keeper, step.head))
        super()._take(source, copy, step)


class SkippingFollowing(FollowerRole):
    """Takes any later step, whichever it goes behind."""

    def append(self, source: NodeId, step: words.Append) -> None:
        """As if none were ever missing."""
        copy = self.follows(source, step.queue, step.term)
        if copy is not None and copy.whole and copy.head.step < step.head.step:
            self._take(source, copy, step)


class ContentTerms(Terms):
    """Goes on from its own copy, whatever the others have."""

    def choose(self, queue: str, taking: TakeOver) -> None:
        """Its own is as good as any."""
        if taking.fenced and self._outbox.keeper in taking.heads:
            self.lead(queue, taking)


class OpenCopy(Copy):
    """Takes steps of every term."""

    def raise_fence(self, term: int) -> tuple[Change, ...]:
        """No fence is raised."""
        del term
        return self._kept()


class MergingProducers(Producers):
    """With too many intervals, takes what lies between two of them for put."""

    def _bound(self, known: ProducerState) -> None:
        while known.numbers.pieces > self._limits.producer_gaps:
            first, second, *_ = known.numbers
            known.numbers.add(Interval(first.start, second.stop))


class LateDeadlines(Deadlines):
    """Tells a lease with the whole of its time, however much of it is over."""

    def left(self, token: int, now: Instant) -> Any:
        """As long as a lease lasts."""
        return self._lease if super().left(token, now) > 0 else 0


class ForgetfulSettling(Settling):
    """Asked again what it has settled, it settles it again, or finds nothing to settle."""

    def settle(self, operation: OperationId, settle: calls.Settle) -> Any:
        """Anew each time."""
        self._state.enders.pop(settle.token, None)
        said = self._settled(operation, settle)
        self._state.enders.pop(settle.token, None)
        return said


class PatientFollowers(Followers):
    """Waits for a follower that it can't reach, and asks for no other."""

    def _complain(self) -> None:
        pass


class ForgetfulHomes(Homes):
    """Makes a queue as if none of its name had ever been there."""

    def next_term(self, queue: str) -> int:
        """Above the last, if it is there."""
        return self.known[queue].term + 1 if queue in self.known else self.first_term


class HastyErasing(Erasing):
    """Says that a copy is erased, which it keeps, as one that is no use any more."""

    def made(self, queue: str, since: int, first: int = 0) -> None:
        """Nothing is erased."""
        copy = self._copies.known(queue)
        if copy is not None and first <= copy.fence < since:
            self._terms.resign(queue)


class KeepingErasing(Erasing):
    """Keeps a copy that no home names."""

    def heard(self, source: NodeId, home: Assignment) -> None:
        """Nothing is erased."""


class EarlyErasing(Erasing):
    """Erases a copy that a home does not name, before anybody else has what it has."""

    def heard(self, source: NodeId, home: Assignment) -> None:
        """As if it were active."""
        super().heard(source, replace(home, active=True))


class EarlyLeaving(NodeDrain):
    """A node that is drained is empty at once, whatever is on its disk still."""

    @property
    def is_empty(self) -> bool:
        """As soon as it was asked."""
        return self._drains


class Spoiled(QueueNode):
    """A machine some of whose parts have been replaced."""

    def __init__(self, bug: Bug, me: NodeId, chance: Random, limits: QueueLimits) -> None:
        super().__init__(me, chance, limits=limits)
        self._bug = bug
        match bug:
            case Bug.TOLD_UNFLUSHED:
                self._following.__class__ = HastyFollowing
            case Bug.SKIPPED_STEP:
                self._following.__class__ = SkippingFollowing
            case Bug.FORGOTTEN_GRAVE:
                self._controller._kept.__class__ = ForgetfulHomes  # noqa: SLF001 - it is spoiled
            case Bug.LEFT_COPY:
                self._erasing.__class__ = HastyErasing
            case Bug.KEPT_COPY:
                self._erasing.__class__ = KeepingErasing
            case Bug.EARLY_ERASING:
                self._erasing.__class__ = EarlyErasing
            case Bug.EARLY_EMPTY:
                self._leaving.__class__ = EarlyLeaving
            case Bug.STALE_COPY:
                self._terms.__class__ = ContentTerms
            case _:
                pass
        self._hears = self._table()

    def handle(self, event: Event[Any], now: Instant) -> list[Effect[Any]]:
        """As the machine does, with what it then consists of."""
        effects = super().handle(event, now)
        for leader in self._terms.leaders.values():
            self._spoil(leader)
        if self._bug is Bug.UNFENCED:
            for queue in self._copies:
                self._copies.of(queue).__class__ = OpenCopy
        return effects

    def _spoil(self, leader: Leader) -> None:
        match self._bug:
            case Bug.COUNTED_EARLY:
                leader.log._in_sync.__class__ = HastyInSync  # noqa: SLF001 - it is spoiled
            case Bug.MERGED_NUMBERS:
                leader.state.producers.__class__ = MergingProducers
            case Bug.LATE_LEASE:
                leader.delivery._deadlines.__class__ = LateDeadlines  # noqa: SLF001 - it is spoiled
            case Bug.FORGOTTEN_ANSWER:
                leader.settling.__class__ = ForgetfulSettling
            case Bug.CUT_ENDURED:
                leader.followers.__class__ = PatientFollowers
            case _:
                pass


def machine(
    bug: Bug | None,
    me: NodeId,
    chance: Random,
    limits: QueueLimits,
    *,
    on_disk: bool = True,
    secrets: Random | None = None,
) -> QueueNode:
    """The queue's machine, with this bug in it if it is one of its own."""
    if bug in QUEUE_BUGS:
        return Spoiled(bug, me, chance, limits)
    return QueueNode(me, chance, limits=limits, on_disk=on_disk, secrets=secrets)
