"""Who uses a simulated cluster with queues: client machines, and those who decide what they ask."""

from collections.abc import Callable
from enum import Enum
from random import Random
from typing import Any, Final, Protocol

import msgspec

from snowmelt.core.instant import Duration, Instant, later, milliseconds, seconds
from snowmelt.core.interval import Interval, IntervalSet
from snowmelt.core.names import Address, NodeId, OperationId, contact
from snowmelt.core.node import Effect, Event, Node, Send
from snowmelt.core.outcome import Outcome, Succeeded, Unknown
from snowmelt.protocols.calling import Answer, Ask, Call, Caller, Declined
from snowmelt.protocols.queue.api import calls
from snowmelt_world.world import World

PATIENCE: Final = seconds(15)
DELAY: Final = seconds(4)
"""The longest that a get waits for items, an item for its moment; and mostly a put for room."""
PAUSE: Final = milliseconds(300)

Then = Callable[[Outcome[Any], Instant], None]
Seen = Callable[[calls.ItemRun, Instant], None]


class Phase(Enum):
    LOAD = "load"
    REST = "rest"
    """No puts, no gets: what is in the queues is to get its copies."""
    DRAIN = "drain"


class Said(msgspec.Struct):
    """When nodes said what: so it is known when a lease was told, not only when it was heard."""

    answers: dict[tuple[NodeId, int], list[tuple[Instant, Any]]] = {}

    def note(self, at: Instant, client: NodeId, answer: Answer[Any]) -> None:
        self.answers.setdefault((client, answer.number), []).append((at, answer.body))

    def when(self, client: NodeId, number: int, outcome: Outcome[Any], heard: Instant) -> Instant:
        """When the answer that made this outcome was said; when it was heard, if nobody knows."""
        for at, body in self.answers.pop((client, number), ()):
            match outcome:
                case Succeeded(value) if value is body:
                    return at
                case Succeeded():
                    continue
                case _ if isinstance(body, Declined):
                    return at
        return heard


class Listened:
    """A node whose answers to clients are noted as they are said."""

    def __init__(self, node: Node[Any], said: Said, clock: Callable[[], Instant]) -> None:
        self._node = node
        self._said = said
        self._clock = clock

    def handle(self, event: Event[Any], now: Instant) -> list[Effect[Any]]:
        effects = self._node.handle(event, now)
        for effect in effects:
            if type(effect) is Send and type(effect.message) is Answer:
                self._said.note(self._clock(), effect.target, effect.message)
        return effects

    def check(self) -> None:
        self._node.check()


class Reached(Protocol):
    @property
    def address(self) -> Address:
        """Where."""


class Stage(msgspec.Struct):
    world: World
    targets: list[NodeId]
    duplicates: bool
    """Whether the network may say anything twice."""
    phase: Phase = Phase.LOAD
    actors: dict[NodeId, "Actor"] = {}
    said: Said = msgspec.field(default_factory=Said)


class CountingCaller(Caller):
    """The client machine, which also counts how often each call was sent."""

    def __init__(self, targets: list[NodeId], chance: Random) -> None:
        super().__init__(targets, chance)
        self.sent: dict[int, int] = {}

    def handle(self, event: Event[object], now: Instant) -> list[Effect[object]]:
        effects = super().handle(event, now)
        for effect in effects:
            if isinstance(effect, Send) and isinstance(effect.message, Call):
                number = effect.message.number
                self.sent[number] = self.sent.get(number, 0) + 1
        return effects


class Actor:
    """A client machine, and whoever decides what it asks next."""

    def __init__(self, stage: Stage, name: str, chance: Random) -> None:
        self.name = NodeId(name)
        self.stage = stage
        self.chance = chance
        self.said = Instant(0)
        """When the answer that is being told was said by its node."""
        self._heard = 0
        self._numbers = 0
        self._open: dict[int, tuple[Any, Then]] = {}
        self._machine: CountingCaller | None = None
        stage.actors[self.name] = self

        def build(dice: Random) -> Caller:
            self._machine = CountingCaller(list(stage.targets), dice)
            return self._machine

        stage.world.add(self.name, build)
        stage.world.start(self.name)

    @property
    def now(self) -> Instant:
        return self.stage.world.now

    @property
    def waiting(self) -> str:
        for number, (body, _) in self._open.items():
            return f"{self.name} still waits for its call {number}, {type(body).__name__}"
        return ""

    def ask(
        self,
        body: Any,
        then: Then,
        patience: Duration = PATIENCE,
        target: Reached | None = None,
    ) -> None:
        """Calls; `then` is done with what came of it."""
        first = None if target is None else contact(target.address)
        self.send(Ask(body, patience, first), then)

    def send(self, ask: Ask[Any], then: Then) -> None:
        self._numbers += 1
        self._open[self._numbers] = ask.body, then
        operation = OperationId(self.name, self._numbers)
        self.stage.world.request(self.name, operation, ask)

    def answered(self, operation: OperationId, outcome: Outcome[Any], at: Instant) -> None:
        _, then = self._open.pop(operation.number)
        self._heard = operation.number
        self.said = self.stage.said.when(self.name, operation.number, outcome, at)
        then(outcome, at)

    def forsake(self, reason: str) -> None:
        forsaken, self._open = self._open, {}
        for _, then in forsaken.values():
            then(Unknown(reason), self.now)

    def after(self, wait: Duration, act: Callable[[], None]) -> None:
        self.stage.world.at(later(self.now, wait), act)

    @property
    def sent_once(self) -> bool:
        """Whether no node can have heard twice what is being answered."""
        assert self._machine is not None
        return self._machine.sent.get(self._heard, 0) <= 1 and not self.stage.duplicates

    def some(self, most: Duration) -> Duration:
        return Duration(self.chance.randrange(1, most))


def intervals(positions: tuple[int, ...]) -> tuple[Interval, ...]:
    """Positions as they are named in a call."""
    return tuple(IntervalSet(Interval(where, where + 1) for where in positions))
