"""The master of one queue, in one term: it orders, and never touches a body.

1. Nothing is told that is not safe in the journal: not an admission, not a lease, not an
   acknowledgement (`journal.py`, rule 2).
2. A lease is found again by the operation that asked for it, so a get that is asked twice is
   answered with the same items.
3. What is said about a lease counts only while the lease lasts; after that its items may be with
   another. An acknowledgement of what was acknowledged under the same token is repeated, not wrong.
4. A get that finds nothing waits without cost; gets are served in the order in which they came.
5. Items go back to their own positions, and are the next to be handed out.
"""

from typing import Final

from snowmelt.core.instant import Instant, later
from snowmelt.core.interval import Interval
from snowmelt.core.names import OperationId
from snowmelt.protocols.fifo.admission import Admission
from snowmelt.protocols.fifo.calls import (
    Changed,
    Describe,
    Get,
    Leased,
    Part,
    Pause,
    Peek,
    Peeked,
    Purge,
    QueueStatus,
    Redrive,
    Settle,
    Settled,
    Span,
)
from snowmelt.protocols.fifo.desk import Desk, Seat
from snowmelt.protocols.fifo.grouping import Grouping
from snowmelt.protocols.fifo.handing import Handing
from snowmelt.protocols.fifo.journal import Journal, remind_mirrors
from snowmelt.protocols.fifo.keeper import Keeper
from snowmelt.protocols.fifo.leases import Lease
from snowmelt.protocols.fifo.messages import Drop, Extent, Home
from snowmelt.protocols.fifo.publishing import Publishing
from snowmelt.protocols.fifo.queue import Lost, living_bytes
from snowmelt.protocols.fifo.repair import Repair
from snowmelt.protocols.fifo.streams import node_of
from snowmelt.protocols.fifo.waiting import Waiting, WaitingGet

REDRIVE_EVERY: Final = 10**8


