"""Calls to save a value that wait for the root's word."""

from random import Random
from typing import Any, Final

from snowmelt.core.names import OperationId
from snowmelt.core.node import Effect, Reply
from snowmelt.protocols.baton.calls import Saved
from snowmelt.protocols.baton.messages import Stored
from snowmelt.protocols.calling import Declined

NUMBERS: Final = 2**60
WAITING_MAX: Final = 100
"""More are of callers who have asked again since."""


class Saving:
    """Those of one name."""

    def __init__(self, chance: Random) -> None:
        self._chance = chance
        self._waiting: dict[int, OperationId] = {}

    def add(self, operation: OperationId) -> int:
        """Another call; returns the number under which the root is to answer."""
        number = self._chance.randrange(1, NUMBERS)
        self._waiting[number] = operation
        while len(self._waiting) > WAITING_MAX:
            del self._waiting[next(iter(self._waiting))]
        return number

    def stored(self, stored: Stored) -> list[Effect[Any]]:
        """The root has it on its disk, or can't have it there."""
        operation = self._waiting.pop(stored.number, None)
        if operation is None:
            return []
        told = Declined(stored.error, stored.text) if stored.error else Saved()
        return [Reply(operation, told)]
