"""What the master does for groups (`groups.py`).

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
5. How far a group's items were located is written down before they are told, and told with what is
   given. So a reader of several queues knows which items a batch had that it has no note of, and
   can tell the same batch again, of those and no others.
6. A refusal is told like any answer, when what it rests on is safe, and by who is the master still:
   one that was replaced knows of no group that was begun anew since, nor how far it came.
"""

from snowmelt.core.interval import Interval
from snowmelt.core.names import OperationId
from snowmelt.protocols.calling import Declined
from snowmelt.protocols.fifo import calls
from snowmelt.protocols.fifo.answers import Answers
from snowmelt.protocols.fifo.desk import Desk
from snowmelt.protocols.fifo.groups import LEASE_MAX, Group, assign_problem, locate_problem
from snowmelt.protocols.fifo.journal import Journal
from snowmelt.protocols.fifo.queue import Dropped, gives
from snowmelt.protocols.fifo.spans import living_spans


class Grouping:
    def __init__(self, desk: Desk, journal: Journal, dropped: Dropped) -> None:
        self._desk = desk
        self._journal = journal
        self._queue = journal.queue
        self._dropped = dropped
        self._released: Answers[calls.Changed] = Answers(desk.limits.answered)
        """What releases came to: asked again, one must not end the group that began since."""

    def assign(self, operation: OperationId, ask: calls.Assign) -> None:
        groups = self._queue.groups
        refused = assign_problem(ask, groups, self._desk.limits.groups)
        if refused is not None:
            self._answer(operation, refused)
            return
        group = groups.named(ask.group)
        if group is None:
            group = Group(0, "", 0, [], self._desk.wall)
        if ask.lease == 0 and (group.lease == 0 or group.reader != ask.reader):
            self._begin(ask, group)
        if group.lease:
            self._advance(ask, group)
        ready = self._queue.ready.total
        self._answer(operation, calls.Assigned(group.lease, group.given, ready, group.located))

    def _answer(
        self,
        operation: OperationId,
        told: calls.Assigned | calls.Located | calls.Changed | calls.Groups | Declined,
    ) -> None:
        """When what it rests on is safe, and by who is the master still (rule 6)."""
        self._journal.after(lambda: self._desk.reply(operation, told))

    def _begin(self, ask: calls.Assign, group: Group) -> None:
        """A lease for a group at its beginning; not before there is something to read."""
        if not group.held and not self._may_take(ask):
            return
        group.lease, group.reader = self._desk.chance.randrange(1, LEASE_MAX), ask.reader
        self._queue.groups.keep(ask.group, group)

    def _advance(self, ask: calls.Assign, group: Group) -> None:
        """Rules 1 and 2."""
        queue = self._queue
        for passed in group.pass_by(ask.done):
            for part in queue.alive.common(passed):
                queue.done += part.size
                self._dropped(queue.gone(part))
            self._touch(ask.group, group)
        if not group.held and self._may_take(ask):
            taken = queue.take(
                ask.items_max, ask.bytes_max, ask.below, self._desk.limits.group_pieces
            )
            group.held = list(taken)
            self._touch(ask.group, group)

    def _may_take(self, ask: calls.Assign) -> bool:
        return ask.items_max > 0 and gives(self._queue, ask.below)

    def _touch(self, name: str, group: Group) -> None:
        group.heard = self._desk.wall
        self._queue.groups.touch(name)

    def locate(self, operation: OperationId, ask: calls.Locate) -> None:
        """Where a group's items lie (rules 4 and 5)."""
        refused = locate_problem(ask, self._queue.groups)
        if refused is not None:
            self._answer(operation, refused)
            return
        group = self._queue.groups.named(ask.group)
        assert group is not None
        if ask.until > group.located:
            group.located = ask.until
            self._queue.groups.touch(ask.group)
        self._tell(operation, group.between(ask.after, ask.until), ask.until - ask.after)

    def survey(self, operation: OperationId, ask: calls.Survey) -> None:
        """Where ready items lie."""
        found: list[Interval] = []
        left = min(ask.items_max, self._desk.limits.surveyed)
        tail = max(ask.start, self._queue.tail)
        for piece in self._queue.aside.waiting.within(Interval(ask.start, tail)):
            part, _ = piece.split(left)
            if part.size == 0:
                break
            found.append(part)
            left -= part.size
        limit = self._desk.limits.spans_bytes
        spans, size = living_spans(self._queue, self._desk.presence, found, limit)
        self._answer(operation, calls.Located(tuple(spans), 0, size))

    def _tell(self, operation: OperationId, positions: list[Interval], count: int) -> None:
        limit = self._desk.limits.answer_bytes
        spans, size = living_spans(self._queue, self._desk.presence, positions, limit)
        if sum(span.weight for span in spans) > limit:
            text = f"where {count} items lie does not fit one answer; ask for fewer"
            self._answer(operation, Declined("TooLarge", text))
            return
        lost = count - sum(span.stop - span.start for span in spans)
        self._answer(operation, calls.Located(tuple(spans), lost, size))

    def release(self, operation: OperationId, ask: calls.Release) -> None:
        """Forgets a group; what it held is ready again."""
        told = self._released.of(operation) or self._release(operation, ask)
        self._answer(operation, told)

    def _release(self, operation: OperationId, ask: calls.Release) -> calls.Changed:
        queue = self._queue
        group = queue.groups.named(ask.group)
        count = 0
        for piece in [] if group is None else group.held:
            for part in queue.alive.common(piece):
                queue.ready.add(part)
                count += part.size
        if group is not None:
            queue.groups.forget(ask.group)
        return self._released.keep(operation, calls.Changed(count))

    def list(self, operation: OperationId, ask: calls.ListGroups) -> None:
        del ask
        self._answer(operation, calls.Groups(self._queue.groups.told))
