"""Those who wait at a queue: gets for items, puts for room. Waiting costs the queue nothing.

A get that waits is asked again by its client every few seconds (`protocols.calling`); one that was
not is over: its client is gone, and nothing must be leased to it. Mostly this is known sooner: a
process that ends takes its connections with it (`calling.Gone`).
"""

from collections import deque
from collections.abc import Callable
from typing import Final

import msgspec

from snowmelt.core.instant import Instant, later, seconds
from snowmelt.core.names import NodeId, OperationId
from snowmelt.protocols.fifo.calls import Get
from snowmelt.protocols.fifo.messages import Entry

SILENT_MAX: Final = seconds(12)


class WaitingGet(msgspec.Struct):
    """A consumer for whom there was nothing yet."""

    operation: OperationId
    get: Get
    refused: str
    """Why what it wanted to settle was refused."""
    deadline: Instant
    asked: Instant


class WaitingPut(msgspec.Struct):
    """An entry for which there was no room yet."""

    stream: str
    entry: Entry
    deadline: Instant


class Waiting:
    """The gets and puts that wait at one queue, each in the order in which they came."""

    def __init__(self) -> None:
        self.gets: dict[OperationId, WaitingGet] = {}
        self.puts: deque[WaitingPut] = deque()

    def add_get(self, operation: OperationId, get: Get, refused: str, now: Instant) -> None:
        """A get begins to wait."""
        deadline = later(now, get.patience)
        self.gets[operation] = WaitingGet(operation, get, refused, deadline, now)

    def serve(self, lease: Callable[[WaitingGet], bool], now: Instant) -> None:
        """Serves the gets in their order, for as long as there is something to lease."""
        while self.gets:
            waiting = next(iter(self.gets.values()))
            if later(waiting.asked, SILENT_MAX) > now and not lease(waiting):
                return
            del self.gets[waiting.operation]

    def over(self, now: Instant) -> list[WaitingGet]:
        """The gets whose patience is at its end; they wait no longer."""
        ended = [one for one in self.gets.values() if one.deadline <= now]
        for one in ended:
            del self.gets[one.operation]
        return ended

    def gone(self, client: NodeId) -> None:
        """Nobody is there for the gets of this client; if it lives, it asks again. O(gets)."""
        for operation in [one for one in self.gets if one.client == client]:
            del self.gets[operation]

    def holds_put(self, stream: str, first: int) -> bool:
        """Whether this entry waits already."""
        return any(one.stream == stream and one.entry.first == first for one in self.puts)

    def next_deadline(self) -> Instant | None:
        """When somebody's patience ends next."""
        deadlines = [one.deadline for one in self.gets.values()]
        deadlines += [one.deadline for one in self.puts]
        return min(deadlines, default=None)
