"""The clients of one node who wait for one baton: rule 13."""

from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from typing import Final

import msgspec

from snowmelt.core.instant import Instant, later
from snowmelt.core.names import NodeId, OperationId
from snowmelt.core.node import Effect, Reply
from snowmelt.protocols.arrow import OrderPlace
from snowmelt.protocols.baton.calls import KNOWN, PATIENCE, POLL, Acquire, Queued
from snowmelt.protocols.baton.messages import Message

STALE_MAX: Final = 64


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
    until: Instant | None = None
    """When the call is answered `Queued`; when there is none, until when it may come again."""


class BatonWaiters:
    def __init__(self) -> None:
        self._wants: dict[int, BatonWaiter] = {}
        self._of: dict[NodeId, dict[int, None]] = {}
        """The tickets of each client."""
        self._due: list[tuple[Instant, int]] = []
        """When which ticket's is due, as a heap; what is there twice, or over, is passed over."""

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
        self._until(want, until)
        return until

    def hurry(self, want: BatonWaiter, now: Instant) -> None:
        """The baton is taken, so a call that may not wait is to be answered."""
        if want.operation is not None and not want.waits:
            self._until(want, now)

    def due(self) -> Instant | None:
        """When the next of them is to be answered, or given up. O(log wants)."""
        due = self._due
        while due and not self._counts(*due[0]):
            heappop(due)
        return due[0][0] if due else None

    def expire(self, now: Instant) -> tuple[list[Effect[Message | Queued]], list[BatonWaiter]]:
        """Answers the calls that have waited enough; returns whose client has not come back."""
        answers: list[Effect[Message | Queued]] = []
        over = []
        for want in list(self._expired(now)):
            if want.operation is None:
                over.append(want)
                continue
            answers.append(Reply(want.operation, Queued()))
            want.operation = None
            self._until(want, later(now, PATIENCE))
        return answers, over

    def _expired(self, now: Instant) -> Iterator[BatonWaiter]:
        due = self._due
        while due and due[0][0] <= now:
            until, ticket = heappop(due)
            if self._counts(until, ticket):
                want = self._wants[ticket]
                want.until = None
                yield want

    def _leave(self, want: BatonWaiter) -> None:
        if want.client is None:
            return
        own = self._of[want.client]
        del own[want.ticket]
        if not own:
            del self._of[want.client]

    def _until(self, want: BatonWaiter, until: Instant) -> None:
        want.until = until
        heappush(self._due, (until, want.ticket))
        if len(self._due) > 2 * len(self._wants) + STALE_MAX:
            self._due = [(one.until, one.ticket) for one in self.all() if one.until is not None]
            heapify(self._due)

    def _counts(self, until: Instant, ticket: int) -> bool:
        want = self._wants.get(ticket)
        return want is not None and want.until == until
