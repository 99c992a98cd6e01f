"""What runs the machine of a simulated process, as `runtime/peer/engine.py` does for what ships.

The parts of it that decide are the shipped ones: calls and their answers, what becomes of an answer
that nobody takes, and the words that are left by whoever is dropped (`runtime/peer/asking.py`). A
world has no threads and no sockets; so what is left of an engine is short.

The ledger hears what passes between a program and its part, in both directions; what its program
believes is held against that (`pool_users.py`).
"""

from collections.abc import Callable, Generator
from functools import partial
from types import coroutine
from typing import Any, Final

from msgspec.structs import replace

from snowmelt.client.connection.steps import Query
from snowmelt.client.pool.loop_state import ObjectLoopState
from snowmelt.client.pool.steps import check_kept
from snowmelt.core.batch import Batch, Buffer
from snowmelt.core.errors import Closed
from snowmelt.core.instant import Duration, Instant, later, seconds
from snowmelt.core.interval import Interval
from snowmelt.core.names import NodeId, OperationId
from snowmelt.core.node import Requested
from snowmelt.protocols.calling import Declined
from snowmelt.protocols.pool import calls
from snowmelt.runtime.clock import seconds_until
from snowmelt.runtime.peer.asking import NOBODYS, Calls, FreeSlots, ObjectSlot, PendingCall, Words
from snowmelt.runtime.peer.config import PeerConfig
from snowmelt.wire.greeting import as_error
from snowmelt_world.families.pool_ledger import Handed, Ledger, Part
from snowmelt_world.world import Broken, World

FOREVER: Final = 1e6
"""The machine keeps the time of a call."""
BETWEEN: Final = 0.02
"""For so long a thread may stand still that has taken a place, before it puts something there."""
LATE: Final = seconds(2)
"""So much later than it must an answer may come in calm times."""


