"""Those who wait at a queue: gets for items, puts for room. Waiting costs the queue nothing.

A get that waits is asked again by its client every few seconds (`protocols.calling`); one that was
not is over: its client is gone, and nothing must be leased to it. Mostly this is known sooner: a
process that ends takes its connections with it (`calling.Gone`).

A put waits once, by its producer and number, however many nodes offer it: what became of it is the
same for all of them (`admission.py`).
"""

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
    """A put for which there was no room yet, and those who offer it."""

    deadline: Instant
    attempts: dict[tuple[str, int], Entry] = {}
    """By stream and first index: the nodes that have its body."""
    turns: dict[str, int] = {}
    """Who waits for it: callers, and the last turn of each."""

    def offered(self, stream: str, entry: Entry) -> bool:
        """Another attempt, or the same again; whether it is a newer turn than all of its caller."""
        self.attempts[stream, entry.first] = entry
        newer = entry.turn > self.turns.get(entry.caller, -1)
        if newer:
            self.turns[entry.caller] = entry.turn
        return newer


class Waiting:
    """The gets and puts that wait at one queue, each in the order in which they came."""

    def __init__(self) -> None:
        self.gets: dict[OperationId, WaitingGet] = {}
        self.puts: dict[tuple[str, int], WaitingPut] = {}
        """By producer and number."""

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

    def next_deadline(self) -> Instant | None:
        """When somebody's patience ends next."""
        deadlines = [one.deadline for one in self.gets.values()]
        deadlines += [one.deadline for one in self.puts.values()]
        return min(deadlines, default=None)
