"""A tiny pool for tests of the engine: one machine that gives what it has to whoever asks."""

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from threading import Event
from typing import Any

from snowmelt.core.instant import Duration, later, milliseconds
from snowmelt.core.interval import Interval
from snowmelt.core.names import Address, NodeId
from snowmelt.core.node import (
    Announce,
    Announced,
    Expired,
    Received,
    Reply,
    Requested,
    Send,
    SetTimer,
)
from snowmelt.protocols.calling import Answer, Call, Declined, Lost
from snowmelt.protocols.pool.calls import (
    Acked,
    Acquaintances,
    AwaitRoom,
    Coming,
    DescribePeer,
    Got,
    HasRoom,
    ListensAt,
    Nack,
    PoolGet,
    PoolPut,
    PoolReceipt,
    Reachable,
    Withdraw,
)
from snowmelt.protocols.pool.introductions import DescribePool
from snowmelt.protocols.pool.messages import Cancel, ObjectsLent, ObjectSpan, Request, SettleLoan
from snowmelt.runtime.peer import Engine, PeerConfig

PATIENCE = Duration(20_000_000_000)


class Alarm(Enum):
    LATE = "late"


class Simple:
    """Gives to whoever asks, in the order asked; asks the one producer it knows."""

    def __init__(self, name: str) -> None:
        self.name = NodeId(name)
        self.producer = NodeId("")
        self.objects: deque[Any] = deque()
        self.line: deque[tuple[NodeId, Request]] = deque()
        self.gets: dict[int, Any] = {}
        self.facts: list[Any] = []
        self.late: list[Any] = []
        self.cancelled: list[tuple[NodeId, Cancel]] = []
        self.withdrawn: list[int] = []
        self.lease = Duration(0)

    def handle(self, event: Any, now: Any) -> list[Any]:
        match event:
            case Requested(operation, message):
                return self._asked(operation, message, now)
            case Received(source, Request() as request):
                self.line.append((source, request))
                return self._match()
            case Received(source, ObjectsLent() as found):
                operation = self.gets.pop(found.number, None)
                if operation is None:
                    return []
                got = Got(source, found.token, found.spans, found.blob, 1, Duration(0))
                return [Reply(operation, got)]
            case Received(source, Cancel() as cancel):
                self.cancelled.append((source, cancel))
                return []
            case Received(_, SettleLoan()):
                raise ValueError("this machine can't settle")
            case Received(_, Answer(number, body)):
                return [Reply(self.gets.pop(number), body)]
            case Announced(fact):
                self.facts.append(fact)
                return []
            case Expired(Alarm.LATE):
                late, self.late = self.late, []
                return [Reply(operation, HasRoom()) for operation in late]
            case _:
                return []

    def _asked(self, operation: Any, message: Any, now: Any) -> list[Any]:
        match message:
            case PoolPut(_, blob, _):
                self.objects.append(blob)
                kept = Reply(operation, PoolReceipt(1, Interval(0, 1)))
                return [kept, *self._match()]
            case PoolGet():
                self.gets[operation.number] = operation
                request = Request(self.name, operation.number, 1, 1, ())
                return [Send(self.producer, request)]
            case AwaitRoom(patience):
                self.late.append(operation)
                return [SetTimer(Alarm.LATE, later(now, patience))]
            case Nack(token):
                self.gets[operation.number] = operation
                node = NodeId(f"127.0.0.1:{token}")
                return [Send(node, Call(operation.number, DescribePool("frames")))]
            case Acquaintances():
                return [Announce(message), Reply(operation, Acked())]
            case Cancel():
                return [Send(self.producer, message), Reply(operation, Acked())]
            case DescribePeer():
                raise ValueError("this machine can't describe itself")
            case Withdraw(number):
                self.withdrawn.append(number)
                self.gets.pop(number, None)
                return []
            case _:
                return [Reply(operation, Declined("Empty", "nothing here"))]

    def _match(self) -> list[Any]:
        sends = []
        while self.objects and self.line:
            source, request = self.line.popleft()
            blob = self.objects.popleft()
            span = ObjectSpan(0, b"")
            found = ObjectsLent(request.number, 1, 1, 7, self.lease, 0.0, (span,), blob)
            sends.append(Send(source, found))
        return sends

    def check(self) -> None:
        pass

    def lost(self) -> list[NodeId]:
        return [fact.target for fact in self.facts if isinstance(fact, Lost)]

    def reached(self) -> list[NodeId]:
        return [fact.target for fact in self.facts if isinstance(fact, Reachable)]

    def coming(self) -> list[Coming]:
        return [fact for fact in self.facts if isinstance(fact, Coming)]

    def told(self, kind: type) -> list[Any]:
        return [fact for fact in self.facts if isinstance(fact, kind)]

    def listening(self) -> Address:
        return next(fact.address for fact in self.facts if isinstance(fact, ListensAt))


GET = PoolGet(1, 1 << 40, PATIENCE)


def put(blob: Any) -> PoolPut:
    return PoolPut(b"", blob, PATIENCE)


def wait_room(count: float) -> AwaitRoom:
    return AwaitRoom(milliseconds(count))


@contextmanager
def engine(name: str, **config: Any) -> Iterator[tuple[Engine, Simple]]:
    """One process' part, ended with the test."""
    machine = Simple(name)
    made = Engine(machine, PeerConfig(name=NodeId(name), **config))
    try:
        yield made, machine
    finally:
        made.close(2.0)


def inside(of: Engine, do: Callable[[], None]) -> None:
    """Has it done by the thread that owns the engine, in its next turn; waits for that."""
    done = Event()

    def word() -> None:
        do()
        done.set()

    dropped = {1}  # a set can be watched
    of.words.watch(dropped, word)
    del dropped
    of.words.ring()
    assert done.wait(10)


def know(consumer: Engine, machine: Simple, *producers: Engine, wanted: bool = True) -> None:
    """Tells a consumer whom it may ask; it asks the first."""
    names = tuple(one.config.name for one in producers)
    addresses = {one.config.name: one.address for one in producers}
    machine.producer = names[0]
    consumer.call(Acquaintances(addresses, names if wanted else ()), 5)
