"""A partition's state: a value. What a step changed is told as records (`records.py`).

Rules:

1. Every item that lives is ready, delayed, leased, dead, or a group's. A lease has a holder.
2. Items that go back have their own positions, and are the next to be given.
3. The same number of one producer is the same put (`producers.py`).
4. The same get has the same lease. One that is done with it, and asks again, has nothing: nobody
   may be there to take it. One whose lease ended by itself was perhaps not told, and asks anew.
5. What is said of a lease that is over is refused only if it is not so: who acknowledges what was
   acknowledged is told that it is done. Who gave items back asks again under the same operation.
   What was told and lost (`log.py`, rule 5) was never acknowledged: its put may be asked anew.
6. What is in thousands of pieces goes from its end: from the front each would move all others.
7. No instant is in it: a leader keeps deadlines, and the next one begins them anew. A delay is a
   moment of the wall clock.
"""

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from snowmelt.core.ahead import Whole
from snowmelt.core.errors import LEASE_ENDED
from snowmelt.core.instant import Duration
from snowmelt.core.interval import Interval, IntervalSet, without
from snowmelt.core.names import OperationId
from snowmelt.core.pieces import Pieces
from snowmelt.protocols.queue.api.backups import NEVER_RESTORED
from snowmelt.protocols.queue.api.labels import Keys
from snowmelt.protocols.queue.api.phase_stamp import NEVER, PhaseStamp
from snowmelt.protocols.queue.api.schedules import Schedules
from snowmelt.protocols.queue.api.settings import ANY, QueueSettings
from snowmelt.protocols.queue.limits import LIMITS, QueueLimits
from snowmelt.protocols.queue.state.batches import Batches, StoredBatch
from snowmelt.protocols.queue.state.by_key import ByKey
from snowmelt.protocols.queue.state.delays import begin, ended
from snowmelt.protocols.queue.state.failures import Dead, Failure, failed_again, tellable
from snowmelt.protocols.queue.state.groups import GroupStates
from snowmelt.protocols.queue.state.keyed import Keyed, first_in, stretches
from snowmelt.protocols.queue.state.keys import KeysByPosition
from snowmelt.protocols.queue.state.offers import Offers
from snowmelt.protocols.queue.state.pacing import Pace
from snowmelt.protocols.queue.state.producers import Producers
from snowmelt.protocols.queue.state.publications import Publications
from snowmelt.protocols.queue.state.put_times import PutTimes
from snowmelt.protocols.queue.state.spread import Spread
from snowmelt.protocols.queue.state.staged import StagedBatches
from snowmelt.protocols.queue.state.tails import PRIORITY_BITS, Tails, bounded
from snowmelt.protocols.queue.state.takers import Takers
from snowmelt.protocols.queue.state.transactions import TransactionName, Transactions
from snowmelt.protocols.queue.state.uniques import Uniques

STATUS: Final = b"s"
LOST_MAX: Final = 20
"""So many pieces that are not held any more an answer may name. With more, or with any position
that was never given, nothing of what is said to be done is."""


class Lease(msgspec.Struct):
    """Whose call it answers, and what it has still."""

    operation: OperationId
    left: IntervalSet
    ahead: bool = False
    """Whether its items wait for their turn (`core/failures.py`)."""
    length: Duration = Duration(0)
    """How long it lasts, if that was asked for, or was another when it was given; else 0."""
    seen: PhaseStamp = NEVER
    """In a partition, what its phase saw (`leader/parted`, rule 11)."""
    secret: bytes = b""
    """Who settles it must say so; empty in leases of before there was one."""
    promised: TransactionName | None = None
    """With which alone it ends."""
    of: int = 0
    """The token of the lease that it was a part of, until it was extended alone; else 0."""


class ItemCounts(msgspec.Struct, array_like=True):
    """What became of items, besides those that were acknowledged or lost; it only grows."""

    returned: Whole = 0
    """How often one that was delivered came back, for whatever reason."""
    failed: Whole = 0
    """How often with a reason: the delivery failed, or the lease ended."""
    expired: Whole = 0
    """How often since the lease ended."""
    died: Whole = 0
    """How often one was set aside as dead."""
    purged: Whole = 0
    """How many were removed, or had no room on the disk and were never told."""
    aged: Whole = 0
    """How many were older than the queue's retention."""


