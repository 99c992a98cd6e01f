"""What desks of machines with parts have in common: the clock, and what goes out.

Each family's own desk (`queue/desk.py`, `priority/desk.py`) adds who is here, and the disk.
"""

from collections import deque
from random import Random
from typing import Any

from snowmelt.core.instant import Instant
from snowmelt.core.names import NodeId, OperationId
from snowmelt.core.node import Effect, Note, Reply
from snowmelt.protocols.alarms import Alarms
from snowmelt.protocols.calling import Declined


class Desk:
    """The clock and the outbox of one machine."""

    def __init__(self, me: NodeId, chance: Random) -> None:
        self.me = me
        self.chance = chance
        self.now = Instant(0)
        self.inside: deque[Any] = deque()
        """What parts said to each other, to be worked off before anything is written."""
        self.alarms = Alarms()
        self._wall_minus_now = 0
        self._effects: list[Effect[Any]] = []

    def set_wall(self, wall: int, now: Instant) -> None:
        self._wall_minus_now = wall - now

    @property
    def wall(self) -> int:
        """Nanoseconds since 1970."""
        return self.now + self._wall_minus_now

    def reply(self, operation: OperationId, message: Any) -> None:
        self._effects.append(Reply(operation, message))

    def decline(self, operation: OperationId, error: str, text: str) -> None:
        self._effects.append(Reply(operation, Declined(error, text)))

    def note(self, text: str) -> None:
        self._effects.append(Note(text))

    def effect(self, effect: Effect[Any]) -> None:
        self._effects.append(effect)
