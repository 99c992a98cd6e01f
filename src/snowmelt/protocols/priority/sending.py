"""What a door has asked of homes, until they answer."""

from collections.abc import Callable
from typing import Any

import msgspec

from snowmelt.core.names import NodeId, OperationId
from snowmelt.protocols.priority.desk import Desk, Patience


class Sent(msgspec.Struct):
    """A message, and for whose operations it was sent."""

    target: NodeId
    message: Any
    operations: tuple[OperationId, ...]
    patience: Patience


class Sending:
    """Messages with serials; each is sent again until it is answered."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._serial = 0
        self._sent: dict[int, Sent] = {}

    def send(
        self, target: NodeId, operations: tuple[OperationId, ...], make: Callable[[int], Any]
    ) -> int:
        """Sends what `make` makes of the next serial."""
        self._serial += 1
        message, patience = make(self._serial), Patience.new(self._desk.now)
        self._sent[self._serial] = Sent(target, message, operations, patience)
        self._desk.send(target, message)
        self._desk.wake(patience.at)
        return self._serial

    def answered(self, source: NodeId, serial: int) -> Sent | None:
        """What that is the answer to; None when it was answered before, or is of another."""
        sent = self._sent.get(serial)
        if sent is None or sent.target != source:
            return None
        return self._sent.pop(serial)

    def answered_by(self, source: NodeId | None, kind: type[Any], queue: str) -> bool:
        """Whether a message of this kind, about this queue, was open with a node, or with any."""
        for serial, sent in self._sent.items():
            asked = sent.message
            if source not in (None, sent.target) or type(asked) is not kind:
                continue
            if asked.settings.queue == queue:
                del self._sent[serial]
                return True
        return False

    def again(self) -> None:
        """Whoever has not answered is asked again."""
        for sent in self._sent.values():
            if sent.patience.over(self._desk.now):
                self._desk.send(sent.target, sent.message)
            self._desk.wake(sent.patience.at)

    def clear(self) -> None:
        """The view is over: whatever comes now is of no use."""
        self._sent = {}
