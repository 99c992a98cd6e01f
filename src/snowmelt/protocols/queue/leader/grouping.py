"""What a leader does for groups (`groups.py`): they are of the state, and change in its steps.

1. A group is given something only when it is done with all it was given before; until then it is
   told the same again. So whoever lost an answer, or crashed before it wrote down what it was
   given, loses nothing and gets nothing twice.
2. Being done is cumulative. Who asks with less than the group is done with has an older state than
   the queue: it is refused and changes nothing, for what it would do next was done before.
3. A lease that isn't the group's is refused. Lease 0 begins, and takes the place of whoever was
   there: but only while nobody can have read anything, that is while none of the group's items was
   located. Later on, who doesn't know the lease would do things twice.
4. What is lost meanwhile stays in the group's count, and is told as lost; the others keep their
   numbers.
5. How far a group's items were located is safe before it is told where they lie, and told with what
   is given. So a reader of several queues knows which items a batch had that it has no note of, and
   can tell the same batch again, of those and no others.
"""

from typing import assert_never

from snowmelt.core.interval import POSITION_MAX, Interval, first_positions
from snowmelt.core.names import OperationId
from snowmelt.protocols.calling import Declined
from snowmelt.protocols.queue.api import calls
from snowmelt.protocols.queue.leader.part import LeaderPart, Own
from snowmelt.protocols.queue.leader.spans import Spans
from snowmelt.protocols.queue.messages.words import ReplyTo
from snowmelt.protocols.queue.state.groups import (
    LEASE_MAX,
    GroupState,
    assign_problem,
    locate_problem,
)
from snowmelt.protocols.queue.state.pacing import Pace
from snowmelt.protocols.queue.state.state import STATUS, QueueState

Ask = calls.Assign | calls.Locate | calls.Survey | calls.ListGroups
Answer = calls.Assigned | calls.Located | calls.Groups | Declined


def release(state: QueueState, name: str) -> int:
    """Forgets a group; what it held is ready again. How many items that is."""
    group = state.groups.named(name)
    if group is None:
        return 0
    back = [part for one in group.held for part in state.batches.live.common(one)]
    state.ready.add_all(back)
    if state.by_key is not None:
        for part in back:
            state.by_key.ready(part)
    state.groups.forget(name)
    count = sum([part.size for part in back])
    state.counts.returned += count
    state.changed[STATUS] = None
    return count


class Grouping(LeaderPart):
    """Of one queue, in one term."""

    def __init__(self, own: Own, spans: Spans, pace: Pace | None) -> None:
        super().__init__(own)
        self._spans = spans
        self._pace = pace

    def hear(self, operation: OperationId, ask: Ask) -> None:
        """Somebody reads as a group, or asks what there is."""
        self._log.owe(ReplyTo(operation, self._answer(ask)))

    def _answer(self, ask: Ask) -> Answer:
        match ask:
            case calls.Assign():
                return self._assign(ask)
            case calls.Locate():
                return self._locate(ask)
            case calls.Survey():
                return self._survey(ask)
            case calls.ListGroups():
                return calls.Groups(self._state.groups.told)
            case _:
                assert_never(ask)

    def _assign(self, ask: calls.Assign) -> calls.Assigned | Declined:
        # Rules 1 to 3.
        state, groups, wall = self._state, self._state.groups, self._outbox.wall
        refused = assign_problem(ask, groups, self._outbox.limits.groups)
        if refused is not None:
            return refused
        group = groups.named(ask.group) or GroupState(0, "", 0, [], wall)
        passed = group.pass_by(ask.done)
        for part in [part for one in passed for part in state.batches.live.common(one)]:
            state.done += part.size
            state.end(part)
        found = [] if group.held else self._first(ask)
        anew = ask.lease == 0 and group.reader != ask.reader
        if anew and (group.held or found):  # not before there is something to read
            group.lease, group.reader = self._outbox.chance.randrange(1, LEASE_MAX), ask.reader
            groups.keep(ask.group, group)
        if found:
            state.ready.remove_all(found)
            group.held = found
        if passed or found:
            group.heard = wall
            groups.keep(ask.group, group)
        return calls.Assigned(group.lease, group.given, state.ready.total, group.located)

    def _first(self, ask: calls.Assign) -> list[Interval]:
        """The first ready items, as many as are asked for."""
        found = self._state.first(
            ask.items_max, ask.bytes_max, ask.below, in_turn=True, pace=self._pace
        )
        return found[: self._outbox.limits.group_pieces]

    def _locate(self, ask: calls.Locate) -> calls.Located | Declined:
        # Rules 4 and 5.
        groups, limit = self._state.groups, self._outbox.limits.answer_bytes
        refused = locate_problem(ask, groups)
        if refused is not None:
            return refused
        group, count = groups.named(ask.group), ask.until - ask.after
        assert group is not None
        if ask.until > group.located:
            group.located = ask.until
            groups.touch(ask.group)
        spans, size = self._spans.of(group.between(ask.after, ask.until), limit)
        if sum([span.weight for span in spans]) > limit:
            text = f"where {count} items lie does not fit one answer; ask for fewer"
            return Declined("TooLarge", text)
        lost = count - sum([span.stop - span.start for span in spans])
        return calls.Located(tuple(spans), lost, size)

    def _survey(self, ask: calls.Survey) -> calls.Located:
        limits, ready = self._outbox.limits, self._state.ready
        behind = Interval(ask.start, POSITION_MAX)
        found = first_positions(ready.within(behind), min(ask.items_max, limits.surveyed))
        spans, size = self._spans.of(found, limits.spans_bytes)
        return calls.Located(tuple(spans), 0, size)
