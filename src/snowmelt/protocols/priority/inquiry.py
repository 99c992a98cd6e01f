"""Whether an operation was begun before: package, rule 11.

1. A door that takes up an operation which may have been begun elsewhere, or in a view that is
   over, asks all members what there is of it, and goes on when all have answered.
2. Whoever is asked, and has it in hand or has answered it, says so: the client is sent there. Of
   two doors that ask at once the one of the lesser name goes on.
3. Whoever was asked, and knows nothing, will not begin it any more: if it comes, it is sent on.
4. A new view ends all inquiries; they begin again.
5. But what another was asked first, and this door has only asked after, it drops then: the client
   may have had its answer from the other, who may be away with all that was stored of it. A client
   that waits still is told to ask again.
6. A door that leaves an operation to another remembers to whom. Its client may have been sent here
   by a third meanwhile, and may have asked here first: it is sent on, and nothing is begun anew.
   A late question of a third changes nothing of that. In another view, in which that door may have
   dropped it, only that it was begun is remembered: else two doors send a client to and fro.
7. Members are asked at different moments, and elements move from one to another within a view
   (repair): one may be asked before they come, the other after he erased them. So whoever had an
   element at any moment of this view answers for it until the view is over.
"""

from collections.abc import Iterable

import msgspec

from snowmelt.core.names import NodeId, OperationId
from snowmelt.protocols.priority.desk import Desk
from snowmelt.protocols.priority.fields import OPERATIONS_MAX
from snowmelt.protocols.priority.messages import Inquire, Inquired, Trace
from snowmelt.protocols.priority.sending import Sending

AT_ONCE = min(256, OPERATIONS_MAX)


class Findings(msgspec.Struct):
    operations: tuple[OperationId, ...]
    waits: int
    traces: list[Trace] = []


class Inquiry:
    """Of one queue, at one door; one question at a time."""

    def __init__(self, desk: Desk, queue: str, sending: Sending) -> None:
        self._desk = desk
        self._queue = queue
        self._sending = sending
        self.waiting: dict[OperationId, None] = {}
        """To be asked after."""
        self._asked: Findings | None = None

    def __contains__(self, operation: OperationId) -> bool:
        """Whether it is asked after."""
        asked = self._asked.operations if self._asked is not None else ()
        return operation in self.waiting or operation in asked

    def add(self, operations: Iterable[OperationId]) -> None:
        self.waiting.update(dict.fromkeys(operations))

    def begin(self) -> None:
        if self._asked is not None or not self.waiting:
            return
        operations = tuple(self.waiting)[:AT_ONCE]
        for operation in operations:
            del self.waiting[operation]
        self._asked = Findings(operations, len(self._desk.members))
        for member in self._desk.members:

            def make(serial: int) -> Inquire:
                return Inquire(self._desk.era, self._queue, serial, operations)

            self._sending.send(member, operations, make)

    def answered(self, message: Inquired) -> Findings | None:
        """One has answered; what was found when it was the last."""
        asked = self._asked
        if asked is None:
            return None
        asked.traces.extend(message.traces)
        asked.waits -= 1
        if asked.waits:
            return None
        self._asked = None
        return asked

    def viewed(self) -> None:
        """Rule 4."""
        if self._asked is not None:
            self.waiting = {**dict.fromkeys(self._asked.operations), **self.waiting}
            self._asked = None

    def drop(self, operation: OperationId) -> None:
        """Another has it in hand."""
        self.waiting.pop(operation, None)


def door_of(traces: Iterable[Trace], operation: OperationId) -> NodeId | None:
    for trace in traces:
        if trace.operation == operation and trace.door is not None:
            return trace.door
    return None
