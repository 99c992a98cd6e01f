"""The master of one queue, in one term: it orders, and never touches a body.

1. Nothing is told that is not safe in the journal: not an admission, not a lease, not an
   acknowledgement (`journal.py`, rule 2).
2. The same question gets the same answer. A lease is found again by the operation that asked for
   it; what a settlement, a purge or a redrive came to is remembered (`answers.py`), and not done
   again. Which settlement ended a lease is in the journal: the next master is asked again, too.
   A get whose lease ran out while it was still asked for was never told, and asks anew.
3. What is said about a lease counts only while the lease lasts; after that its items may be with
   another. An acknowledgement of what was acknowledged under the same token is repeated, not wrong.
4. A get that finds nothing waits without cost; gets are served in the order in which they came.
   While something is ready that may have been told as put, and may not be given yet (`early.py`,
   rule 7), none is told that there is nothing: however little patience it has, it waits for that.
5. Items go back to their own positions, and are the next to be handed out.
6. A lease's time begins when it is safe, and so can be told: however long a flush takes, nobody
   else is given its items meanwhile. It is told with the time that is left, and not when none is.
7. What changes nothing (an empty get, items shown, how the queue is, a lease prolonged, whatever is
   refused for good) is told only by who was master when it was asked, as its mirrors confirm
   (`journal.py`, rule 7). No clock has a part in that, so another may go on as soon as this one is
   left out, though it lives and does not know. When it does (`host.py`, rule 6) its masters end,
   and tell nothing read before.
8. What lies with nodes that are away is leased to nobody, so it does not fail: it is passed over
   until one of them is back (`aside.py`). Who gets something, or nothing, is told of it.
"""

from typing import Final

from snowmelt.core.instant import Duration, Instant, later, since
from snowmelt.core.interval import Interval, merged
from snowmelt.core.names import OperationId
from snowmelt.protocols.calling import Declined
from snowmelt.protocols.fifo import calls
from snowmelt.protocols.fifo.admission import Admission
from snowmelt.protocols.fifo.answers import Answers
from snowmelt.protocols.fifo.desk import Desk, Seat
from snowmelt.protocols.fifo.grouping import Grouping
from snowmelt.protocols.fifo.handing import Handing
from snowmelt.protocols.fifo.journal import Journal, remind_mirrors
from snowmelt.protocols.fifo.keeper import Keeper
from snowmelt.protocols.fifo.leases import Lease
from snowmelt.protocols.fifo.messages import Drop, Extent, Home
from snowmelt.protocols.fifo.publishing import Publishing
from snowmelt.protocols.fifo.queue import Lost, Queue, living_bytes, withholds
from snowmelt.protocols.fifo.repair import Repair
from snowmelt.protocols.fifo.streams import node_of
from snowmelt.protocols.fifo.waiting import Waiting, WaitingGet

REDRIVE_EVERY: Final = 10**8


