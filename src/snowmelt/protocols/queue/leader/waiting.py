"""Gets that wait at a queue for items, and puts that wait for room, each in their order.

Waiting costs the queue nothing. A get that waits is asked again by its client every few seconds
(`protocols.calling`); one that was not is over: its client is gone, and nothing must be leased to
it. Mostly this is known sooner: a process that ends takes its connections with it (`calling.Gone`).
"""

from collections import OrderedDict
from typing import Final

import msgspec

from snowmelt.core.ends import Ends
from snowmelt.core.instant import Instant, later, seconds
from snowmelt.core.names import NodeId, OperationId
from snowmelt.core.shares import SharesHeld
from snowmelt.protocols.queue.api.calls import Get, Put
from snowmelt.protocols.queue.messages.words import SpreadPut

SILENT_MAX: Final = seconds(12)


class WaitingGet(msgspec.Struct):
    operation: OperationId
    get: Get
    refused: str
    """Why what it wanted to settle was refused."""
    asked: Instant


class WaitingGets:
    """All who wait at one queue, in the order in which they came. No call looks at all of them."""

    def __init__(self) -> None:
        # Ordered: the first goes first, and a dict would look for the next among all that went.
        self.gets: OrderedDict[OperationId, WaitingGet] = OrderedDict()
        self._ends: Ends[OperationId] = Ends()
        self._of = SharesHeld[NodeId]()

    def has_room(self, client: NodeId, most: int) -> bool:
        """Whether one more of this client may wait, of so many in all."""
        return self._of.has_room(client, 1, most)

    def add_get(self, operation: OperationId, get: Get, refused: str, now: Instant) -> None:
        """A get begins to wait; what it settled is done with."""
        if get.settle is not None:
            get = msgspec.structs.replace(get, settle=None)
        self.gets[operation] = WaitingGet(operation, get, refused, now)
        self._of.add(operation.client)
        self._ends.put(operation, later(now, get.patience))

    def first(self, now: Instant) -> WaitingGet | None:
        """Whose turn it is; who was not asked again for long waits no more."""
        while self.gets:
            waiting = next(iter(self.gets.values()))
            if later(waiting.asked, SILENT_MAX) > now:
                return waiting
            self.leave(waiting.operation)
        return None

    def leave(self, operation: OperationId) -> None:
        """It waits no more, if it did."""
        if self.gets.pop(operation, None) is not None:
            self._of.remove(operation.client)
            self._ends.forget(operation)

    def over(self, now: Instant) -> list[WaitingGet]:
        """The gets whose patience is at its end; they wait no longer."""
        over = [self.gets.pop(operation) for operation in self._ends.over(now)]
        for one in over:
            self._of.remove(one.operation.client)
        return over

    @property
    def next_deadline(self) -> Instant | None:
        """When somebody's patience ends next."""
        return self._ends.next


class WaitingPut(msgspec.Struct):
    """A put for which there was no room yet."""

    put: Put | SpreadPut
    deadline: Instant
    asked: dict[OperationId, None] = {}
    turns: dict[str, int] = {}
    """Who waits for it: callers, and the last turn of each."""


class WaitingPuts:
    """All puts that wait at one queue, each once, with those who asked for it.

    With a client that is gone go its puts: nobody else waits behind what nobody waits for.
    """

    def __init__(self) -> None:
        self.puts: OrderedDict[tuple[str, int], WaitingPut] = OrderedDict()
        self._ends: Ends[tuple[str, int]] = Ends()

    def has(self, put: SpreadPut) -> bool:
        """Whether that very one waits."""
        waiting = self.puts.get((put.producer, put.sequence))
        return waiting is not None and waiting.put is put

    def waits(self, put: Put | SpreadPut) -> bool:
        """Whether somebody asked for it, and waits."""
        return (put.producer, put.sequence) in self.puts

    def join(
        self, operation: OperationId, put: Put | SpreadPut, now: Instant, attempts: int
    ) -> WaitingPut | None:
        """It waits with whoever asked for the same put, or begins to; as long as its last turn.

        None where so many wait for it already.
        """
        name = put.producer, put.sequence
        if name not in self.puts:
            self.puts[name] = WaitingPut(put, now)
        waiting = self.puts[name]
        if operation not in waiting.asked and len(waiting.asked) >= attempts:
            return None
        waiting.asked[operation] = None
        if put.turn > waiting.turns.get(put.caller, -1):
            waiting.turns[put.caller] = put.turn
            waiting.deadline = later(now, put.patience)
            self._ends.put(name, waiting.deadline)
        return waiting

    @property
    def first(self) -> WaitingPut | None:
        return next(iter(self.puts.values()), None)

    def leave(self, waiting: WaitingPut) -> None:
        name = waiting.put.producer, waiting.put.sequence
        del self.puts[name]
        self._ends.forget(name)

    def over(self, now: Instant) -> list[WaitingPut]:
        """Those whose patience is at its end, in their order."""
        return [self.puts[name] for name in self._ends.over(now)]

    @property
    def next_deadline(self) -> Instant | None:
        return self._ends.next

    def gone(self, operation: OperationId, put: Put | SpreadPut) -> None:
        """Nobody is there for what was asked."""
        waiting = self.puts.get((put.producer, put.sequence))
        if waiting is not None:
            waiting.asked.pop(operation, None)
            if not waiting.asked:
                self.leave(waiting)
