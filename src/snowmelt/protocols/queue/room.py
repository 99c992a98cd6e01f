"""Puts without room: they wait in their order, each once, with those who asked for it.

With a client that is gone go its puts: nobody else waits behind what nobody waits for.
"""

from collections import OrderedDict

import msgspec

from snowmelt.core.instant import Instant, later
from snowmelt.core.names import NodeId, OperationId
from snowmelt.protocols.fifo.calls import Put


class WaitingPut(msgspec.Struct):
    """A put for which there was no room yet."""

    put: Put
    deadline: Instant
    asked: dict[OperationId, None] = {}
    turns: dict[str, int] = {}
    """Who waits for it: callers, and the last turn of each."""


class Room:
    """All that wait at one queue."""

    def __init__(self) -> None:
        self._puts: OrderedDict[tuple[str, int], WaitingPut] = OrderedDict()

    def __len__(self) -> int:
        return len(self._puts)

    def waits(self, put: Put) -> bool:
        """Whether somebody asked for it, and waits."""
        return (put.producer, put.sequence) in self._puts

    def join(self, operation: OperationId, put: Put, now: Instant) -> WaitingPut:
        """It waits with whoever asked for the same put, or begins to; as long as its last turn."""
        name = put.producer, put.sequence
        if name not in self._puts:
            self._puts[name] = WaitingPut(put, now)
        waiting = self._puts[name]
        waiting.asked[operation] = None
        if put.turn > waiting.turns.get(put.caller, -1):
            waiting.turns[put.caller] = put.turn
            waiting.deadline = later(now, put.patience)
        return waiting

    @property
    def first(self) -> WaitingPut | None:
        """Whose turn it is."""
        return next(iter(self._puts.values()), None)

    def leave(self, waiting: WaitingPut) -> None:
        """It waits no more."""
        del self._puts[waiting.put.producer, waiting.put.sequence]

    def over(self, now: Instant) -> list[WaitingPut]:
        """Those whose patience is at its end."""
        return [one for one in self._puts.values() if one.deadline <= now]

    @property
    def next_deadline(self) -> Instant | None:
        return min((one.deadline for one in self._puts.values()), default=None)

    def gone(self, client: NodeId) -> None:
        """Nobody is there for what this client asked."""
        for waiting in list(self._puts.values()):
            waiting.asked = {one: None for one in waiting.asked if one.client != client}
            if not waiting.asked:
                self.leave(waiting)
