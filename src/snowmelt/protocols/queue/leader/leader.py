"""Who leads a partition in one term: it changes the state, and owes an answer for each call.

1. Nothing is told before it is safe (`log.py`).
2. Deadlines are this leader's. What a client asks again while it waits has the same answer.
3. Gets wait for items (`getting.py`), and puts for room, each in their order.
4. What the next step has no room for waits for the one after, and so do all puts behind it.
"""

from collections import OrderedDict
from itertools import chain
from itertools import count as counting
from typing import Final, TypeAlias, assert_never

import msgspec

from snowmelt.core.errors import LEASE_ENDED
from snowmelt.core.instant import MILLISECOND, Duration, later, milliseconds
from snowmelt.core.interval import Interval
from snowmelt.core.names import NodeId, OperationId
from snowmelt.protocols.queue.api import calls
from snowmelt.protocols.queue.api.backups import Save
from snowmelt.protocols.queue.api.statuses import (
    ChangeItem,
    Consumers,
    DescribeItem,
    ListConsumers,
    PeekHeld,
    ShowItem,
    TraceItem,
)
from snowmelt.protocols.queue.leader.ages import Ages
from snowmelt.protocols.queue.leader.append_check import AppendCheck
from snowmelt.protocols.queue.leader.consumers import Using
from snowmelt.protocols.queue.leader.deadlines import Deadlines
from snowmelt.protocols.queue.leader.delivery import DeliveryBuilder
from snowmelt.protocols.queue.leader.getting import Getting
from snowmelt.protocols.queue.leader.grouping import Grouping, release
from snowmelt.protocols.queue.leader.held import bodies_of, held_runs
from snowmelt.protocols.queue.leader.item_trace import traced
from snowmelt.protocols.queue.leader.maintenance.altering import Altering, keep_lengths
from snowmelt.protocols.queue.leader.maintenance.restoring import Restoring
from snowmelt.protocols.queue.leader.maintenance.scheduling import Scheduling
from snowmelt.protocols.queue.leader.maintenance.thinning import Thinning
from snowmelt.protocols.queue.leader.maintenance.withdrawing import Withdrawing
from snowmelt.protocols.queue.leader.one_item import change_item, item_status
from snowmelt.protocols.queue.leader.open_calls import Answers, keep
from snowmelt.protocols.queue.leader.parted.partition import Partition
from snowmelt.protocols.queue.leader.publishing import Publishing
from snowmelt.protocols.queue.leader.retention import Retention
from snowmelt.protocols.queue.leader.settling import TOKEN_BITS, Settling, refusal
from snowmelt.protocols.queue.leader.spans import Spans
from snowmelt.protocols.queue.leader.storing import Storing
from snowmelt.protocols.queue.leader.transacting import Transacting
from snowmelt.protocols.queue.messages.home_words import Assignment
from snowmelt.protocols.queue.messages.partition_words import OwedGrant
from snowmelt.protocols.queue.messages.words import ReplyTo, Show, SpreadPut
from snowmelt.protocols.queue.outbox import LeaderOutbox, Outbox
from snowmelt.protocols.queue.replication.follower_progress import (
    FollowerProgress,
    Followers,
    copied,
)
from snowmelt.protocols.queue.replication.in_sync import InSync
from snowmelt.protocols.queue.replication.log import Log
from snowmelt.protocols.queue.state.failures import tellable
from snowmelt.protocols.queue.state.keyed import Keyed, selected, stretches
from snowmelt.protocols.queue.state.pacing import pace_of
from snowmelt.protocols.queue.state.records import records, restored
from snowmelt.protocols.queue.state.state import STATUS, QueueState, delivered, leased, put_in_all
from snowmelt.protocols.queue.state.tails import counted
from snowmelt.protocols.queue.store.bodies import Bodies
from snowmelt.protocols.queue.store.copy import Copy
from snowmelt.protocols.queue.store.send_window import SendWindow
from snowmelt.protocols.queue.store.write_queue import WriteQueue
from snowmelt.protocols.queue.streams import node_of

