"""A rival, for comparison: one process keeps every object, so each crosses the network twice.

Johnson's centralized buffer. His paper says that a producer waits when the buffer is full, and not
how it learns of that. Here:

1. A producer sends each object to the buffer (`Deposit`). A consumer asks the buffer
   (`FetchObject`) and is given the oldest object (`FetchedObject`), or waits in line.
2. The buffer has a number of places for all producers together; the laboratory gives it
   buffers x producers, as many as the other two algorithms have. A producer deposits only into a
   place that was promised to it, so the buffer never holds more.
3. A producer begins with `promised_ahead` promises: one for the object that it makes, and one more,
   so that it does not stand idle while the next is on its way. Each deposit is answered with one
   promise (`SlotReserved`): at once while a place is free, else when an object has left; who
   deposited first is answered first.

So an object costs four messages (Deposit, SlotReserved, FetchObject, FetchedObject), and two of
them carry it. There is no answer to a fault: a lost message is never asked for again, nobody's
patience ends, and an object is the consumer's when it comes (delivery at most once).
"""

from collections import deque

import msgspec

from snowmelt.core.batch import OFFSET_BYTES
from snowmelt.core.instant import Instant, since
from snowmelt.core.interval import Interval
from snowmelt.core.names import NodeId, OperationId
from snowmelt.core.node import Effect, Event, Received, Reply, Requested, Send
from snowmelt.protocols.pool.calls import AwaitRoom, Got, HasRoom, PoolGet, PoolPut, PoolReceipt
from snowmelt.protocols.pool.messages import ObjectSpan


class Deposit(msgspec.Struct, frozen=True, tag="pool.central.deposit", array_like=True):
    span: ObjectSpan
    blob: bytes


class SlotReserved(msgspec.Struct, frozen=True, tag="pool.central.promised", array_like=True):
    """One more place is kept free for whoever this comes to."""


class FetchObject(msgspec.Struct, frozen=True, tag="pool.central.fetch", array_like=True):
    """A consumer wants an object."""


class FetchedObject(msgspec.Struct, frozen=True, tag="pool.central.fetched", array_like=True):
    """An object, and who made it."""

    producer: NodeId
    span: ObjectSpan
    blob: bytes


Message = Deposit | SlotReserved | FetchObject | FetchedObject
Answered = PoolReceipt | HasRoom | Got


def promised_ahead(buffers: int) -> int:
    """How many places a producer is promised from the beginning, when its share is `buffers`.

    >>> promised_ahead(1), promised_ahead(5)
    (1, 2)
    """
    return min(2, buffers)


def first_object(put: PoolPut, number: int) -> tuple[ObjectSpan, bytes]:
    """The first object of a put, under its number; the rivals deal with one object at a time.

    >>> from snowmelt.core.batch import Batch
    >>> two = Batch.of([b"one", b"other"])
    >>> span, blob = first_object(PoolPut(bytes(two.offsets), bytes(two.blob), 0), 7)
    >>> span.interval, span.size, blob
    (Interval(start=7, stop=8), 3, b'one')
    """
    offsets = put.offsets[: 2 * OFFSET_BYTES]
    span = ObjectSpan(number, offsets)
    return span, put.blob[: span.size]


class CentralBuffer:
    """The broker: all objects that were produced and not yet fetched, the oldest first."""

    def __init__(self, places: int, promised: int) -> None:
        """Of its `places`, so many are `promised` to the producers from the beginning."""
        assert 0 <= promised <= places
        self._places = places
        self._promised = promised
        self._stored: deque[FetchedObject] = deque()
        self._consumers: deque[NodeId] = deque()
        self._producers: deque[NodeId] = deque()

    def handle(self, event: Event[Message], now: Instant) -> list[Effect[Message]]:
        del now  # nothing here depends on time
        match event:
            case Received(consumer, FetchObject()):
                self._consumers.append(consumer)
            case Received(producer, Deposit(span, blob)):
                self._promised -= 1
                self._stored.append(FetchedObject(producer, span, blob))
                self._producers.append(producer)
            case _:
                return []
        return [*self._give(), *self._promise()]

    def check(self) -> None:
        """Every place is free, promised or taken, and nobody waits for what is there."""
        assert self._promised >= 0
        assert len(self._stored) + self._promised <= self._places, "more than its places"
        assert not (self._stored and self._consumers), "a consumer waits beside an object"
        free = self._places - self._promised - len(self._stored)
        assert not (free and self._producers), "a producer waits beside a free place"

    def _give(self) -> list[Effect[Message]]:
        effects: list[Effect[Message]] = []
        while self._stored and self._consumers:
            effects.append(Send(self._consumers.popleft(), self._stored.popleft()))
        return effects

    def _promise(self) -> list[Effect[Message]]:
        effects: list[Effect[Message]] = []
        while self._producers and len(self._stored) + self._promised < self._places:
            self._promised += 1
            effects.append(Send(self._producers.popleft(), SlotReserved()))
        return effects


class CentralProducer:
    """A producer's part: deposits what is put while it has a promise, and waits for one else."""

    def __init__(self, buffer: NodeId, promises: int) -> None:
        self._buffer = buffer
        self._promises = promises
        self._deposited = 0
        self._waiting: deque[tuple[OperationId, PoolPut | AwaitRoom]] = deque()

    def handle(
        self, event: Event[Message | PoolPut | AwaitRoom], now: Instant
    ) -> list[Effect[Message | Answered]]:
        del now  # nothing here depends on time
        match event:
            case Requested(operation, PoolPut() | AwaitRoom() as asked):
                self._waiting.append((operation, asked))
            case Received(_, SlotReserved()):
                self._promises += 1
            case _:
                return []
        effects: list[Effect[Message | Answered]] = []
        while self._promises and self._waiting:
            effects += self._answer(*self._waiting.popleft())
        return effects

    def check(self) -> None:
        """Nobody waits while there is a promise."""
        assert self._promises >= 0
        assert not (self._promises and self._waiting), "a put waits beside a promise"

    def _answer(
        self, operation: OperationId, asked: PoolPut | AwaitRoom
    ) -> list[Effect[Message | Answered]]:
        if isinstance(asked, AwaitRoom):
            return [Reply(operation, HasRoom())]
        self._promises -= 1
        number = self._deposited
        self._deposited += 1
        span, blob = first_object(asked, number)
        kept = PoolReceipt(1, Interval(number, number + 1))
        return [Send(self._buffer, Deposit(span, blob)), Reply(operation, kept)]


class CentralConsumer:
    """A consumer's part: asks the buffer, and no one else."""

    def __init__(self, buffer: NodeId) -> None:
        self._buffer = buffer
        self._waiting: deque[tuple[OperationId, Instant]] = deque()

    def handle(
        self, event: Event[Message | PoolGet], now: Instant
    ) -> list[Effect[Message | Answered]]:
        match event:
            case Requested(operation, PoolGet()):
                self._waiting.append((operation, now))
                return [Send(self._buffer, FetchObject())]
            case Received(_, FetchedObject(producer, span, blob)):
                operation, asked = self._waiting.popleft()
                return [Reply(operation, Got(producer, 0, (span,), blob, 1, since(asked, now)))]
            case _:
                return []

    def check(self) -> None:
        asked = [at for _, at in self._waiting]
        assert asked == sorted(asked)