class Master:
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
        self.serving = True
        """Whether this node may still be the master (rule 7)."""
        self._answered: Answers[bool] = Answers(desk.limits.answered)
        """The gets that were given something or nothing."""
        self._done: Answers[calls.Settled | calls.Changed | Declined] = Answers(
            desk.limits.answered
        )
        """What the operations that change something came to; what a get settled is one of them."""
        self._redriving: tuple[int, Instant] | None = None

    # --- items out --------------------------------------------------------------------------------

    def get(self, operation: OperationId, get: calls.Get) -> None:
        """A consumer wants items (rules 2 and 4)."""
        waiting = self.waiting.gets.get(operation)
        if waiting is not None:  # asked again; what it settles was settled, or refused, then
            waiting.asked = self._desk.now
            return
        settled = None if get.settle is None else self._settle_once(operation, get.settle)
        refused = settled.text if isinstance(settled, Declined) else ""
        lease = self._queue.leases.of(operation)
        if lease is not None:
            self._hand(operation, lease, get, refused)
        elif self._answered.of(operation):  # it had nothing, or is done with what it had
            self._empty(operation, refused)
        elif not self._lease(operation, get, refused):
            if get.patience <= 0 and not withholds(self._queue):
                self._empty(operation, refused)
            elif len(self.waiting.gets) >= self._desk.limits.waiting_gets:
                text = f"{len(self.waiting.gets)} gets wait at queue {self._queue.name!r} already"
                self._desk.decline(operation, "Unavailable", text)
            else:
                self.waiting.add_get(operation, get, refused, self._desk.now)
                self._desk.wake(later(self._desk.now, get.patience))

    def _lease(self, operation: OperationId, get: calls.Get, refused: str) -> bool:
        items_max = min(get.items_max, self._desk.limits.get_items)
        bytes_max = max(1, get.bytes_max)
        # Rule 6.
        lease = self._queue.lease(operation, items_max, bytes_max, None, ahead=get.ahead)
        if lease is None:
            return False
        self._answered.keep(operation, True)
        self._hand(operation, lease, get, refused)
        return True

    def _hand(self, operation: OperationId, lease: Lease, get: calls.Get, refused: str) -> None:
        """Rules 1 and 6: once the lease is safe, what this node keeps of it goes along."""
        left, away = list(lease.left), self._queue.aside.told

        def told(parts: tuple[calls.Part, ...], spans: tuple[calls.Span, ...]) -> None:
            time = self._time_left(lease)
            if time > 0:
                self._desk.reply(
                    operation, calls.Leased(lease.token, parts, spans, time, refused, away)
                )

        handing = Handing(self._desk, self._keeper, self._queue, get.bytes_max, told)

        def safe() -> None:
            if lease.deadline is None:
                self._extend(lease)
            handing.hand(left)

        self.journal.after(safe)

    def _time_left(self, lease: Lease) -> Duration:
        """How long a lease lasts from now on; nothing when it is not held any more."""
        held = self.serving and self._queue.leases.held(lease.token) is lease
        if not held or lease.deadline is None:
            return Duration(0)
        return since(self._desk.now, lease.deadline)

    def _extend(self, lease: Lease) -> None:
        if self._queue.leases.held(lease.token) is lease:
            self._desk.wake(self._queue.leases.extend(lease, self._desk.now))

    def _empty(self, operation: OperationId, refused: str) -> None:
        self._answered.keep(operation, True)
        away = self._queue.aside.told
        answer = calls.Leased(0, (), (), self._queue.settings.lease, refused, away)
        self.journal.after(lambda: self._desk.reply(operation, answer))

    def serve(self) -> None:
        """Items may have become ready; or patience has ended (rule 4)."""
        if self.waiting.gets:
            if self._queue.ready.total:
                self.waiting.serve(self._lease_waiting, self._desk.now)
            if not withholds(self._queue):
                for over in self.waiting.over(self._desk.now):
                    self._empty(over.operation, over.refused)

    def _lease_waiting(self, waiting: WaitingGet) -> bool:
        return self._lease(waiting.operation, waiting.get, waiting.refused)

    # --- leases -----------------------------------------------------------------------------------

    def settle(self, operation: OperationId, settle: calls.Settle) -> None:
        """A consumer says what became of its items (rules 2 and 3)."""
        self._tell(operation, self._settle_once(operation, settle))

    def _tell(
        self, operation: OperationId, answer: calls.Settled | calls.Changed | Declined
    ) -> None:
        self._done.keep(operation, answer)
        self.journal.after(lambda: self._desk.reply(operation, answer))

    def _told_again(self, operation: OperationId) -> bool:
        """Whether this was done before; then it is told again what it came to (rule 2)."""
        before = self._done.of(operation)
        if before is not None:
            self._tell(operation, before)
        return before is not None

    def _settle_once(
        self, operation: OperationId, settle: calls.Settle
    ) -> calls.Settled | calls.Changed | Declined:
        before = self._done.of(operation)
        if before is not None:
            return before
        refused = self._settled(operation, settle)
        lease = self._queue.leases.held(settle.token)
        left = 0 if lease is None else lease.left.total
        answer = Declined("LeaseLost", refused) if refused else calls.Settled(left)
        return self._done.keep(operation, answer)

    def _settled(self, operation: OperationId, settle: calls.Settle) -> str:
        """Does what is asked; or changes nothing and says why."""
        queue = self._queue
        lease = queue.leases.held(settle.token)
        if lease is None:
            acked = settle.token in queue.leases.settled and not settle.back
            if acked or queue.leases.enders.get(settle.token) == operation:
                return ""
            return (
                f"lease {settle.token} of queue {queue.name!r} is not held any more: its time was "
                "over, or it was given back; its items may be with another consumer"
            )
        done, back = merged(settle.done), merged(settle.back)
        for interval in done:
            strange = _not_held(queue, interval, lease)
            if strange is not None:
                return f"position {strange} is not held under lease {lease.token}"
        self.dropped(queue.settle(lease, done))
        if back:
            due = self._desk.moment(settle.due)
            queue.give_back(lease, back, due, settle.reason, dead=settle.dead)
            if due:
                self._desk.wake(self._desk.instant_of(due))
        if not lease.left.total and (settle.back or not lease.kept):
            queue.leases.end_by(lease.token, operation)
        if settle.extend and lease.left.total:
            self._extend(lease)
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

    def peek(self, operation: OperationId, peek: calls.Peek) -> None:
        source = self._queue.dead if peek.dead else self._queue.aside.waiting
        wanted, left = [], min(peek.items_max, self._desk.limits.get_items)
        for interval in source.within(Interval(peek.start, max(peek.start, self._queue.tail))):
            part, _ = interval.split(left)
            left -= part.size
            wanted.append(part)
            if left == 0 or len(wanted) == self._desk.limits.lease_runs:
                break

        def told(parts: tuple[calls.Part, ...], spans: tuple[calls.Span, ...]) -> None:
            if self.serving:  # rule 7
                self._desk.reply(operation, calls.Peeked(parts, spans))

        handing = Handing(self._desk, self._keeper, self._queue, peek.bytes_max, told)
        self.journal.after(lambda: handing.hand(wanted))

    def purge(self, operation: OperationId, purge: calls.Purge) -> None:
        if not self._told_again(operation):
            count, lost = self._queue.purge(dead=purge.dead)
            self.dropped(lost)
            self.admission.room()
            self._tell(operation, calls.Changed(count))

    def pause(self, operation: OperationId, pause: calls.Pause) -> None:
        if not self._told_again(operation):
            self._queue.pause(paused=pause.paused)
            self._tell(operation, calls.Changed(0))

    def redrive(self, operation: OperationId, redrive: calls.Redrive) -> None:
        if self._told_again(operation):
            return
        count = self._queue.dead.total
        if redrive.per_second:
            self._redriving = redrive.per_second, self._desk.now
            self._desk.wake(self._desk.now)
        else:
            self._queue.redrive(count)
        self._tell(operation, calls.Changed(count))

    def describe(self, operation: OperationId, describe: calls.Describe) -> None:
        del describe
        queue = self._queue
        status = calls.QueueStatus(
            queue=queue.name,
            settings=queue.settings.told,
            master=self._desk.me,
            mirrors=tuple(node_of(keeper) for keeper in self.home.mirrors),
            term=self.home.term,
            paused=queue.paused,
            ready=queue.ready.total + queue.aside.items.total,
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
            mirrors_behind=self.journal.mirrors_behind,
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
            self._answered.forget(lease.operation)  # rule 2
        self.serve()
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
        queue = self._queue
        due = queue.next_due()
        instants = [queue.leases.next_deadline]
        instants.append(self.waiting.next_deadline(gets=not withholds(queue)))
        presence = self._desk.presence
        here = () if presence is None else presence.keepers
        instants += [None if due is None else self._desk.instant_of(due), self.journal.again(here)]
        for instant in instants:
            if instant is not None:
                self._desk.wake(instant)


def _not_held(queue: Queue, interval: Interval, lease: Lease) -> int | None:
    """The first of these positions that lives and is not held under a lease. O(what is held)."""
    if lease.left.covers(interval):
        return None
    for part in queue.alive.within(interval):
        if not lease.left.covers(part):
            held = lease.left.common(part)
            return part.start if not held or held[0].start > part.start else held[0].stop
    return None
