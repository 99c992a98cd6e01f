"""What is in whose hands, and what comes when, as `peek` shows it.

1. What is leased is shown lease by lease, the one that was given first first. Tokens only grow, so
   that is the order of the leases in the state.
2. What is delayed is shown by when it is due. A moment that is over, since its items ended or were
   brought back, is passed over; there are no more of those than of the others (`state.py`).
3. It is O(items asked for) therefore, however many are leased or delayed.
4. All that is found is named. Of the bodies only as many as the bytes allow come along, those of
   the first positions; any other is shown by itself (`ShowItem`).
"""

from collections.abc import Iterator

from snowmelt.core.instant import SECOND, Instant
from snowmelt.core.interval import Interval, IntervalSet, without
from snowmelt.protocols.queue.api.statuses import HeldRun, PeekHeld
from snowmelt.protocols.queue.leader.deadlines import Deadlines
from snowmelt.protocols.queue.state.failures import tellable
from snowmelt.protocols.queue.state.state import QueueState


def held_runs(
    state: QueueState, deadlines: Deadlines, now: Instant, wall: int, ask: PeekHeld
) -> tuple[HeldRun, ...]:
    """As many of them as are asked for, and as one answer tells."""
    limits, found = state.limits, list[HeldRun]()
    room = min(ask.items_max, limits.get_items)
    runs = _delays(state, wall) if ask.delayed else _leases(state, deadlines, now, ask.names)
    for run in runs:
        if room <= 0 or len(found) == limits.lease_runs:
            break
        stop = min(run.stop, run.start + room)
        found.append(HeldRun(run.start, stop, run.left, run.held, run.client))
        room -= stop - run.start
    return tuple(found)


def bodies_of(state: QueueState, runs: tuple[HeldRun, ...], bytes_max: int) -> tuple[Interval, ...]:
    """Where those lie that come along (rule 4)."""
    limits, where = state.limits, IntervalSet([Interval(one.start, one.stop) for one in runs])
    size = min(bytes_max, limits.fetch_bytes)
    found = state.batches.some(where, 0, where.total, size, limits.lease_runs)
    return tuple(tellable(found, state.failures, state.batches, limits.spans_bytes))


def _leases(
    state: QueueState, deadlines: Deadlines, now: Instant, names: bool
) -> Iterator[HeldRun]:
    # Rule 1.
    for token, lease in state.leases.items():
        client, held = lease.operation.client if names else "", deadlines.held(token, now)
        left = max(0, deadlines.left(token, now)) if token in deadlines else 0
        for part in lease.left:
            yield HeldRun(part.start, part.stop, left / SECOND, held / SECOND, client)


def _delays(state: QueueState, wall: int) -> Iterator[HeldRun]:
    # Rule 2. What was delayed twice until one moment has that moment twice.
    shown = IntervalSet()
    for due, start, stop in state.dues if state.delays.starts else ():
        for part, until in state.delays.common(Interval(start, stop)):
            for one in without([part], shown.common(part)) if until == due else ():
                shown.add(one)
                yield HeldRun(one.start, one.stop, max(0, due - wall) / SECOND)