CHECKED_EACH: Final = 16
"""After so many steps it is checked that records tell the state: that costs as much as it has. Of
what rests a share of the looks sees all, by the clock."""
REDRIVE_EVERY: Final = milliseconds(100)

Look: TypeAlias = calls.Peek | PeekHeld | calls.Select | calls.Describe | ListConsumers | Save
Change: TypeAlias = calls.Purge | calls.Pause | calls.Redrive | calls.ReleaseGroup | ChangeItem


class Leader:
    """Of one queue, in one term."""

    def __init__(
        self,
        outbox: Outbox,
        disk: WriteQueue,
        hand: Bodies,
        copy: Copy,
        home: Assignment,
        followers: dict[str, FollowerProgress],
        ways: SendWindow,
    ) -> None:
        outbox = LeaderOutbox(outbox, home.queue)
        self.home = home
        self.copy = copy
        self.state = restored(home.settings, copy.records, outbox.limits)
        self.followers = Followers(outbox, home, copy, followers, ways)
        self.in_sync = InSync(outbox, home, self.followers)
        self.log = Log(home, disk, copy, self.state, self.followers, self.in_sync)
        own = outbox, home, self.state, self.log
        self.serving = False
        """Whether the controller has written down that this copy is the queue's."""
        self._outbox = outbox
        self._deadlines = Deadlines(home.settings.lease)
        spans = Spans(outbox, self.state, self.followers)
        self.delivery = DeliveryBuilder(outbox, disk, hand, self.followers, self._deadlines, spans)
        self.ages = Ages(home.queue, self.state, hand)
        pace = pace_of(outbox, home.settings)
        self.grouping = Grouping(own, spans, pace)
        self.admission = AppendCheck(own, hand, self.delivery.open)
        self.publishing = Publishing(own, hand)
        self.thinning = Thinning(own, disk, self.followers)
        ways_in = self.admission, self.publishing
        self.storing = Storing(own, ways_in, self.delivery.open)
        tokens = counting((home.term << TOKEN_BITS) + 1)
        self.getting = Getting(own, self._deadlines, tokens, pace)
        self.settling = Settling(own, self._deadlines, tokens)
        self.transacting = Transacting(own, self.publishing, self.delivery, self.getting)
        parts = own, (*ways_in, self.transacting), self.delivery.open, self.getting
        self.parted = Partition(*parts) if home.settings.partitions > 1 else None
        self._said: Answers[msgspec.Struct] = OrderedDict()
        self._redriven = outbox.now
        self._checked = -1
        """At which step all of it was looked at, with nothing to come."""
        self._later: OrderedDict[OperationId, calls.Put] = OrderedDict()
        """Puts that the next step has no room for."""
        self.withdrawing = Withdrawing(own, self.publishing, self._later)
        self.scheduling = Scheduling(own, disk, self.admission, self.withdrawing)
        self.restoring = Restoring(own, self.parted)
        self.altering = Altering(own, self.followers, self.storing)
        self.retention = Retention(outbox, home, self.state)
        if copy.home is not None:
            keep_lengths(self.state, copy.home.settings.lease)
        for token, lease in self.state.leases.items():
            outbox.wake(self._deadlines.begin(token, outbox.now, lease.length))
        copy.look_at_clock(outbox.wall)
        self.state.changed[STATUS] = None  # the first step of the term
        self.storing.viewed()

    @property
    def partition(self) -> Partition | None:
        """Where the queue is one, and may be used."""
        return self.parted if self.serving and self.state.restoring.done else None

    # --- items in ---------------------------------------------------------------------------------

    def put(self, operation: OperationId, put: calls.Put) -> None:
        """A batch comes with this step, or with a later one (rule 4)."""
        crowded = self._later or (self.log.bytes and not self.log.has_room(put.size))
        if crowded and (self.parted is None or put.hold):
            self._later[operation] = put
        else:
            self._take_in(operation, put)

    def _take_in(self, operation: OperationId, put: calls.Put) -> None:
        if put.hold:
            self.publishing.stage(operation, put)
        else:
            self.admission.put(operation, put)

    def knows(self, put: calls.Put) -> bool:
        """Whether it came before; what became of it is told then, and nothing else."""
        return self.admission.knows(put) or put in self._later.values()

    # --- items out --------------------------------------------------------------------------------

    def get(self, operation: OperationId, get: calls.Get) -> None:
        """A consumer wants items; it waits where there are none."""
        if self.getting.waits(operation):
            return
        refused = ""
        if get.settle is not None:
            said = self.settling.settle(operation, get.settle)
            refused = refusal(said)
        self.getting.get(operation, get, refused)

    def _serve(self) -> None:
        """Items may have become ready, or there may be room; or patience has ended."""
        if self.admission.room.puts and not self.withdrawing.full:
            self.admission.serve()
        while self._later and self.log.has_room(next(iter(self._later.values())).size):
            self._take_in(*self._later.popitem(last=False))
        if self.getting.waiting.gets:
            self.getting.serve()

    # --- what becomes of them ---------------------------------------------------------------------

    def settle(self, operation: OperationId, settle: calls.Settle) -> None:
        """A consumer says what became of its items."""
        self.log.owe(ReplyTo(operation, self.settling.settle(operation, settle)))

    def end_leases(self) -> None:
        """There is no other process that could hold one."""
        for token, lease in list(self.state.leases.items()):
            if lease.promised is None:
                self.state.expire(token)

    def _expire(self) -> None:
        for token in self._deadlines.over(self._outbox.now):
            lease = self.state.leases.get(token)
            if lease is not None and lease.promised is None:
                client = lease.operation.client
                self._outbox.note(f"{self.home.queue}: lease {token} of {client} ended")
                self.state.expire(token, "" if self.delivery.holds(token) else LEASE_ENDED)
                self.getting.expired(lease.operation)

    # --- the queue as a whole ---------------------------------------------------------------------

    def look(self, operation: OperationId, ask: Look) -> None:
        """Shows something, and changes nothing."""
        if isinstance(ask, calls.Describe):
            self.log.owe(ReplyTo(operation, self.status()))
            return
        if isinstance(ask, ListConsumers):
            self.log.owe(ReplyTo(operation, self._consumers(ask)))
            return
        if isinstance(ask, Save):
            saved = self.delivery.saving.hear(operation, ask)
            if saved is not None:
                self.log.owe(ReplyTo(operation, saved))
            return
        if isinstance(ask, PeekHeld):
            now, wall = self._outbox.now, self._outbox.wall
            runs = held_runs(self.state, self._deadlines, now, wall, ask)
            self.log.owe(Show(operation, bodies_of(self.state, runs, ask.bytes_max), runs))
            return
        if isinstance(ask, calls.Select):
            self.log.owe(Show(operation, selected(self.state.ready, ask)))
            return
        self.log.owe(Show(operation, _peeked(self.state, ask)))

    def look_at(self, operation: OperationId, ask: DescribeItem | ShowItem | TraceItem) -> None:
        """Shows one item, wherever it is (`one_item.py`), or its life (`item_trace.py`)."""
        state, outbox, position = self.state, self._outbox, ask.position
        if isinstance(ask, ShowItem):
            lives = position in state.batches.live
            where = (Interval(position, position + 1),) if lives else ()
            self.log.owe(Show(operation, where))
            return
        told = item_status(state, self._deadlines, outbox.now, outbox.wall, position)
        if isinstance(ask, TraceItem):
            life = traced(self.copy, state, told, position, outbox.wall, names=ask.names)
            self.copy.trace()
            self.log.owe(ReplyTo(operation, life))
        else:
            self.log.owe(ReplyTo(operation, told))

    def _consumers(self, ask: ListConsumers) -> Consumers:
        using, puts = Using(), self.admission.room.puts
        using.holds(self.state.leases, self._deadlines, self._outbox.now)
        using.waits(
            self.getting.waiting.gets, chain.from_iterable(one.asked for one in puts.values())
        )
        if self.parted is not None:
            using.waits(self.parted.waiting_gets, ())
        return using.told(ask)

    def change(self, operation: OperationId, ask: Change) -> None:
        """Does something to all of it, once."""
        before = self._said.get(operation)
        if before is None:
            done = calls.Changed(self._changed(operation, ask))
            most = self._outbox.limits.answered
            before = keep(self._said, operation, done, most)
        self.log.owe(ReplyTo(operation, before))

    def _changed(self, operation: OperationId, ask: Change) -> int:
        state = self.state
        match ask:
            case ChangeItem():
                return change_item(state, operation, ask)
            case calls.Purge(dead=dead, leased=held):
                return state.purge(dead=dead, held=held)
            case calls.ReleaseGroup(group=name):
                return release(state, name)
            case calls.Pause(paused=paused, moving_to=to):
                if to:
                    self.admission.move(to)
                else:
                    state.pause(paused=paused)
                return 0
            case calls.Redrive(per_second=rate):
                if not rate:
                    return state.redrive(state.dead.total)
                state.redrive_at(rate)
                self._redriven = self._outbox.now
                self._outbox.wake(self._outbox.now)
                return state.dead.total
            case _:
                assert_never(ask)

    def _redrive(self) -> None:
        """Some more of those that come back at a rate."""
        state, now = self.state, self._outbox.now
        if not state.redriving:
            return
        due = (now - self._redriven) * state.redriving // 10**9
        if due:
            self._redriven = now
            state.redrive(due)
        if state.dead.total:
            self._outbox.wake(later(now, Duration(max(REDRIVE_EVERY, 10**9 // state.redriving))))
        else:
            state.redrive_at(0)

    def status(self) -> calls.QueueStatus:
        state, home, ages = self.state, self.home, self.ages
        now, wall, told = self._outbox.now, self._outbox.wall, self.delivery.delivered
        several = home.settings.priorities > 1
        return calls.QueueStatus(
            queue=home.queue,
            settings=home.settings.told,
            leader=self._outbox.me,
            followers=tuple(node_of(keeper) for keeper in home.mirrors),
            term=home.term,
            paused=state.paused,
            ready=state.ready.total,
            delayed=state.delays.total,
            leased=leased(state),
            dead=state.dead.total,
            bytes=state.size,
            tail=sum(state.tails),
            done=state.done,
            lost=state.lost,
            waiting_gets=len(self.getting.waiting.gets)
            + (0 if self.parted is None else len(self.parted.waiting_gets)),
            waiting_puts=len(self.admission.room.puts),
            blocks=state.batches.blocks,
            short_of_copies=state.batches.live.total
            if self.followers.lacking
            else self.storing.short,
            producers=len(state.producers),
            assigned=state.groups.items,
            staged=state.staged.items,
            followers_behind=len(self.followers.behind),
            copied=copied(self.followers.all.values()),
            tails=tuple(state.tails) if several else (),
            ready_of=counted(state.ready, home.settings.priorities) if several else (),
            oldest_ready=ages.ready(wall),
            oldest_leased=ages.leased(wall),
            oldest_delayed=ages.delayed(wall),
            delivery_age=told.mean(now, wall),
            delivery_ages=told.total(now, wall),
            deliveries_timed=told.count,
            put=put_in_all(state),
            delivered=delivered(state),
            schedules=len(state.schedules.what),
            keys=0 if state.by_key is None else len(state.by_key),
            **msgspec.structs.asdict(state.counts),
        )

    def gone(self, client: NodeId) -> None:
        """Nobody is there for what this client asked: nothing is kept for it."""
        for operation, request in self.delivery.open.gone(client).items():
            if type(request) is calls.Put:
                self._later.pop(operation, None)
                self.admission.gone(operation, request)
            elif type(request) is calls.Get:
                self.getting.gone(operation)
            elif type(request) is SpreadPut:
                self.storing.gone(operation, request)
            elif type(request) is calls.Commit:
                self.transacting.gone(operation)
            elif type(request) is OwedGrant:  # its door knows whether anybody is there
                self.delivery.open.add(operation, request)

    @property
    def busy(self) -> bool:
        """Whether so many calls wait for the disk or for followers that no more are taken."""
        waiting = len(self.getting.waiting.gets) + len(self.admission.room.puts)
        waiting += self.transacting.waits
        return len(self.delivery.open.calls) - waiting >= self._outbox.limits.waiting_answers

    # --- time -------------------------------------------------------------------------------------

    def step(self) -> None:
        """What has changed is the next step; what is safe is told."""
        if self.withdrawing.by is not None:
            self.withdrawing.look()
        if self.getting.waiting.gets or self.admission.room.puts or self._later:
            self._serve()
        if self.parted is not None and self.state.restoring.done:
            self.parted.serve(self.withdrawing.full)
        if self.state.changed:
            self.log.step()
        due = self.log.due(self._outbox.limits.told)
        for owed in due:
            self.delivery.pay(owed)
        if self.log.rests or (self._later and not self.state.changed):
            self._outbox.wake(self._outbox.now)
        if self.in_sync.varies:
            self.log.look()
        batches = self.state.batches
        if self.thinning.word or batches.kept > 2 * batches.bytes + self._outbox.limits.spare_bytes:
            self.thinning.look()

    def tick(self) -> None:
        """Ends what is over, and asks again."""
        outbox, state = self._outbox, self.state
        self.copy.look_at_clock(outbox.wall)
        self._expire()
        if state.restoring.done:
            if state.dues and state.dues[0][0] <= outbox.wall:
                state.wake(outbox.wall)
            if state.dues:
                outbox.wake(outbox.instant_of(state.dues[0][0]))
            self._redrive()
            self.retention.tick()
            self.scheduling.tick()
        self.admission.tick()
        self.transacting.tick(self.publishing.tick())
        self.storing.tick()
        self.altering.tick()
        self.delivery.tick()
        self.delivery.saving.tick()
        self.followers.tick(self.log.confirmed)
        if self.parted is not None:
            self.parted.tick()
        for end in (self._deadlines.next, self.getting.waiting.next_deadline):
            if end is not None:
                outbox.wake(end)

    def check(self) -> None:
        """All of it while a change is not safe yet. Most events change nothing."""
        self.getting.check()
        step, state = self.copy.head.step, self.state
        assert self.log.safe <= step
        rests = self.log.safe == step and not state.changed
        if self._checked == step and not rests and not state.changed:
            return  # as it was when it was looked at
        if rests and self._outbox.now // MILLISECOND % CHECKED_EACH:
            return
        state.check()
        self._checked = -1 if state.changed else step
        if not state.changed and step % CHECKED_EACH == 0:
            told = restored(self.home.settings, self.copy.records, self._outbox.limits)
            assert records(told) == records(state), "records tell another state"


def _peeked(state: QueueState, ask: calls.Peek) -> tuple[Interval, ...]:
    """Where what is to be shown lies."""
    source, batches, limits = state.dead if ask.dead else state.ready, state.batches, state.limits
    count, size = min(ask.items_max, limits.get_items), min(ask.bytes_max, limits.fetch_bytes)
    if isinstance(source, Keyed):
        found = stretches(source.foremost(count, size, batches))
    else:
        found = batches.some(source, ask.start, count, size, limits.lease_runs)
    return tuple(tellable(found, state.failures, batches, limits.spans_bytes))
