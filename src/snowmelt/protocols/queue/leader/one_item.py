"""One item by itself: how it is, wherever it is, and what an operator does about it.

1. What lives is ready, delayed, leased, dead, or with a group. What does not has ended, or its
   position was never given.
2. To drop one ends it, whoever has it. To bring one back makes it ready now: its delay is over, its
   lease, or it is dead no more. Its failures stay, but those of a dead one.
3. Whoever had it under a lease is told `LeaseLost` when he says what became of it. The rest of his
   lease stays his.
4. What a group holds is the group's, and what is promised to a transaction is that one's: it is
   left alone.
"""

from snowmelt.core.instant import SECOND, Instant
from snowmelt.core.interval import Interval
from snowmelt.core.names import OperationId
from snowmelt.protocols.queue.api.statuses import ChangeItem, ItemStanding, ItemStatus
from snowmelt.protocols.queue.leader.deadlines import Deadlines
from snowmelt.protocols.queue.state.state import STATUS, QueueState


def item_status(
    state: QueueState, deadlines: Deadlines, now: Instant, wall: int, position: int
) -> ItemStatus:
    """How one item is. O(leases and groups)."""
    where = Interval(position, position + 1)
    if position not in state.batches.live:
        never = state.tails.never_given(where)
        return ItemStatus(ItemStanding.NEVER if never else ItemStanding.ENDED)
    [(batch, _, _)] = state.batches.over(where)
    told = ItemStatus(
        ItemStanding.READY,
        bytes=-(-batch.size // (batch.stop - batch.start)),
        put_at=state.times.at(position),
    )
    for _, failure in state.failures.common(where):
        told.failures, told.reason = failure.times, failure.reason
    for _, due in state.delays.common(where):
        told.standing, told.left = ItemStanding.DELAYED, max(0, due - wall) / SECOND
    if position in state.dead:
        told.standing = ItemStanding.DEAD
    for token, lease in state.leases.items():
        if position in lease.left:
            told.standing, told.client = ItemStanding.LEASED, lease.operation.client
            told.held = deadlines.held(token, now) / SECOND
            if token in deadlines:
                told.left = max(0, deadlines.left(token, now)) / SECOND
    if group := _group_of(state, position):
        told.standing, told.group = ItemStanding.WITH_A_GROUP, group
    return told


def change_item(state: QueueState, operation: OperationId, ask: ChangeItem) -> int:
    """Drops it, or brings it back (rules 2 to 4); whether that was done to anything."""
    position, where = ask.position, Interval(ask.position, ask.position + 1)
    if position not in state.batches.live or _group_of(state, position):
        return 0
    if ask.dead and position not in state.dead:
        return 0
    if any(position in one.left for one in state.leases.values() if one.promised is not None):
        return 0
    if ask.drop:
        state.lose(where, told=False)
        return 1
    if position in state.ready:
        return 0
    for token, lease in list(state.leases.items()):
        if position in lease.left:
            state.give_back(operation, token, [where])
            return 1
    died = position in state.dead
    if died:
        state.dead.remove(where)
        state.failures.clear(where)
    state.delays.clear(where)
    state.ready.add(where)
    if state.by_key is not None:
        (state.by_key.ready if died else state.by_key.due)(where)
    state.changed[STATUS] = None
    return 1


def _group_of(state: QueueState, position: int) -> str:
    return next(
        (name for name, group in state.groups if any(position in one for one in group.held)), ""
    )
