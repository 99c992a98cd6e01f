"""A door goes on with operations that may have been begun before: inquiry, rules 1 to 3 and 6."""

from snowmelt.core.names import NodeId, OperationId
from snowmelt.protocols.priority.attempts import chosen, stored_of
from snowmelt.protocols.priority.batches import Shares, union
from snowmelt.protocols.priority.calls import Get, Purge
from snowmelt.protocols.priority.desk import Desk
from snowmelt.protocols.priority.gets import Gets
from snowmelt.protocols.priority.hand import GetInHand, Hand, Placed, PutInHand, TakenOver
from snowmelt.protocols.priority.inquiry import Inquiry, door_of
from snowmelt.protocols.priority.messages import Attempt, Inquire, Inquired, Trace
from snowmelt.protocols.priority.puts import Puts
from snowmelt.protocols.priority.sending import Sending
from snowmelt.protocols.priority.settings import State
from snowmelt.protocols.priority.shelf import Shelf


class Beginnings:
    """Of one queue, at one door: what others are told, and what is done with what they tell."""

    def __init__(
        self,
        desk: Desk,
        queue: str,
        shelf: Shelf,
        hand: Hand,
        sending: Sending,
        puts: Puts,
        gets: Gets,
    ) -> None:
        self._desk = desk
        self._queue = queue
        self._shelf = shelf
        self._hand = hand
        self._puts = puts
        self._gets = gets
        self.inquiry = Inquiry(desk, queue, sending)
        self._dropped: list[OperationId] = []

    def viewed(self) -> None:
        """All inquiries begin again, but those for others' operations (inquiry, rule 5)."""
        self.inquiry.viewed()
        for operation in list(self.inquiry.waiting):
            one = self._hand.all.get(operation)
            if one is not None and one.another:
                self.inquiry.drop(operation)
                self._hand.leave(operation)
                self._dropped.append(operation)

    def settled(self) -> None:
        """Who waits still for what was dropped asks again."""
        dropped, self._dropped = self._dropped, []
        for operation in dropped:
            self._desk.redirect(operation, self._desk.me)

    def inquired(self, source: NodeId, message: Inquire, spared: Shares) -> None:
        """Another door asks, or this one, what there is of operations."""
        traces: list[Trace] = []
        leases = self._shelf.rows.leased_by(message.operations)
        for operation in message.operations:
            mine = None if source == self._desk.me else self._claim(source, operation)
            made = self._shelf.made_by(operation)
            stored = tuple(stored_of(self._shelf.rows, made, spared))
            leased = tuple(leases[operation])
            if mine is not None or stored or leased:
                traces.append(Trace(operation, mine, stored, leased))
        answer = Inquired(self._desk.era, self._queue, message.serial, tuple(traces))
        self._desk.send(source, answer)

    def found(self, message: Inquired) -> None:
        findings = self.inquiry.answered(message)
        if findings is not None:
            for operation in findings.operations:
                traces = [one for one in findings.traces if one.operation == operation]
                self._go_on(operation, traces)

    def _claim(self, source: NodeId, operation: OperationId) -> NodeId | None:
        """Whether this door has it; else it is the other's from now on (inquiry, rules 2 and 3)."""
        if self._hand.answered.get(operation) is not None:
            return self._desk.me
        if operation in self._hand.all:
            if operation not in self.inquiry or self._desk.me < source:
                return self._desk.me
            self.inquiry.drop(operation)
            self._give_up(operation, source)
        left = self._hand.elsewhere.get(operation)
        ours = self._desk.me, source
        if not isinstance(left, TakenOver) or left.era != self._desk.era or left.door in ours:
            self._leave(operation, source)  # else whoever asked first knows more (rule 6)
        return None

    def _give_up(self, operation: OperationId, door: NodeId) -> None:
        """Another has it, and this door remembers that: its client may come here again (rule 6)."""
        self._hand.leave(operation)
        self._leave(operation, door)
        self._desk.redirect(operation, door)

    def _leave(self, operation: OperationId, door: NodeId) -> None:
        taken = TakenOver(door, self._desk.era)
        self._hand.elsewhere.keep(operation, taken, self._desk.now)

    def _go_on(self, operation: OperationId, traces: list[Trace]) -> None:
        one = self._hand.all.get(operation)
        if one is None:
            return
        one.another = False
        other = door_of(traces, operation)
        if other is not None:
            self._give_up(operation, other)
        elif isinstance(one, PutInHand):
            self._go_on_putting(one, [found for trace in traces for found in trace.stored])
        else:
            self._go_on_getting(one, traces)

    def _go_on_putting(self, one: PutInHand, found: list[Attempt]) -> None:
        """What is there of it counts; the rest is begun anew (`attempts.py`, rule 1)."""
        one.again, one.copies, one.refused = True, 0, ""
        counts = [(choice.origin, choice.share) for choice in chosen(found)]
        one.placed = [Placed(origin.first, share, origin.order) for origin, share in counts]
        one.left = one.lacking()
        if one.placed:
            self._puts.send([one], self._hand.at())
        if one.left:
            self._hand.line.append(one.operation)

    def _go_on_getting(self, one: GetInHand, traces: list[Trace]) -> None:
        """A lease that it was given is its; else it asks anew, a purge after what it had first."""
        marks = [mark for trace in traces for mark in trace.leased if mark.state == State.LEASED]
        one.pieces, one.left, one.fresh, one.over = [], [], False, ()
        if marks and isinstance(one.call, Get):
            token = max(mark.token for mark in marks)
            shares = [share for mark in marks if mark.token == token for share in mark.shares]
            one.phase = one.phase if one.token == token else 0
            self._gets.take(one, union(shares), token, self._hand.at())
        elif isinstance(one.call, Purge) and one.granted:
            self._gets.purged(one, self._hand.at())
        else:
            self._hand.line.append(one.operation)
