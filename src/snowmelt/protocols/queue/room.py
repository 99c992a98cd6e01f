"""Puts without room: they wait in their order, each once, with those who asked for it.

With a client that is gone go its puts: nobody else waits behind what nobody waits for.
"""

from collections import OrderedDict

import msgspec

from snowmelt.core.instant import Instant, later
from snowmelt.core.names import OperationId
from snowmelt.protocols.queue.calls import Put
from snowmelt.protocols.queue.deadlines import Ends
from snowmelt.protocols.queue.words import SpreadPut


class WaitingPut(msgspec.Struct):
    """A put for which there was no room yet."""

    put: Put | SpreadPut
    deadline: Instant
    asked: dict[OperationId, None] = {}
    turns: dict[str, int] = {}
    """Who waits for it: callers, and the last turn of each."""


class Room:
    """All that wait at one queue."""

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
        """Whose turn it is."""
        return next(iter(self.puts.values()), None)

    def leave(self, waiting: WaitingPut) -> None:
        """It waits no more."""
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
