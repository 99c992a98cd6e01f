"""Gets that wait at a queue for items. Waiting costs the queue nothing.

A get that waits is asked again by its client every few seconds (`protocols.calling`); one that was
not is over: its client is gone, and nothing must be leased to it. Mostly this is known sooner: a
process that ends takes its connections with it (`calling.Gone`).
"""

from collections import OrderedDict
from heapq import heapify, heappop, heappush
from typing import Final

import msgspec

from snowmelt.core.instant import Instant, later, seconds
from snowmelt.core.names import NodeId, OperationId
from snowmelt.protocols.queue.calls import Get

SILENT_MAX: Final = seconds(12)
SPARE: Final = 64
"""So many deadlines more may be kept than twice those that count."""


class WaitingGet(msgspec.Struct):
    operation: OperationId
    get: Get
    refused: str
    """Why what it wanted to settle was refused."""
    deadline: Instant
    asked: Instant


class Waiting:
    """All who wait at one queue, in the order in which they came. No call looks at all of them."""

    def __init__(self) -> None:
        # Ordered: the first goes first, and a dict would look for the next among all that went.
        self.gets: OrderedDict[OperationId, WaitingGet] = OrderedDict()
        self._of: dict[NodeId, dict[OperationId, None]] = {}
        self._gets_end: list[tuple[Instant, OperationId]] = []

    def add_get(self, operation: OperationId, get: Get, refused: str, now: Instant) -> None:
        """A get begins to wait; what it settled is done with."""
        deadline = later(now, get.patience)
        if get.settle is not None:
            get = msgspec.structs.replace(get, settle=None)
        self.gets[operation] = WaitingGet(operation, get, refused, deadline, now)
        self._of.setdefault(operation.client, {})[operation] = None
        heappush(self._gets_end, (deadline, operation))
        if len(self._gets_end) > 2 * len(self.gets) + SPARE:
            self._gets_end = [(one.deadline, one.operation) for one in self.gets.values()]
            heapify(self._gets_end)

    def first(self, now: Instant) -> WaitingGet | None:
        """Whose turn it is; who was not asked again for long waits no more."""
        while self.gets:
            waiting = next(iter(self.gets.values()))
            if later(waiting.asked, SILENT_MAX) > now:
                return waiting
            self.leave(waiting.operation)
        return None

    def over(self, now: Instant) -> list[WaitingGet]:
        """The gets whose patience is at its end; they wait no longer."""
        ended: list[WaitingGet] = []
        while (deadline := self.next_deadline()) is not None and deadline <= now:
            _, operation = heappop(self._gets_end)
            ended.append(self.gets[operation])
            self.leave(operation)
        return ended

    def gone(self, client: NodeId) -> None:
        """Nobody is there for the gets of this client; if it lives, it asks again. O(its gets)."""
        for operation in list(self._of.get(client, ())):
            self.leave(operation)

    def leave(self, operation: OperationId) -> None:
        """It waits no more."""
        del self.gets[operation]
        its = self._of[operation.client]
        del its[operation]
        if not its:
            del self._of[operation.client]

    def next_deadline(self) -> Instant | None:
        """When somebody's patience ends next; those that are served have left their deadlines."""
        while self._gets_end:
            deadline, operation = self._gets_end[0]
            one = self.gets.get(operation)
            if one is not None and one.deadline == deadline:
                return deadline
            heappop(self._gets_end)
        return None
