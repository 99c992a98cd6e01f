"""The clients of one node who wait for one baton: rule 13."""

import msgspec

from snowmelt.core.ends import Ends
from snowmelt.core.instant import Instant, later
from snowmelt.core.names import NodeId, OperationId
from snowmelt.core.node import Effect, Reply
from snowmelt.protocols.arrow import OrderPlace
from snowmelt.protocols.baton.calls import KNOWN, PATIENCE, POLL, Acquire, Queued
from snowmelt.protocols.baton.messages import Message


class BatonWaiter(msgspec.Struct):
    ticket: int
    places: tuple[OrderPlace, ...] = ()
    """Those that were asked for; one will do."""
    asked: Instant = Instant(0)
    """When the last of them was."""
    client: NodeId | None = None
    """None for another machine of this node, which waits without being asked again."""
    operation: OperationId | None = None
    """The call that waits for an answer."""
    waits: bool = True
    """Whether the call waits though the baton is taken."""


class BatonWaiters:
    def __init__(self) -> None:
        self._wants: dict[int, BatonWaiter] = {}
        self._of: dict[NodeId, dict[int, None]] = {}
        """The tickets of each client."""
        self._due: Ends[int] = Ends()
        """When each ticket's call is answered `Queued`; or until when there may be another."""

    def __len__(self) -> int:
        return len(self._wants)

    def get(self, ticket: int | None) -> BatonWaiter | None:
        return None if ticket is None else self._wants.get(ticket)

    def add(self, want: BatonWaiter) -> None:
        self._wants[want.ticket] = want

    def take(self, ticket: int | None) -> BatonWaiter | None:
        want = None if ticket is None else self._wants.pop(ticket, None)
        if want is not None:
            self._leave(want)
            self._due.forget(want.ticket)
        return want

    def all(self) -> list[BatonWaiter]:
        return list(self._wants.values())

    def of(self, client: NodeId) -> list[BatonWaiter]:
        """Those of one client, first come first. O(its own)."""
        return [self._wants[ticket] for ticket in self._of.get(client, ())]

    def count(self, client: NodeId) -> int:
        """How many one client has."""
        return len(self._of.get(client, ()))

    def called(
        self, want: BatonWaiter, operation: OperationId, call: Acquire, now: Instant
    ) -> Instant:
        """Its client asks, for the first time or again; returns when it is to be answered."""
        if want.client != operation.client:
            self._leave(want)
            self._of.setdefault(operation.client, {})[want.ticket] = None
        want.client, want.operation, want.waits = operation.client, operation, call.wait > 0
        until = later(now, min(call.wait, POLL) if want.waits else KNOWN)
        self._due.put(want.ticket, until)
        return until

    def hurry(self, want: BatonWaiter, now: Instant) -> None:
        """The baton is taken, so a call that may not wait is to be answered."""
        if want.operation is not None and not want.waits:
            self._due.put(want.ticket, now)

    def due(self) -> Instant | None:
        """When the next of them is to be answered, or given up. O(log wants)."""
        return self._due.next

    def expire(self, now: Instant) -> tuple[list[Effect[Message | Queued]], list[BatonWaiter]]:
        """Answers the calls that have waited enough; returns whose client has not come back."""
        answers: list[Effect[Message | Queued]] = []
        over = []
        for want in [self._wants[ticket] for ticket in self._due.over(now)]:
            if want.operation is None:
                over.append(want)
                continue
            answers.append(Reply(want.operation, Queued()))
            want.operation = None
            self._due.put(want.ticket, later(now, PATIENCE))
        return answers, over

    def _leave(self, want: BatonWaiter) -> None:
        if want.client is None:
            return
        own = self._of[want.client]
        del own[want.ticket]
        if not own:
            del self._of[want.client]