class Engine:
    """Runs one process' part, for as long as it lives."""

    def __init__(self, world: World, ledger: Ledger, part: Part) -> None:
        self.config = PeerConfig(name=part.node)
        self.words = Words(self._rung)
        self.places = FreeSlots(self.words)
        self.handed: dict[int, Handed] = {}
        """What came, by tokens."""
        self.gets: dict[int, Instant] = {}
        """When each get that waits was begun."""
        self.place_taken: Callable[[], None] = lambda: None
        """Told when one of its threads has taken a place, and put nothing there yet."""
        self.judges = False
        """Whether gets may not take longer than they should."""
        self._world = world
        self._ledger = ledger
        self._part = part
        self._calls = Calls(part.node)
        self._waiting: dict[int, Any] = {}
        self._aside: dict[int, None] = {}
        self._got_here: dict[str, None] = {}
        self._stops = False
        self._rings = False

    @property
    def node(self) -> NodeId:
        return self._part.node

    @property
    def waiting(self) -> str:
        for number in self._waiting:
            return f"{self.node} still waits for call {number} of its life {self._part.name}"
        return ""

    # --- what ships asks --------------------------------------------------------------------------

    @property
    def closed(self) -> bool:
        """Whether its process is gone, or has left."""
        return self.words.closed

    def check(self) -> None:
        if self.closed:
            raise Closed(calls.CLOSED)

    def written(self, body: Buffer) -> None:
        """Nobody here shares memory."""

    def begin(self, message: Any, asked: PendingCall) -> None:
        """Calls the machine; the answer is told to `asked`."""
        self.check()
        self._say_now()
        values = self._asks(message)
        told = partial(self._told, message, values, self._world.now, asked)
        operation = self._calls.begin(told)
        asked.number = operation.number
        self._waiting[operation.number] = message
        if isinstance(message, calls.PoolGet):
            self._get_begins(operation.number, message)
        self._world.give(self.node, Requested(operation, message))

    def put_into(self, place: ObjectSlot, put: calls.PoolPut) -> None:
        """It is in from now on, whatever comes."""
        self.check()
        self._ledger.put_ahead(self._part, named(put), self._world.now)
        self.places.leave(place, replace(put, ahead=place.size))

    def checked(self, asked: PendingCall) -> PendingCall:
        """One that is answered; raises what went wrong."""
        if isinstance(asked.body, Declined):
            raise as_error(asked.body.error, asked.body.text)
        return asked

    def _say_now(self) -> None:
        for word in () if self.closed else self.words.take():
            self._asks(word)
            operation = self._calls.aside()
            self._aside[operation.number] = None
            self._world.give(self.node, Requested(operation, word))

    def _rung(self) -> None:
        if not self._rings:
            self._rings = True
            self._world.at(self._world.now, self._rung_for)

    def _rung_for(self) -> None:
        self._rings = False
        self._say_now()

    # --- its process ------------------------------------------------------------------------------

    def answered(self, operation: OperationId, body: Any) -> None:
        if operation.number in self._waiting:
            del self._waiting[operation.number]
            self._calls.answered(operation, body)
            self._calls.tell()
        elif operation.number not in self._aside:
            raise Broken(f"{operation} was answered twice, or for nothing", self.node)

    def end(self) -> None:
        self.words.closed = True

    # --- what the ledger hears --------------------------------------------------------------------

    def _asks(self, message: Any) -> tuple[str, ...]:
        ledger, values = self._ledger, tuple[str, ...]()
        match message:
            case calls.PoolPut() if not message.ahead:
                values = named(message)
                ledger.putting(self._part, values)
            case calls.Ack(token, intervals):
                handed = self.handed[token]
                values = self._named(handed, intervals)
                if not self._part.once:
                    self._judge_done(handed, values)
                if not self._stops:
                    ledger.done(values)  # else it has gone back, unless that is denied
            case calls.Nack(token, intervals) if token in self.handed:
                handed = self.handed[token]
                values = self._named(handed, intervals)
                self._judge_back(handed, values)
                ledger.gave_back(handed, values, self._world.now)
            case calls.LetGo(token):
                handed = self.handed[token]
                ledger.dropped(handed, self._named(handed, ()))
            case calls.Stop():
                self._stops = True
            case _:
                pass
        return values

    def _named(self, handed: Handed, intervals: tuple[Interval, ...]) -> tuple[str, ...]:
        """All of it that is open, where none are named."""
        numbers: list[int] = [number for one in intervals for number in one]
        if not intervals:
            numbers = [one for one in handed.values if one not in handed.settled]
        handed.settled.update(dict.fromkeys(numbers))
        return tuple(handed.values[number] for number in numbers)

    def _told(
        self, message: Any, values: tuple[str, ...], called: Instant, asked: PendingCall, body: Any
    ) -> None:
        ledger, now = self._ledger, self._world.now
        match message, body:
            case calls.PoolPut(), calls.PoolReceipt():
                ledger.kept(self._part, values, body, now)
            case calls.PoolPut(), Declined("TooLarge" | "Closed"):
                ledger.refused(values)
            case calls.PoolGet(), _:
                del self.gets[asked.number]
                if isinstance(body, calls.Got):
                    self._got(ledger.got(self._part, body, called, now))
            case calls.Ack(token, _, patience), calls.Acked():
                ledger.done(values)
                if patience:
                    ledger.confirmed(self.handed[token], values, now)
            case _:
                pass
        asked.answer(body)

    def _got(self, handed: Handed) -> None:
        self.handed[handed.got.token] = handed
        self._got_here.update(dict.fromkeys(handed.values.values()))

    # --- what its program says of what it got -----------------------------------------------------

    def finishes(self, token: int, value: str) -> None:
        """The program is done with this, and says so now; at most once it need not."""
        if token != NOBODYS:
            self.handed[token].finished[value] = None

    def _judge_done(self, handed: Handed, values: tuple[str, ...]) -> None:
        for value in values:
            if value not in handed.finished:
                raise Broken(f"{self.node} acknowledges {value}, which nobody has done", self.node)

    def _judge_back(self, handed: Handed, values: tuple[str, ...]) -> None:
        for value in values:
            if value in handed.finished:
                raise Broken(f"{self.node} gives {value} back, which is done", self.node)

    def has_got(self, value: str) -> bool:
        return value in self._got_here

    def confirmed(self, token: int, value: str) -> bool:
        """Whether it was told that a producer has heard that this is done."""
        return token == NOBODYS or self._ledger.is_confirmed(self.handed[token], value)

    def _get_begins(self, number: int, get: calls.PoolGet) -> None:
        self.gets[number] = self._world.now
        if self.judges:
            wait = Duration(get.patience + get.patience // 10 + LATE)
            self._world.at(later(self._world.now, wait), self._judge, number)

    def _judge(self, number: int) -> None:
        if number in self.gets and not self.closed:
            raise Broken(f"call {number} waits longer than it should", self.node)


class Bell:
    """Wakes a program that waits, as an event loop's future does: not within what rings it."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._rung = False
        self._wake: Any = None

    def answer(self, body: Any) -> None:
        del body
        self._rung = True
        if self._wake is not None:
            self._world.at(self._world.now, self._wake)

    def wait(self, wake: Any) -> None:
        self._wake = wake
        if self._rung:
            self.answer(None)


class Asking:
    """How the programs of a world ask their part, as `client/pool/port_async.py` has it."""

    def __init__(self, engine: Engine, world: World) -> None:
        self._engine = engine
        self._world = world

    async def call(
        self, body: Any, timeout: float, target: NodeId | None = None, weight: int = 0
    ) -> Any:
        del target, weight
        return (await self.ask(body, timeout)).take()

    async def ask(self, body: Any, timeout: float) -> PendingCall:
        """The same; the answer stays where it goes back by itself if nobody takes it."""
        del timeout
        bell = Bell(self._world)
        asked = PendingCall(self._engine.words, bell.answer)
        try:
            self._engine.begin(body, asked)
            if not asked.answered:
                await rung(bell, FOREVER)
        except BaseException:
            asked.drop()
            raise
        return self._engine.checked(asked)

    async def put(self, put: calls.PoolPut, timeout: float) -> None:
        """Returns when one object is kept."""
        place = self._engine.places.take(len(put.blob))
        if place is None:
            check_kept(await self.call(put, timeout), timeout)
            return
        self._engine.place_taken()
        await rung(Bell(self._world), BETWEEN)
        self._engine.put_into(place, put)

    async def wait(self, catch: ObjectLoopState, until: Instant) -> None:
        """Until there is something for a loop to look at, or the time is over."""
        self._engine.check()
        bell = Bell(self._world)
        if not catch.ready(bell):
            await rung(bell, seconds_until(until))


def named(put: calls.PoolPut) -> tuple[str, ...]:
    """What is put."""
    return tuple(bytes(one).decode() for one in Batch(put.offsets, put.blob))


@coroutine
def rung(bell: Bell, timeout: float) -> Generator[Query, Any, None]:
    """Until it is, or the time is over."""
    yield Query(bell, timeout)
