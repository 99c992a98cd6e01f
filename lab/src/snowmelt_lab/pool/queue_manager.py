"""A rival, for comparison: producers keep what they made, and one process knows who has how much.

Johnson's queue manager:

1. A producer keeps its objects, at most `buffers`, and tells the manager of each (`Made`).
2. A consumer asks the manager (`FindProducer`) and is told a producer that has an object for it
   (`ProducerFound`): the one whose object is the oldest that is not yet another's. When there is
   none it waits in line. It asks that producer (`Take`), who gives the object (`ObjectTaken`).

So an object costs five messages, and one of them carries it. The paper counts "three control
messages" in one place, which are Made, FindProducer and ProducerFound, beside the two of the
transfer; and four in another, which are all that carry no object.

There is no answer to a fault: a lost message is never asked for again, nobody's patience ends, and
an object is the consumer's when it comes (delivery at most once).
"""

from collections import deque

import msgspec

from snowmelt.core.instant import Instant, since
from snowmelt.core.interval import Interval
from snowmelt.core.names import NodeId, OperationId
from snowmelt.core.node import Effect, Event, Received, Reply, Requested, Send
from snowmelt.protocols.pool.calls import AwaitRoom, Got, HasRoom, PoolGet, PoolPut, PoolReceipt
from snowmelt.protocols.pool.messages import ObjectSpan
from snowmelt_lab.pool.central import first_object


class Made(msgspec.Struct, frozen=True, tag="pool.manager.made", array_like=True):
    """A producer has one more object."""


class FindProducer(msgspec.Struct, frozen=True, tag="pool.manager.ask", array_like=True):
    """A consumer wants to know who has an object for it."""


class ProducerFound(msgspec.Struct, frozen=True, tag="pool.manager.told", array_like=True):
    producer: NodeId


class Take(msgspec.Struct, frozen=True, tag="pool.manager.take", array_like=True):
    """A consumer that was told so wants an object of this producer."""


class ObjectTaken(msgspec.Struct, frozen=True, tag="pool.manager.taken", array_like=True):
    span: ObjectSpan
    blob: bytes


Message = Made | FindProducer | ProducerFound | Take | ObjectTaken
Answered = PoolReceipt | HasRoom | Got


class QueueManager:
    """The broker: for each object that is nobody's yet, who has it; the oldest first."""

    def __init__(self) -> None:
        self._made: deque[NodeId] = deque()
        self._consumers: deque[NodeId] = deque()

    def handle(self, event: Event[Message], now: Instant) -> list[Effect[Message]]:
        del now  # nothing here depends on time
        match event:
            case Received(producer, Made()):
                self._made.append(producer)
            case Received(consumer, FindProducer()):
                self._consumers.append(consumer)
            case _:
                return []
        if not self._made or not self._consumers:
            return []
        return [Send(self._consumers.popleft(), ProducerFound(self._made.popleft()))]

    def check(self) -> None:
        assert not (self._made and self._consumers), "a consumer waits beside an object"


class ManagedProducer:
    """A producer's part: keeps what is put while there is room, and gives it to who was told."""

    def __init__(self, manager: NodeId, buffers: int) -> None:
        self._manager = manager
        self._buffers = buffers
        self._made = 0
        self._stock: deque[ObjectTaken] = deque()
        self._waiting: deque[tuple[OperationId, PoolPut | AwaitRoom]] = deque()

    def handle(
        self, event: Event[Message | PoolPut | AwaitRoom], now: Instant
    ) -> list[Effect[Message | Answered]]:
        del now  # nothing here depends on time
        effects: list[Effect[Message | Answered]] = []
        match event:
            case Requested(operation, PoolPut() | AwaitRoom() as asked):
                self._waiting.append((operation, asked))
            case Received(consumer, Take()):
                effects.append(Send(consumer, self._stock.popleft()))
            case _:
                return []
        while len(self._stock) < self._buffers and self._waiting:
            effects += self._answer(*self._waiting.popleft())
        return effects

    def check(self) -> None:
        """It has room for what it keeps, and nobody waits while there is more."""
        assert len(self._stock) <= self._buffers, "more than its buffers"
        room = len(self._stock) < self._buffers
        assert not (room and self._waiting), "a put waits beside free room"

    def _answer(
        self, operation: OperationId, asked: PoolPut | AwaitRoom
    ) -> list[Effect[Message | Answered]]:
        if isinstance(asked, AwaitRoom):
            return [Reply(operation, HasRoom())]
        number = self._made
        self._made += 1
        self._stock.append(ObjectTaken(*first_object(asked, number)))
        kept = PoolReceipt(1, Interval(number, number + 1))
        return [Send(self._manager, Made()), Reply(operation, kept)]


class ManagedConsumer:
    """A consumer's part: asks the manager whom to ask, and asks there."""

    def __init__(self, manager: NodeId) -> None:
        self._manager = manager
        self._waiting: deque[tuple[OperationId, Instant]] = deque()

    def handle(
        self, event: Event[Message | PoolGet], now: Instant
    ) -> list[Effect[Message | Answered]]:
        match event:
            case Requested(operation, PoolGet()):
                self._waiting.append((operation, now))
                return [Send(self._manager, FindProducer())]
            case Received(_, ProducerFound(producer)):
                return [Send(producer, Take())]
            case Received(producer, ObjectTaken(span, blob)):
                operation, asked = self._waiting.popleft()
                return [Reply(operation, Got(producer, 0, (span,), blob, 1, since(asked, now)))]
            case _:
                return []

    def check(self) -> None:
        asked = [at for _, at in self._waiting]
        assert asked == sorted(asked)
