"""What was sent and is not answered yet: by a door to homes, by a home to who keeps copies.

Between nodes nothing is lost while a connection holds: what is not answered yet is on its way,
mostly. Nodes that have too much to do answer late, and would have more of it if they were asked
again. So what is sent waits twice as long as answers took of late.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from heapq import heappop, heappush
from typing import Any, Final, Generic, Protocol, TypeVar

import msgspec

from snowmelt.core.instant import Duration, Instant
from snowmelt.core.names import NodeId, OperationId
from snowmelt.protocols.priority.batches import Shares
from snowmelt.protocols.priority.desk import AT_ONCE, Desk, Patience

WORDS_AT_ONCE: Final = 4_096
PIECES_AT_ONCE: Final = 1 << 17
"""So many intervals, or one word: each may stand in the answer twice, which must fit a frame, and
whoever hears it has to look at all of them in one turn."""


class Named(Protocol):
    """What is said of some positions."""

    @property
    def shares(self) -> Shares:
        """Which."""


T = TypeVar("T")
W = TypeVar("W", bound=Named)


class Message(msgspec.Struct, Generic[T]):
    """What was sent, and for which operations."""

    target: NodeId
    message: Any
    operations: tuple[T, ...]
    sent: Instant
    patience: Patience
    open: set[int] | None = None
    """Which of them are not answered yet, once a part of them is."""


class Unanswered(Generic[T]):
    """Messages with serials; each is sent again until it is answered."""

    def __init__(self, desk: Desk, queue: str) -> None:
        self._desk = desk
        self._queue = queue
        self._serial = 0
        self._sent: dict[int, Message[T]] = {}
        self._due: list[tuple[Instant, int]] = []
        """When what is sent again; of what was answered it may still name some."""
        self._took = AT_ONCE
        """How long answers take: the longest of late, by a quarter less with each that comes."""

    def send(self, target: NodeId, operations: tuple[T, ...], make: Callable[[int], Any]) -> int:
        """Sends what `make` makes of the next serial."""
        self._serial += 1
        now = self._desk.now
        message, patience = make(self._serial), Patience.new(now, self._took)
        self._sent[self._serial] = Message(target, message, operations, now, patience)
        self._desk.send(target, message)
        self._wait(patience.at, self._serial)
        return self._serial

    def send_all(
        self,
        target: NodeId,
        said: Sequence[tuple[T, W]],
        make: Callable[[tuple[W, ...], int], Any],
    ) -> None:
        """Sends what is said for each operation, in messages of so many words at most."""
        for some in _portions(said):
            operations, words = zip(*some, strict=True)
            self.send(target, operations, partial(make, words))

    def answered(self, source: NodeId, serial: int) -> Message[T] | None:
        """What that is the answer to; None when it was answered before, or is of another."""
        sent = self._sent.get(serial)
        if sent is None or sent.target != source:
            return None
        self._heard(sent)
        return self._sent.pop(serial)

    def partly(
        self, source: NodeId, serial: int, places: Sequence[int]
    ) -> tuple[Message[T], set[int]] | None:
        """What that answers some parts of, and which of these were not answered before."""
        sent = self._sent.get(serial)
        if sent is None or sent.target != source:
            return None
        if sent.open is None:
            self._heard(sent)
            if list(places) == list(range(len(sent.operations))):  # as mostly
                del self._sent[serial]
                return sent, set(places)
            sent.open = set(range(len(sent.operations)))
        new = sent.open.intersection(places)
        sent.open -= new
        if not sent.open:
            del self._sent[serial]
        return sent, new

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
        """Whoever has not answered in time is asked again."""
        while self._due:
            at, serial = self._due[0]
            sent = self._sent.get(serial)
            if sent is None:
                heappop(self._due)
            elif sent.patience.over(self._desk.now):
                heappop(self._due)
                self._desk.send(sent.target, sent.message)
                self._wait(sent.patience.at, serial)
            else:
                self._desk.wake(at, self._queue)
                return

    def clear(self) -> None:
        """The view is over: whatever comes now is of no use."""
        self._sent, self._due = {}, []

    def _heard(self, sent: Message[T]) -> None:
        self._took = Duration(max(self._desk.now - sent.sent, self._took - self._took // 4))

    def _wait(self, at: Instant, serial: int) -> None:
        heappush(self._due, (at, serial))
        if self._due[0][1] == serial:  # else it is woken before
            self._desk.wake(at, self._queue)


def _portions(said: Sequence[tuple[T, W]]) -> Iterator[Sequence[tuple[T, W]]]:
    """As much as goes in one message, and then the rest."""
    if len(said) == 1:  # as mostly
        yield said
        return
    first, room = 0, PIECES_AT_ONCE
    for at, (_, word) in enumerate(said):
        pieces = sum([len(share.intervals) for share in word.shares])
        if at > first and (pieces > room or at - first == WORDS_AT_ONCE):
            yield said[first:at]
            first, room = at, PIECES_AT_ONCE
        room -= pieces
    yield said[first:]


Sent = Message[OperationId]
Sending = Unanswered[OperationId]
"""A door's, for clients."""
