"""Those who listen to one topic at one node: rules 11 and 12."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

import msgspec

from snowmelt.core.instant import Instant, later
from snowmelt.core.names import NodeId, OperationId
from snowmelt.core.node import Effect, Reply
from snowmelt.protocols.calling import Declined
from snowmelt.protocols.multicast.calls import POLL, Listen, Messages, Position
from snowmelt.protocols.multicast.topic_log import ZERO, TopicLog

Effects = list[Effect[Any]]

ANSWER_BYTES: Final = 4 << 20
WAITING_MAX: Final = 1_024
"""So many calls of one client wait for messages of one topic."""


class WaitingListen(msgspec.Struct, frozen=True):
    start: Position | None
    until: Instant


class WaitingListens:
    def __init__(self) -> None:
        self._waiting: dict[NodeId, dict[OperationId, WaitingListen]] = {}

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(
        self, operation: OperationId, call: Listen, line: TopicLog, now: Instant, *, abreast: bool
    ) -> Effects:
        """Somebody listens: is told what there is, or waits. No other is looked at."""
        self._take([operation])
        news = _news(line, call.start, abreast=abreast)
        if news is not None:
            return [Reply(operation, news)]
        waiting = self._waiting.setdefault(operation.client, {})
        if len(waiting) >= WAITING_MAX:
            text = (
                f"{len(waiting)} calls of this client wait for messages of {call.name}: share one"
            )
            return [Reply(operation, Declined("Full", text))]
        waiting[operation] = WaitingListen(call.start, later(now, min(call.wait, POLL)))
        return []

    def answer(self, line: TopicLog, *, abreast: bool) -> Effects:
        """Tells what there is to tell; the end only if this node is not behind."""
        told: dict[Position | None, Messages | None] = {}  # most of them stand at the same place
        effects: list[Reply[Any]] = []
        for operation, one in self._all():
            if one.start not in told:
                told[one.start] = _news(line, one.start, abreast=abreast)
            news = told[one.start]
            if news is not None:
                effects.append(Reply(operation, news))
        self._take(one.operation for one in effects)
        return [*effects]

    def expire(self, now: Instant) -> Effects:
        over = [(key, one) for key, one in self._all() if one.until <= now]
        self._take(operation for operation, _ in over)
        return [Reply(operation, Messages((), one.start)) for operation, one in over]

    def send_away(self, why: Declined) -> Effects:
        """They had better listen at another node."""
        waiting = list(self._all())
        self._waiting.clear()
        return [Reply(operation, why) for operation, _ in waiting]

    def gone(self, client: NodeId) -> None:
        """Nobody is there to be answered."""
        self._waiting.pop(client, None)

    def _all(self) -> Iterator[tuple[OperationId, WaitingListen]]:
        return (one for calls in self._waiting.values() for one in calls.items())

    def _take(self, operations: Iterable[OperationId]) -> None:
        for operation in operations:
            calls = self._waiting.get(operation.client, {})
            calls.pop(operation, None)
            if not calls:
                self._waiting.pop(operation.client, None)


def _news(line: TopicLog, start: Position | None, *, abreast: bool) -> Messages | None:
    if start is None:
        return Messages((), line.next) if abreast and line.next > ZERO else None
    reading = line.read(start, ANSWER_BYTES)
    if not reading.publications:
        return None
    return Messages(reading.publications, reading.next, reading.missed)