class QueueState:
    """One queue's items, and who has them.

    >>> from snowmelt.core.names import NodeId
    >>> state = QueueState(QueueSettings())
    >>> batch = state.put(3, 300, term=1)
    >>> state.take(OperationId(NodeId("c-1"), 1), 5, state.first(2, 1 << 20))
    >>> state.ready
    IntervalSet([2, 3))
    >>> state.settle(5, [Interval(0, 1)]), state.batches.live
    ([], IntervalSet([1, 3)))
    """

    def __init__(self, settings: QueueSettings, limits: QueueLimits = LIMITS) -> None:
        self.settings = settings
        self.changed: dict[bytes, None] = {}
        """The keys of the records that are to be written anew."""
        self.over: list[Interval] = []
        """Where bodies lie that nobody needs any more."""
        self.tails = Tails([0] * (settings.priorities or 1), self.changed)
        self.bound = 0
        """So many positions each priority may have told (`log.py`, rule 5)."""
        self.done = 0
        self.lost = 0
        self.counts = ItemCounts()
        self.paused = False
        self.keeps = False
        """Whether bodies of what has ended may be kept for a copy on its way (`log.py`, rule 4)."""
        self.redriving = 0
        """How many dead items a second come back; 0 for none."""
        self.batches = Batches(self.changed, limits.block_batches)
        self.keys = KeysByPosition(self.changed)
        """Of a queue of any priorities."""
        self.keyed = Keyed(self.keys) if settings.priorities == ANY else None
        self.ready: IntervalSet = IntervalSet() if self.keyed is None else self.keyed
        self.dead = Dead(self.batches)
        self.failures: Pieces[Failure] = Pieces(self.changed, b"y")
        self.delays: Pieces[int] = Pieces(self.changed, b"z")
        self.by_key: ByKey | None = None
        """Where items have keys, or limits, by which they are given."""
        self.dues: list[tuple[int, int, int]] = []
        """When delays end, and from where to where each is; some may be over."""
        self.leases: dict[int, Lease] = {}
        self.tokens: dict[OperationId, int] = {}
        self.pieces: dict[int, list[int]] = {}
        """By the token of a lease, those of its parts that were extended alone (`settling.py`)."""
        self.takers = Takers(self.changed)
        self.enders: OrderedDict[int, OperationId] = OrderedDict()
        """By the tokens of the last leases of which something went back: which call ended each."""
        self.groups = GroupStates(self.changed)
        self.producers = Producers(self.changed, limits)
        self.staged = StagedBatches(self.changed, self.over)
        self.spread = Spread(self.changed)
        self.publications = Publications(self.changed)
        self.transactions = Transactions(self.changed)
        self.schedules = Schedules(self.changed)
        self.uniques = Uniques(self.changed, self.batches.live)
        self.times = PutTimes(self.changed, settings.priorities)
        self.restoring = NEVER_RESTORED
        """How far it is as a queue that is made of a backup; until that is done, it is not known
        what is ready (`backups.py`)."""
        self.limits = limits
        if settings.by_key:
            keep_keys(self)

    # --- items in ---------------------------------------------------------------------------------

    @property
    def size(self) -> int:
        """Bytes of what counts in the bounds: all that lives but the dead. O(1)."""
        return max(0, self.batches.bytes - self.dead.bytes)

    def fits(self, count: int, size: int, *names: bytes) -> bool:
        """Whether the bounds leave room for so many items and bytes now, which have these keys."""
        if self.by_key is not None and not self.by_key.has_room(names):
            return False
        items, most = self.settings.items_each, self.settings.bytes_each
        held = self.batches.live.total - self.dead.total
        return (not items or held + count <= items) and (not most or self.size + size <= most)

    def put(
        self,
        count: int,
        size: int,
        *,
        term: int,
        due: int = 0,
        priority: int | bytes = 0,
        place: int = 0,
        names: Keys | None = None,
    ) -> StoredBatch:
        """A batch at the tail of its priority; its bodies lie there, or at a place of their own.

        Of any priorities it has the key of each. `names` has those of `by_key.py`.
        """
        priority, keys = (0, priority) if isinstance(priority, bytes) else (priority, b"")
        start = (priority << PRIORITY_BITS) + self.tails[priority]
        self.tails[priority] += count
        batch = StoredBatch(start, start + count, size, term, place - start if place else 0)
        where = Interval(start, batch.stop)
        if keys:
            self.keys.add(start, keys)
        if due:
            begin(self.delays, self.dues, (where,), due)
        else:
            self.ready.add(where)
        self.batches.add(
            batch, 0 if self.by_key is None else self.by_key.put(where, names, due=due)
        )
        self.changed[STATUS] = None
        return batch

    def wake(self, wall: int) -> None:
        """Delays that are over by then, or the first of them."""
        over = ended(self.delays, self.dues, wall)
        self.ready.add_all(over)
        if self.by_key is not None:
            for where in over:
                self.by_key.due(where)

    # --- items out --------------------------------------------------------------------------------

    def first(
        self,
        items_max: int,
        bytes_max: int,
        below: tuple[int, ...] = (),
        *,
        before: int = -1,
        in_turn: bool = False,
        together: bool = False,
        pace: Pace | None = None,
    ) -> list[Interval]:
        """The first ready items, as many as are asked for, and one if there is any.

        Where there are keys or limits, those that may be taken: they are in hand from now on.

        Of each priority only those below its bound, where there are bounds; and only those that
        come before the item at a position, if one is named and that has not ended. By keys they
        are told by positions, in fewer intervals, but where their turn matters.
        """
        if self.paused or (before >= 0 and before not in self.batches.live):
            return []
        limits = self.limits
        if self.by_key is not None:
            places = self.by_key.choose(
                items_max, bytes_max, pace, before=before, together=together
            )
            return _chosen(self, self.by_key, places, in_turn=in_turn)
        if self.keyed is not None:
            places = self.keyed.foremost(items_max, bytes_max, self.batches, *below[:1])
            if before >= 0:
                places = self.keyed.ahead_of(before, places)
            in_turn = in_turn or self.failures.starts != []  # the last ones may be too much to tell
            found = stretches(places if in_turn else sorted(places))
        else:
            ready = bounded(self.ready, below) if below else self.ready
            if before >= 0:
                ready = IntervalSet(ready.common(Interval(0, before)))
            found = self.batches.some(ready, 0, items_max, bytes_max, limits.lease_runs)
        if not self.failures.starts:
            return found
        return tellable(found, self.failures, self.batches, limits.spans_bytes)

    def take(
        self,
        operation: OperationId,
        token: int,
        positions: list[Interval],
        *,
        ahead: bool = False,
        seen: PhaseStamp = NEVER,
        length: Duration = Duration(0),  # noqa: B008 - it is a number
        secret: bytes = b"",
    ) -> None:
        self.ready.remove_all(positions)
        left = IntervalSet(positions)
        self.leases[token] = Lease(operation, left, ahead, length, seen, secret)
        self.tokens[operation] = token
        self.takers.note(operation)
        self.touch(token)

    # --- what becomes of them ---------------------------------------------------------------------

    def settle(self, token: int, done: Sequence[Interval]) -> list[Interval]:
        """These of a lease are done; returns those that live and that it does not hold (rule 5)."""
        lease = self.leases.get(token)
        left, tails = IntervalSet() if lease is None else lease.left, self.tails
        if lease is not None and done and list(done) == list(left):  # all of it, as mostly
            self.done += left.total
            for part in done:
                self.end(part)
            lease.left = IntervalSet()
            self.end_lease(token)
            return []
        others: list[Interval] = []
        for interval in done:
            for lives in self.batches.live.within(interval):
                if not left.covers(lives):
                    others += without([lives], left.common(lives))
                    if len(others) > LOST_MAX:
                        return others
            behind = interval.stop > tails[0] or tails.skipped is not None
            if behind and (never := tails.never_given(interval)):
                return never  # who gave these is not remembered, nor that they ended
        if lease is None or not done:
            return others
        for interval in reversed(done):
            for part in reversed(left.common(interval)):
                left.remove(part)
                self.done += part.size
                self.end(part)
        self._shrunk(token, lease)
        return others

    def give_back(
        self,
        operation: OperationId,
        token: int,
        back: Iterable[Interval],
        *,
        due: int = 0,
        reason: str = "",
        dead: bool = False,
    ) -> None:
        """These of a lease go back; with a reason, as a delivery that failed (rule 2)."""
        lease = self.leases.get(token)
        left = IntervalSet() if lease is None else lease.left  # None: all of it is done
        most = 0 if dead else self.settings.deliveries_max
        parts = [part for one in back for part in left.common(one)]
        left.remove_all(parts)
        self._return(parts, due, reason, most, ahead=lease is not None and lease.ahead)
        if not left.total:
            name = token if lease is None else lease.of or token
            self.enders[name] = operation
            self.changed[b"e" + name.to_bytes(8)] = None
            if len(self.enders) > self.limits.enders:
                oldest, _ = self.enders.popitem(last=False)
                self.changed[b"e" + oldest.to_bytes(8)] = None
        if lease is not None:
            self._shrunk(token, lease)

    def expire(self, token: int, reason: str = LEASE_ENDED) -> None:
        """Nobody was heard of under this lease in its time; who asks still asks anew (rule 4)."""
        lease = self.leases[token]
        self.counts.expired += lease.left.total
        self.takers.forget(lease.operation)
        parts, lease.left = list(lease.left), IntervalSet()
        self._return(parts, 0, reason, self.settings.deliveries_max, ahead=lease.ahead)
        self._shrunk(token, lease)

    def _shrunk(self, token: int, lease: Lease) -> None:
        self.touch(token)
        if not lease.left.total:
            self.end_lease(token)

    def end_lease(self, token: int) -> None:
        """Nothing is held under it any more."""
        lease = self.leases.pop(token)
        if lease.of:
            leave_whole(self.pieces, lease.of, token)
        else:
            self.tokens.pop(lease.operation, None)
        self.touch(token)

    def _return(
        self, parts: Sequence[Interval], due: int, reason: str, most: int, *, ahead: bool
    ) -> None:
        """These go back, in order: each structure is gone through once for all of them."""
        count = sum([one.size for one in parts])
        self.counts.returned += count
        self.changed[STATUS] = None
        if reason:
            self.counts.failed += count
            failed = failed_again(self.failures, parts, reason, most, ahead=ahead)
            self.failures.put_all(failed)
            for part in [part for part, failure in failed if failure.dead]:
                self.dead.add(part)
                if self.by_key is not None:
                    self.by_key.dead(part)
                self.counts.died += part.size
            parts = [part for part, failure in failed if not failure.dead]
        self._wait(parts, due)

    def _wait(self, parts: Sequence[Interval], due: int) -> None:
        """These are to be given: now, or when they are due."""
        if due:
            begin(self.delays, self.dues, parts, due)
        else:
            self.ready.add_all(parts)
        if self.by_key is not None:
            for where in parts:
                (self.by_key.delayed if due else self.by_key.ready)(where)

    def end(self, where: Interval) -> None:
        if self.dead.total:
            self.dead.remove(where)
        if self.delays.starts:
            self.delays.clear(where)
        if self.failures.starts:
            self.failures.clear(where)
        if self.by_key is not None:
            self.by_key.ended(where)
        self.over += self.batches.end(where)
        if self.keyed is not None:
            self.keys.forget(where, self.batches.live)
        self.changed[STATUS] = None

    def touch(self, token: int) -> None:
        """What is kept of this lease changed."""
        self.changed[b"l" + token.to_bytes(8)] = None

    # --- the queue as a whole ---------------------------------------------------------------------

    def pause(self, *, paused: bool) -> None:
        self.paused = paused
        self.changed[STATUS] = None

    def purge(self, *, dead: bool, held: bool = False) -> int:
        """Ends all that waits, or all that is dead, and what is leased if asked; how many."""
        gone = list(self.dead) if dead else [*self.ready, *(where for where, _ in self.delays)]
        for token, lease in list(self.leases.items()) if held else ():
            if lease.promised is None:  # else a step has it, and may be decided already
                self.counts.returned += lease.left.total
                gone += lease.left
                self.end_lease(token)
        count = remove(self, sorted(gone))
        self.counts.purged += count
        return count

    def redrive(self, count: int) -> int:
        """So many dead items are as if they had never failed, as far as there is room; how many."""
        back = _room_for(self, self.dead, count)
        for where in reversed(back):
            self.dead.remove(where)
            self.failures.clear(where)
        self._wait(back, 0)
        return sum(where.size for where in back)

    def redrive_at(self, rate: int) -> None:
        """From now on so many a second."""
        self.redriving = rate
        self.changed[STATUS] = None

    def lose(self, where: Interval, *, told: bool = True) -> None:
        """No copy of these can be read any more; only what somebody was told of counts as lost."""
        for part in self.batches.live.common(where):
            self.lost += part.size if told else 0
            self.counts.purged += 0 if told else part.size
            for token, lease in list(self.leases.items()):
                if held := lease.left.common(part):
                    self.counts.returned += sum([one.size for one in held])
                    lease.left.remove(part)
                    self._shrunk(token, lease)
            self.ready.remove(part)
            self.end(part)
        self.staged.lose(where)

    def changes(self) -> tuple[dict[bytes, None], tuple[Interval, ...]]:
        """What it changed since this was last asked: keys of records, and bodies that are over."""
        batches, few = self.batches, self.limits.few_blocks
        if batches.ended[few:]:
            batches.gather(few)
        batches.ended, batches.written = [], {}
        if self.spread.held and self.over:
            self.over[:] = self.spread.end(self.over)
        keys, over = dict(self.changed), tuple(self.over)
        self.changed.clear()
        if over:
            self.over.clear()
        return keys, over

    def check(self) -> None:
        """Asserts rule 1: each item is in one place."""
        self.batches.check()
        self.staged.check()
        if not self.restoring.done:
            return
        lies = [one for one in (*self.batches.all(), *self.staged.all()) if one.spread]
        assert all(self.spread.held[one.place.start].stop == one.place.stop for one in lies)
        assert self.over or len(lies) == len(self.spread.held), "it is known where ended bodies lie"
        self.ready.check()
        delayed = [where for where, _ in self.delays]
        held = [where for lease in self.leases.values() for where in lease.left]
        live = self.batches.live
        parts = [*self.ready, *self.dead, *delayed, *held, *self.groups.held(live)]
        assert IntervalSet(parts) == live, "something is in no state"
        assert sum(part.size for part in parts) == live.total, "something is in two"
        assert leased(self) == sum([where.size for where in held]), "the leased are miscounted"
        if self.by_key is not None:
            self.by_key.check(live, [*held, *self.groups.held(live)])


