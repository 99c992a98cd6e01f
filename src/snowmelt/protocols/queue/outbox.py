"""What the parts of a node share: the clock, what goes out, and what the controller writes.

The parts never touch each other's state; they speak by messages, also within one node. A message
to oneself is worked off before anything is written, so that what it changes is in the same write.

The controller's homes are written one write at a time. While it is under way, what is to be written
gathers, and goes in one piece when it is done; a record that changed ten times is written once.
(Copies of queues are written by `write_queue.py`.)

Each leader has a `LeaderOutbox`. What it asks to be woken for wakes it alone, so a node's idle
work does not grow with its queues; what other parts ask for wakes the node's own parts.
"""

from collections import deque
from copy import deepcopy
from itertools import count
from random import Random
from typing import Any, Final

import msgspec

from snowmelt.core.ahead import is_far
from snowmelt.core.ends import Ends
from snowmelt.core.instant import Instant, later, milliseconds, seconds
from snowmelt.core.names import NodeId, OperationId
from snowmelt.core.node import (
    Effect,
    Note,
    Persist,
    Persisted,
    PersistFailed,
    Reply,
    Send,
)
from snowmelt.core.record import Change, Write
from snowmelt.protocols.calling import Declined, Payers
from snowmelt.protocols.queue.api.calls import SECRET_BYTES
from snowmelt.protocols.queue.limits import LIMITS, QueueLimits
from snowmelt.protocols.queue.streams import Presence, keeper_of, stream_of

NODE: Final = ""
"""The name that stands for the node's own parts, where queues are woken by theirs."""
REST: Final = "\0"
"""The name for what is left of a turn that was long enough."""
AGAIN_AFTER: Final = milliseconds(1000)
ANSWERS_FOR: Final = seconds(1)
"""So long after a question was passed on its answers are, too."""
TERMS_AHEAD: Final = 1 << 14
"""So many terms a node can have missed: four times a cluster was founded anew (`rescuing.py`)."""


class WakeTimes(Ends[str]):
    """Whom to wake: for each queue the earliest moment it asked for. Idle ones cost nothing."""

    def wake(self, name: str, at: Instant) -> None:
        """This one is to be woken then, or before."""
        known = self._ends.get(name)
        if known is None or at < known:
            self.put(name, at)

    def before(self, at: Instant | None) -> Instant | None:
        """The next moment that was asked for, if it comes before this one; of nothing, any does."""
        heap = self._heap
        if not heap or (at is not None and at <= heap[0][0]):
            return None
        found = self.next
        return found if found is None or at is None or found < at else None


class Job(msgspec.Struct):
    """Changes that belong together, and what depends on them."""

    changes: tuple[Change, ...]
    then: msgspec.Struct
    """What this node is told when they are flushed."""


class SaidAgain(msgspec.Struct, frozen=True):
    """Within this node: another may not have heard this, and is told by the coordinator as well."""

    target: NodeId
    message: Any


