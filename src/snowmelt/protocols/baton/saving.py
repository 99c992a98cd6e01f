"""Values of one hold that are on their way to the root's disk: rule 14."""

from random import Random
from typing import Any, Final

import msgspec

from snowmelt.core.names import OperationId
from snowmelt.core.node import Effect, Reply
from snowmelt.protocols.baton.calls import Save, Saved
from snowmelt.protocols.baton.messages import Stored, Version
from snowmelt.protocols.baton.relay import Relay
from snowmelt.protocols.baton.token import Token
from snowmelt.protocols.calling import Declined

NUMBERS: Final = 2**60
WAITING_MAX: Final = 100
"""More are of callers who have asked again since."""


class Given(msgspec.Struct, frozen=True):
    """A value that a holder wants to be saved; the baton carries it once the disk does."""

    version: Version
    value: bytes
    number: int
    """Which of its hold it is, as its holder counts; 0 when it does not."""


class Saving:
    """Those of one name, and the calls that wait for the root's word."""

    def __init__(self, chance: Random) -> None:
        self.newest: Given | None = None
        """The last that was asked for, until the baton carries it, or its hold is over."""
        self._chance = chance
        self._waiting: dict[int, tuple[OperationId, Version]] = {}

    def given(self, call: Save, token: Token) -> Given | None:
        """What a holder wants to be saved; None when that is older than what it wanted since."""
        newest = self.newest
        if newest is not None and newest.version.fence == call.fence and call.number:
            if call.number < newest.number:
                return None
            if call.number == newest.number:
                return newest
        return Given(token.next_version(), call.value, call.number)

    def add(self, operation: OperationId, given: Given) -> int:
        """Another call; returns the number under which the root is to answer."""
        number = self._chance.randrange(1, NUMBERS)
        self._waiting[number] = operation, given.version
        while len(self._waiting) > WAITING_MAX:
            del self._waiting[next(iter(self._waiting))]
        self.newest = given
        return number

    def stored(self, stored: Stored, relay: Relay) -> list[Effect[Any]]:
        """The root has it on its disk, or can't: if it is the newest, the baton carries it now."""
        operation, version = self._waiting.pop(stored.number, (None, None))
        if operation is None:
            return []
        if stored.error:
            return [Reply(operation, Declined(stored.error, stored.text))]
        token, newest = relay.token, self.newest
        if token is None or token.holder is None or newest is None:
            return [Reply(operation, Saved())]
        if newest.version == version and token.fence == version.fence:
            token.version, token.value = newest.version, newest.value
            relay.newest.learn(newest.version, newest.value)
            relay.newest.kept(token.version)
        return [Reply(operation, Saved())]
