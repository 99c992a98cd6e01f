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

from typing import Final

from snowmelt.core.interval import Interval
from snowmelt.core.names import OperationId
from snowmelt.protocols.calling import Declined
from snowmelt.protocols.fifo import calls
from snowmelt.protocols.fifo.answers import Answers
from snowmelt.protocols.fifo.desk import Desk
from snowmelt.protocols.fifo.groups import Group
from snowmelt.protocols.fifo.journal import Journal
from snowmelt.protocols.fifo.queue import Dropped, gives
from snowmelt.protocols.fifo.spans import living_spans

LEASE_MAX: Final = 2**53
"""Leases are drawn, not counted: a mark of another cluster must not fit by accident."""


class Grouping:
    def __init__(self, desk: Desk, journal: Journal, dropped: Dropped) -> None:
        self._desk = desk
        self._journal = journal
        self._queue = journal.queue
        self._dropped = dropped
        self._released: Answers[calls.Changed] = Answers(desk.limits.answered)
        """What releases came to: asked again, one must not end the group that began since."""

    def assign(self, operation: OperationId, ask: calls.Assign) -> None:
        group = self._queue.groups.named(ask.group)
        refused = self._refused(ask, group)
        if refused is not None:
            self._refuse(operation, *refused)
            return
        if group is None:
            group = Group(0, "", 0, [], self._desk.wall)
        if ask.lease == 0 and (group.lease == 0 or group.reader != ask.reader):
            self._begin(ask, group)
        if group.lease:
            self._advance(ask, group)
        ready = self._queue.ready.total
        self._answer(operation, calls.Assigned(group.lease, group.given, ready, group.located))

    def _refuse(self, operation: OperationId, error: str, text: str) -> None:
        self._answer(operation, Declined(error, text))

    def _answer(
        self,
        operation: OperationId,
        told: calls.Assigned | calls.Located | calls.Changed | calls.Groups | Declined,
    ) -> None:
        """When what it rests on is safe, and by who is the master still (rule 6)."""
        self._journal.after(lambda: self._desk.reply(operation, told))

    def _refused(self, ask: calls.Assign, group: Group | None) -> tuple[str, str] | None:
        """Why not, as an error's name and text (rules 2 and 3)."""
        if ask.lease == 0:
            if group is None and len(self._queue.groups) >= self._desk.limits.groups:
                text = (
                    f"queue {self._queue.name!r} has {len(self._queue.groups)} groups already; "
                    f"release some: snowmelt groups release {self._queue.name} GROUP"
                )
                return "Full", text
            begun = group is not None and (group.done or group.located)
            if group is None or not begun or (not group.done and group.reader == ask.reader):
                return None
            return "GroupHeld", self._begun(ask.group, group)
        if group is None or group.lease != ask.lease:
            text = f"{self._whose(ask.group)} was released, or begun anew by another"
            return "LeaseLost", text
        if ask.done > group.given:
            text = (
                f"{self._whose(ask.group)} was given {group.given} items, and cannot be done with "
                f"{ask.done}"
            )
            return "LeaseLost", text
        return self._behind(ask.group, group, ask.done)

    def _whose(self, name: str) -> str:
        return f"group {name!r} of queue {self._queue.name!r}"

    def _begun(self, name: str, group: Group) -> str:
        """Why who doesn't know the lease can't have a group."""
        how = f"done with {group.done} items" if group.done else f"at work on {group.given} items"
        return (
            f"{self._whose(name)} is {how} already, and this reader does not know "
            "it: another has the group's mark; go on from there, choose another group, or "
            f"release it: snowmelt groups release {self._queue.name} {name}"
        )

    def _behind(self, name: str, group: Group, done: int) -> tuple[str, str] | None:
        """Rule 2."""
        if done >= group.done:
            return None
        text = (
            f"{self._whose(name)} is done with {group.done} items, and this reader knows of {done} "
            "only: what it has is older than the queue; go on from what is newer, or begin anew "
            f"and release the group: snowmelt groups release {self._queue.name} {name}"
        )
        return "GroupHeld", text

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
        group = self._queue.groups.named(ask.group)
        if group is None or group.lease != ask.lease:
            text = f"{self._whose(ask.group)} was released, or begun anew by another"
            self._refuse(operation, "LeaseLost", text)
            return
        if ask.until > group.given:
            text = f"{self._whose(ask.group)} was given {group.given} items, not {ask.until}"
            self._refuse(operation, "LeaseLost", text)
            return
        behind = self._behind(ask.group, group, ask.after)
        if behind is not None:
            self._refuse(operation, *behind)
            return
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
            self._refuse(operation, "TooLarge", text)
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
        told = calls.Groups(
            tuple(
                calls.GroupStatus(name, group.lease, group.done, group.given, group.heard)
                for name, group in self._queue.groups
            )
        )
        self._answer(operation, told)
