"""Those who publish and those who listen in a simulated world, each a client machine.

A publisher asks under one ticket until it is told that everybody has it, at one node after another.
A listener begins at one node, and goes on at another by its position when that one is silent or
sends it away. When all is at rest again everybody publishes once more.
"""

from collections.abc import Callable
from random import Random
from typing import Any, Final

import msgspec

from snowmelt.core.instant import Duration, later, milliseconds, seconds
from snowmelt.core.names import NodeId, OperationId, contact
from snowmelt.core.outcome import Outcome, Succeeded
from snowmelt.protocols.calling import SLOWEST, Ask, Caller
from snowmelt.protocols.multicast import calls
from snowmelt.sim.families.membership import address
from snowmelt.sim.families.multicast_ledger import Ear, Ledger, Wish
from snowmelt.sim.world import World

WAITING: Final = 7 * SLOWEST
"""The weight of a call that waits for `calls.POLL`: its silence means nothing for longer."""
PATIENCE: Final = Duration(calls.POLL + seconds(2))
PAUSE: Final = seconds(3)
AGAIN: Final = milliseconds(200)
SOME: Final = 2
"""So many publications of each publisher in a round at rest."""


class Stage(msgspec.Struct):
    """What all share."""

    world: World
    nodes: tuple[NodeId, ...]
    ledgers: dict[str, Ledger]
    draining: bool = False


class Actor:
    """A client machine, and whoever decides what it asks next; one call at a time."""

    def __init__(self, stage: Stage, name: str, topic: str, chance: Random) -> None:
        self.stage = stage
        self.name = NodeId(name)
        self.topic = topic
        self.ledger = stage.ledgers[topic]
        self.chance = chance
        self.node = chance.choice(stage.nodes)
        self._numbers = 0
        self._then: Callable[[Outcome[Any]], None] | None = None
        targets = [contact(address(one)) for one in stage.nodes]
        stage.world.add(self.name, lambda dice: Caller(targets, dice))
        stage.world.start(self.name)

    def ask(self, body: Any, then: Callable[[Outcome[Any]], None]) -> None:
        """Calls the actor's node, and no other."""
        self._numbers += 1
        self._then = then
        operation = OperationId(self.name, self._numbers)
        ask = Ask(body, PATIENCE, contact(address(self.node)), WAITING)
        self.stage.world.request(self.name, operation, ask)

    def answered(self, operation: OperationId, outcome: Outcome[Any]) -> None:
        """The client machine has an outcome."""
        then, self._then = self._then, None
        assert operation.number == self._numbers
        assert then is not None
        then(outcome)

    def after(self, most: Duration, act: Callable[[], None]) -> None:
        """Within so long."""
        wait = Duration(self.chance.randrange(1, most))
        self.stage.world.at(later(self.stage.world.now, wait), act)

    def move(self) -> None:
        """Turns to another node."""
        self.node = self.chance.choice([one for one in self.stage.nodes if one != self.node])


class Publisher(Actor):
    """Publishes now and then, until the faults are over; and once more in the end."""

    def __init__(self, stage: Stage, name: str, topic: str, chance: Random) -> None:
        super().__init__(stage, name, topic, chance)
        self._round = 0
        self._left = 0
        self._count = 0
        self.idle = True
        self._rest()

    @property
    def done(self) -> bool:
        """Whether it has published all, also in the end."""
        return self.idle and not self._left

    def once_more(self) -> None:
        """All is at rest: the next round begins."""
        self._round += 1
        self._left = SOME
        self._rest()

    def _rest(self) -> None:
        self.idle = True
        if self._left:
            self._left -= 1
            self._publish()
        elif not self.stage.draining:
            pause = self.chance.choice((PAUSE, PAUSE, milliseconds(100)))
            self.after(pause, self._next)

    def _next(self) -> None:
        if not self.stage.draining:
            self._publish()

    def _publish(self) -> None:
        self.idle = False
        ticket = self.chance.getrandbits(63)
        self._count += 1
        bodies = tuple(
            f"{self.name}.{self._count}.{at}".encode() for at in range(self.chance.randint(1, 4))
        )
        self.ledger.asks(Wish(ticket, bodies, self.stage.world.now, self._round))
        self._ask(calls.Publish(self.topic, ticket, bodies, calls.POLL))

    def _ask(self, publish: calls.Publish) -> None:
        def told(outcome: Outcome[Any]) -> None:
            match outcome:
                case Succeeded(calls.Published()):
                    self.ledger.wishes[publish.ticket].answered = self.stage.world.now
                    self._rest()
                case Succeeded(calls.Underway()):
                    self._ask(publish)
                case _:
                    self.move()
                    self.after(AGAIN, lambda: self._ask(publish))

        self.ask(publish, told)


class Listener(Actor):
    """Listens for ever."""

    def __init__(self, stage: Stage, name: str, topic: str, chance: Random) -> None:
        super().__init__(stage, name, topic, chance)
        self.ear = self.ledger.ears[self.name] = Ear(name)
        self._listen()

    def _listen(self) -> None:
        start = self.ear.following.position
        if start is None:
            self.ear.asked = self.stage.world.now
        self.ask(calls.Listen(self.topic, start, calls.POLL), self._told)

    def _told(self, outcome: Outcome[Any]) -> None:
        match outcome:
            case Succeeded(calls.Messages() as told):
                self._take(told)
                self._listen()
            case _:
                self.move()
                self.ear.stay = None
                self.after(AGAIN, self._listen)

    def _take(self, told: calls.Messages) -> None:
        self.ledger.hears(self.name, told)
        self.ear.stays(self.node, self.stage.world.now)
