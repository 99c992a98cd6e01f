"""A family that this cluster does not serve: its calls are declined, and say why."""

from typing import Any

import msgspec

from snowmelt.core.instant import Instant
from snowmelt.core.node import Effect, Event, Reply, Requested
from snowmelt.protocols.calling import Declined
from snowmelt.protocols.host import Family


class Unserved:
    """Declines every call."""

    def __init__(self, reason: str) -> None:
        self._reason = reason

    def handle(self, event: Event[Any], now: Instant) -> list[Effect[Any]]:
        """Nothing but calls is for it."""
        del now
        match event:
            case Requested(operation):
                return [Reply(operation, Declined("StateError", self._reason))]
            case _:
                return []

    def check(self) -> None:
        """It has no state."""


def unserved(name: str, messages: tuple[type[msgspec.Struct], ...], reason: str) -> Family:
    """A family by its name and messages, none of whose calls is served."""
    return Family(name, Unserved(reason), messages)