class Master:
    """One queue's master, while it serves."""

    def __init__(self, desk: Desk, keeper: Keeper, home: Home, journal: Journal) -> None:
        desk = Seat(desk, home.queue)
        self.home = home
        self.journal = journal
        self.waiting = Waiting()
        self.repair = Repair(desk, journal, self.dropped)
        self.publishing = Publishing(desk, journal, self.repair.watch, self.dropped)
        self.admission = Admission(
            desk, journal, self.waiting, self.repair.watch, self.publishing.stage
        )
        self.grouping = Grouping(desk, journal, self.group_dropped)
        self._desk = desk
        self._queue = journal.queue
        self._keeper = keeper
        self._answered: dict[OperationId, None] = {}
        self._redriving: tuple[int, Instant] | None = None

    # --- items out --------------------------------------------------------------------------------

    def get(self, operation: OperationId, get: Get) -> None:
        """A consumer wants items (rules 2 and 4)."""
        waiting = self.waiting.gets.get(operation)
        if waiting is not None:  # asked again; what it settles was settled, or refused, then
            waiting.asked = self._desk.now
            return
        refused = "" if get.settle is None else self._settled(get.settle)
        lease = self._queue.leases.of(operation)
        if lease is not None:
            self._hand(operation, lease, get, refused)
        elif operation in self._answered:  # it had nothing, or is done with what it had
            self._empty(operation, refused)
        elif not self._lease(operation, get, refused):
            if get.patience > 0:
                self.waiting.add_get(operation, get, refused, self._desk.now)
                self._desk.wake(later(self._desk.now, get.patience))
            else:
                self._empty(operation, refused)

    def _lease(self, operation: OperationId, get: Get, refused: str) -> bool:
        items_max = min(get.items_max, self._desk.limits.get_items)
        bytes_max = max(1, get.bytes_max)
        lease = self._queue.lease(operation, items_max, bytes_max, self._desk.now)
        if lease is None:
            return False
        self._desk.wake(lease.deadline)
        self._answer(operation)
        self._hand(operation, lease, get, refused)
        return True

    def _hand(self, operation: OperationId, lease: Lease, get: Get, refused: str) -> None:
        """Rule 1: once the lease is safe, what this node keeps of it goes along."""
        left = list(lease.left)

        def told(parts: tuple[Part, ...], spans: tuple[Span, ...]) -> None:
            time = self._queue.settings.lease
            self._desk.reply(operation, Leased(lease.token, parts, spans, time, refused))

        handing = Handing(self._desk, self._keeper, self._queue, get.bytes_max, told)
        self.journal.after(lambda: handing.hand(left))

    def _empty(self, operation: OperationId, refused: str) -> None:
        self._answer(operation)
        answer = Leased(0, (), (), self._queue.settings.lease, refused)
        self.journal.after(lambda: self._desk.reply(operation, answer))

    def _answer(self, operation: OperationId) -> None:
        self._answered[operation] = None
        if len(self._answered) > self._desk.limits.answered:
            del self._answered[next(iter(self._answered))]

    def serve(self) -> None:
        """Items may have become ready."""
        if self.waiting.gets and self._queue.ready.total:
            self.waiting.serve(self._lease_waiting, self._desk.now)

    def _lease_waiting(self, waiting: WaitingGet) -> bool:
        return self._lease(waiting.operation, waiting.get, waiting.refused)

    # --- leases -----------------------------------------------------------------------------------

    def settle(self, operation: OperationId, settle: Settle) -> None:
        """A consumer says what became of its items (rule 3)."""
        refused = self._settled(settle)
        if refused:
            self._desk.decline(operation, "LeaseLost", refused)
            return
        lease = self._queue.leases.held(settle.token)
        answer = Settled(0 if lease is None else lease.left.total)
        self.journal.after(lambda: self._desk.reply(operation, answer))

    def _settled(self, settle: Settle) -> str:
        """Does what is asked; or changes nothing and says why."""
        queue = self._queue
        lease = queue.leases.held(settle.token)
        if lease is None:
            if settle.token in queue.leases.settled and not settle.back:
                return ""
            return (
                f"lease {settle.token} of queue {queue.name!r} is not held any more: its time was "
                "over, or it was given back; its items may be with another consumer"
            )
        for interval in settle.done:
            strange = _not_held(queue.alive.common(interval), lease)
            if strange is not None:
                return f"position {strange} is not held under lease {lease.token}"
        self.dropped(queue.settle(lease, list(settle.done)))
        queue.give_back(lease, list(settle.back), settle.due, settle.reason)
        if settle.due:
            self._desk.wake(self._desk.instant_of(settle.due))
        if settle.extend and lease.left.total:
            queue.leases.extend(lease, self._desk.now)
            self._desk.wake(lease.deadline)
        self.admission.room()
        return ""

    def group_dropped(self, lost: list[Lost]) -> None:
        """A group is done with something: there may be room now."""
        self.dropped(lost)
        self.admission.room()

    def dropped(self, lost: list[Lost]) -> None:
        """When it is safe that nobody needs these, their keepers may drop them."""
        if not lost:
            return
        by_keeper: dict[str, list[Extent]] = {}
        for one in lost:
            for keeper in one.keepers:
                by_keeper.setdefault(keeper, []).append(one.extent)

        def safe() -> None:
            for keeper, extents in by_keeper.items():
                self._desk.send(node_of(keeper), Drop(self._queue.name, tuple(extents)))

        self.journal.after(safe)

    # --- the queue as a whole ---------------------------------------------------------------------

    def peek(self, operation: OperationId, peek: Peek) -> None:
        """Shows items and takes nothing."""
        source = self._queue.dead if peek.dead else self._queue.ready
        wanted, left = [], min(peek.items_max, self._desk.limits.get_items)
        for interval in source.common(Interval(peek.start, max(peek.start, self._queue.tail))):
            part, _ = interval.split(left)
            left -= part.size
            if part.size:
                wanted.append(part)

        def told(parts: tuple[Part, ...], spans: tuple[Span, ...]) -> None:
            self._desk.reply(operation, Peeked(parts, spans))

        handing = Handing(self._desk, self._keeper, self._queue, peek.bytes_max, told)
        self.journal.after(lambda: handing.hand(wanted))

    def purge(self, operation: OperationId, purge: Purge) -> None:
        """Removes what waits, or what is dead."""
        count, lost = self._queue.purge(dead=purge.dead)
        self.dropped(lost)
        self.admission.room()
        self.journal.after(lambda: self._desk.reply(operation, Changed(count)))

    def pause(self, operation: OperationId, pause: Pause) -> None:
        """Stops handing out, or goes on."""
        self._queue.pause(paused=pause.paused)
        self.journal.after(lambda: self._desk.reply(operation, Changed(0)))

    def redrive(self, operation: OperationId, redrive: Redrive) -> None:
        """Brings dead items back, all or so many a second."""
        count = self._queue.dead.total
        if redrive.per_second:
            self._redriving = redrive.per_second, self._desk.now
            self._desk.wake(self._desk.now)
        else:
            self._queue.redrive(count)
        self.journal.after(lambda: self._desk.reply(operation, Changed(count)))

    def describe(self, operation: OperationId, describe: Describe) -> None:
        """How the queue is."""
        del describe
        queue = self._queue
        status = QueueStatus(
            queue=queue.name,
            settings=queue.settings,
            master=self._desk.me,
            mirrors=tuple(node_of(keeper) for keeper in self.home.mirrors),
            term=self.home.term,
            paused=queue.paused,
            ready=queue.ready.total,
            delayed=queue.delays.total,
            leased=queue.leases.items,
            dead=queue.dead.total,
            bytes=living_bytes(queue),
            tail=queue.tail,
            done=queue.done,
            lost=queue.lost,
            waiting_gets=len(self.waiting.gets),
            waiting_puts=len(self.waiting.puts),
            extents=len(queue.runs),
            short_of_copies=self.repair.short_of_copies(),
            producers=len(queue.producers),
            assigned=queue.groups.items,
            staged=queue.staged.items,
        )
        self.journal.after(lambda: self._desk.reply(operation, status))

    def check(self) -> None:
        """Every living item is in one state at most, and lies in a run."""
        self._queue.check()

    # --- time -------------------------------------------------------------------------------------

    def tick(self) -> None:
        """Ends what is over; asks again; and says when it wants to be woken next."""
        desk, queue = self._desk, self._queue
        for lease in queue.expire(desk.now, desk.wall):
            desk.note(f"{queue.name}: lease {lease.token} of {lease.operation.client} ended")
        for over in self.waiting.over(desk.now):
            self._empty(over.operation, over.refused)
        self.admission.tick()
        self.publishing.tick()
        self._redrive_some()
        self.repair.tick()
        remind_mirrors(desk, self.journal)
        self._wake()

    def _redrive_some(self) -> None:
        if self._redriving is None:
            return
        rate, since = self._redriving
        due = (self._desk.now - since) * rate // 10**9
        if due:
            self._queue.redrive(due)
            self._redriving = rate, Instant(since + due * 10**9 // rate)
        if self._queue.dead.total:
            self._desk.wake(Instant(self._desk.now + max(REDRIVE_EVERY, 10**9 // rate)))
        else:
            self._redriving = None

    def _wake(self) -> None:
        due = self._queue.next_due()
        instants = [self._queue.leases.next_deadline, self.waiting.next_deadline()]
        presence = self._desk.presence
        here = () if presence is None else presence.keepers
        instants += [None if due is None else self._desk.instant_of(due), self.journal.again(here)]
        for instant in instants:
            if instant is not None:
                self._desk.wake(instant)


def _not_held(parts: list[Interval], lease: Lease) -> int | None:
    """The first of these living positions that is not held under a lease."""
    for part in parts:
        if not lease.left.covers(part):
            held = lease.left.common(part)
            return part.start if not held or held[0].start > part.start else held[0].stop
    return None