class Outbox:
    """The clock, the outbox and the controller's writes of one node."""

    def __init__(
        self,
        me: NodeId,
        chance: Random,
        limits: QueueLimits = LIMITS,
        secrets: Random | None = None,
    ) -> None:
        self.me = me
        self.chance = chance
        self._secrets = secrets
        self.limits = limits
        self.now = Instant(0)
        self.inside: deque[Any] = deque()
        """What parts said to each other, to be worked off before anything is written."""
        self.alarms = WakeTimes()
        self._wall_minus_now = 0
        self._clock_minus_now = 0
        self._effects: list[Effect[Any]] = []
        self.presence: Presence | None = None
        self.coordinator: NodeId | None = None
        """Who decides on homes; nobody while this node is cut off."""
        self._doubted: dict[NodeId, Instant] = {}
        """Who may not hear this node, and until when its answers go by the coordinator as well."""
        self.payers = Payers()
        self.keeper = ""
        self.stream = ""
        self.due: Instant | None = None
        """When the disk must begin to write; None when there is nothing to write."""
        self._jobs: list[Job] = []
        self._tickets = count(1)
        self.writing: tuple[int, list[Job]] | None = None
        """The write that is under way; until it is done no other can begin."""
        self._flushed: deque[Job] = deque()
        """What is on the disk, and what depends on it not done yet."""

    # --- the clock and who is here ----------------------------------------------------------------

    def set_wall(self, wall: int, now: Instant) -> None:
        self._wall_minus_now = self._clock_minus_now = wall - now

    def see_clock(self, wall: int, now: Instant) -> None:
        """What the clock shows by now: it may have been set since this run began."""
        self._clock_minus_now = wall - now

    @property
    def wall(self) -> int:
        return self.now + self._wall_minus_now

    @property
    def clock(self) -> int:
        """The wall clock as it was seen last; unlike `wall`, it may go back in a run."""
        return self.now + self._clock_minus_now

    def instant_of(self, wall: int) -> Instant:
        """When the wall clock will show this."""
        return Instant(wall - self._wall_minus_now)

    def moment(self, due: int) -> int:
        """When that is by the wall clock of this node; below 0 it is told as so long from now.

        So a delay is as long as it was meant, whatever the clock of whoever asked for it shows, or
        this one.
        """
        return self.wall - due if due < 0 else due

    def secret(self) -> bytes:
        """Drawn for a lease; none where all who ask are one (`QueueNode`)."""
        return b"" if self._secrets is None else self._secrets.randbytes(SECRET_BYTES)

    def wake(self, at: Instant) -> None:
        """Asks for a tick of the node's own parts at this instant, or before."""
        self.alarms.wake(NODE, at)

    def set_presence(self, presence: Presence | None) -> None:
        """Who is here, as of a new view; None when this node is cut off."""
        self.presence = presence
        self.coordinator = None if presence is None else presence.view.coordinator
        self._doubted.clear()
        if presence is not None:
            member = presence.view.member(self.me)
            assert member is not None, "a node is told only of views that it is in"
            self.keeper, self.stream = keeper_of(member), stream_of(member)

    # --- out --------------------------------------------------------------------------------------

    def send(self, target: NodeId, message: Any) -> None:
        if target == self.me:
            self.inside.append(message)
        else:
            self._effects.append(Send(target, message))

    def to_coordinator(self, message: Any) -> None:
        """Nobody hears it while this node is cut off."""
        if self.coordinator is not None:
            self.send(self.coordinator, message)

    def send_again(self, target: NodeId, message: Any) -> None:
        """What had no answer goes by the coordinator as well (`router/router.py`)."""
        self.send(target, message)
        self.inside.append(SaidAgain(target, message))

    def doubt(self, node: NodeId) -> None:
        """It may not hear this one: its answers go by the coordinator as well, for a while."""
        self._doubted[node] = later(self.now, ANSWERS_FOR)

    def answer(self, target: NodeId, message: Any) -> None:
        """Goes the way that the question came, too."""
        if self._doubted and self._doubted.get(target, self.now) > self.now:
            self.send_again(target, message)
        else:
            self.send(target, message)

    def reply(self, operation: OperationId, message: Any) -> None:
        self._effects.append(Reply(operation, message))

    def decline(self, operation: OperationId, error: str, text: str) -> None:
        self._effects.append(Reply(operation, Declined(error, text)))

    def note(self, text: str) -> None:
        self._effects.append(Note(text))

    def effect(self, effect: Effect[Any]) -> None:
        self._effects.append(effect)

    def alarm(self, source: str, queue: str, term: int, mine: int) -> bool:
        """Whether a term is one that nobody can have counted to; it is told, and not gone by."""
        if not is_far(term, mine, TERMS_AHEAD):
            return False
        self.note(f"alarm: {source} speaks of term {term} of {queue}, and {mine} is known here")
        return True

    def taken(self) -> list[Effect[Any]]:
        """What goes out, in order; the outbox is empty afterwards."""
        effects, self._effects = self._effects, []
        return effects

    # --- the disk ---------------------------------------------------------------------------------

    def write(self, changes: tuple[Change, ...], then: msgspec.Struct) -> None:
        """Asks for changes; `then` is said to oneself when they are flushed."""
        self._jobs.append(Job(changes, then))
        if self.due is None:
            self.due = self.now

    def begin_write(self) -> None:
        jobs, self._jobs, self.due = self._jobs, [], None
        ticket = next(self._tickets)
        self.writing = ticket, jobs
        self._effects.append(Persist(ticket, merged([one for job in jobs for one in job.changes])))

    def written(self, event: Persisted | PersistFailed) -> None:
        """The write is done; one that found no room is tried again until there is some."""
        assert self.writing is not None
        ticket, jobs = self.writing
        assert ticket == event.ticket, "writes are answered in the order asked"
        self.writing = None
        if type(event) is Persisted:
            self._flushed.extend(jobs)
            self.finish()
        else:
            self._jobs = [*jobs, *self._jobs]
            self.due = later(self.now, AGAIN_AFTER)

    def finish(self) -> None:
        """Does what depends on what is flushed, in order; of thousands, some a turn."""
        for _ in range(min(len(self._flushed), self.limits.told)):
            self.inside.append(self._flushed.popleft().then)
        if self._flushed:
            self.alarms.wake(REST, self.now)


class LeaderOutbox(Outbox):
    """The outbox as one leader uses it: what it asks to be woken for wakes its queue.

    >>> outbox = Outbox(NodeId("n1"), Random(1))
    >>> leader = LeaderOutbox(outbox, "orders")
    >>> outbox.now = Instant(7); leader.now
    7
    >>> leader.wake(Instant(8)); outbox.alarms.over(outbox.now), outbox.alarms.over(Instant(8))
    ([], ['orders'])
    """

    __slots__ = ("_outbox", "_queue")

    def __init__(self, outbox: Outbox, queue: str) -> None:
        self.__dict__ = outbox.__dict__  # there is one outbox: what one changes, all see
        self._outbox = outbox
        self._queue = queue

    def __deepcopy__(self, memo: dict[int, Any]) -> "LeaderOutbox":
        return LeaderOutbox(deepcopy(self._outbox, memo), self._queue)

    def wake(self, at: Instant) -> None:
        """Asks for a tick of this queue's leader at this instant, or before."""
        self.alarms.wake(self._queue, at)


def merged(changes: list[Change]) -> tuple[Change, ...]:
    """All of these in order, without those that a later one writes over."""
    places = [change.key if type(change) is Write else change for change in changes]
    if len(set(places)) == len(places):  # as nearly always
        return tuple(changes)
    last: dict[bytes | Change, Change] = {}
    for place, change in zip(places, changes, strict=True):
        last.pop(place, None)
        last[place] = change
    return tuple(last.values())