def leave_whole(pieces: dict[int, list[int]], whole: int, token: int) -> None:
    """A part of a lease, extended alone, is over."""
    pieces[whole].remove(token)
    if not pieces[whole]:
        del pieces[whole]


def leased(state: QueueState) -> int:
    """How many items are under a lease (rule 1). O(groups and delays)."""
    if not state.restoring.done:
        return 0
    live, groups = state.batches.live, state.groups.items
    if groups and state.lost:  # they may count some of these
        groups = sum([part.size for part in state.groups.held(live)])
    return live.total - state.ready.total - state.dead.total - state.delays.total - groups


def remove(state: QueueState, gone: Sequence[Interval]) -> int:
    """Ends what waits, or is dead; how many."""
    for where in reversed(gone):
        state.ready.remove(where)
        state.end(where)
    return sum(where.size for where in gone)


def put_in_all(state: QueueState) -> int:
    """How many items ever came into it: those that live, and those that ended."""
    ended = state.done + state.lost + state.counts.purged + state.counts.aged
    return state.batches.live.total + ended


def delivered(state: QueueState) -> int:
    """How often an item was given out: it was done with, or came back, or still is."""
    return state.done + state.counts.returned + leased(state) + state.groups.items


def gaps(state: QueueState) -> list[Interval]:
    """Where bodies lie, or lay, of which nothing lives."""
    tails = [(priority << PRIORITY_BITS, tail) for priority, tail in enumerate(state.tails)]
    given = IntervalSet([state.staged.given])
    given.add_all([Interval(start, start + tail) for start, tail in tails])
    given.remove_all([one.place for one in (*state.batches.all(), *state.staged.all())])
    return list(given)


