"""Those who listen to one topic at one node: rules 11 and 12."""

from typing import Any, Final

import msgspec

from snowmelt.core.instant import Instant, later
from snowmelt.core.names import NodeId, OperationId
from snowmelt.core.node import Effect, Reply
from snowmelt.protocols.calling import Declined
from snowmelt.protocols.multicast.calls import POLL, Listen, Messages, Position
from snowmelt.protocols.multicast.line import Line

Effects = list[Effect[Any]]

ANSWER_BYTES: Final = 4 << 20


class Listener(msgspec.Struct, frozen=True):
    """A call that waits for messages."""

    start: Position | None
    until: Instant


class Listening:
    """All calls that wait for messages of one topic."""

    def __init__(self) -> None:
        self._waiting: dict[OperationId, Listener] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def add(
        self, operation: OperationId, call: Listen, line: Line, now: Instant, *, abreast: bool
    ) -> Effects:
        """Somebody listens: is told what there is, or waits. No other is looked at."""
        news = _news(line, call.start, abreast=abreast)
        if news is not None:
            self._waiting.pop(operation, None)
            return [Reply(operation, news)]
        self._waiting[operation] = Listener(call.start, later(now, min(call.wait, POLL)))
        return []

    def answer(self, line: Line, *, abreast: bool) -> Effects:
        """Tells what there is to tell; the end only if this node is not behind."""
        effects: Effects = []
        told: dict[Position | None, Messages | None] = {}  # most of them stand at the same place
        for operation, one in list(self._waiting.items()):
            if one.start not in told:
                told[one.start] = _news(line, one.start, abreast=abreast)
            news = told[one.start]
            if news is not None:
                del self._waiting[operation]
                effects.append(Reply(operation, news))
        return effects

    def expire(self, now: Instant) -> Effects:
        """Answers those who have waited enough."""
        over = [(key, one) for key, one in self._waiting.items() if one.until <= now]
        for operation, _ in over:
            del self._waiting[operation]
        return [Reply(operation, Messages((), one.start)) for operation, one in over]

    def send_away(self, why: Declined) -> Effects:
        """They had better listen at another node."""
        waiting, self._waiting = self._waiting, {}
        return [Reply(operation, why) for operation in waiting]

    def gone(self, client: NodeId) -> None:
        """Nobody is there to be answered."""
        for operation in [one for one in self._waiting if one.client == client]:
            del self._waiting[operation]


def _news(line: Line, start: Position | None, *, abreast: bool) -> Messages | None:
    if start is None:
        return Messages((), line.next) if abreast else None
    reading = line.read(start, ANSWER_BYTES)
    if not reading.publications:
        return None
    return Messages(reading.publications, reading.next, reading.missed)