def _room_for(state: QueueState, some: IntervalSet, count: int) -> list[Interval]:
    """The first of these, as many as the bounds let in."""
    items, most = state.settings.items_each, state.settings.bytes_each
    room = most - state.size if most else 1 << 62
    if items:
        count = min(count, items - (state.batches.live.total - state.dead.total))
    fitting: list[Interval] = []
    for interval in some:
        for batch, first, stop in state.batches.over(interval):
            each = max(1, -(-batch.size // (batch.stop - batch.start)))  # rounded up
            size = max(0, min(stop - first, count, room // each))
            count, room = count - size, room - size * each
            if size:
                fitting.append(Interval(first, first + size))
            if first + size < stop:
                return fitting
    return fitting


def keep_keys(state: QueueState) -> ByKey:
    """From now on; also where settings ask for it no more, and some items have keys."""
    if state.by_key is None:
        ranks = None if state.keyed is None else state.keys
        about = state.ready, state.delays, ranks, state.batches
        kind = Offers if state.settings.partitions > 1 else ByKey
        state.by_key = kind(state.settings, state.changed, *about)
    return state.by_key


def _chosen(
    state: QueueState, by_key: ByKey, places: list[int], *, in_turn: bool
) -> list[Interval]:
    """In so many pieces at most, and no more than can be told; the last ones are not taken."""
    limits, turns = state.limits, in_turn or state.failures.starts != []
    pieces = limits.group_pieces if in_turn else limits.lease_runs
    found = stretches(places if turns else sorted(places))
    if len(found) > pieces:
        found = found[:pieces] if turns else stretches(sorted(first_in(pieces, places)))
    found = tellable(found, state.failures, state.batches, limits.spans_bytes)
    if sum([one.size for one in found]) < len(places):
        taken = IntervalSet(found)
        for place in places:
            if place not in taken:
                by_key.ready(Interval(place, place + 1))
    return found
