"""Those who publish and those who listen in a simulated world: scripts over the shipped steps.

A publisher publishes now and then, one message or several, and gives up after a while, or is
interrupted. A listener subscribes and takes what comes; some work on each piece of it for so long
that their node forgets what comes next. When all is at rest again everybody publishes once more.

What a person is told is held against what nodes were seen to say:

1. What `publish` returned for a node has promised to be with every node, and it stands where the
   person is told.
2. What a person is told is definitely not published nobody ever hears.
3. A listener sees what stands at a position, bodies and all, and knows when something may be
   missing before it (`multicast_ledger.py`).
"""

from collections.abc import Callable
from random import Random
from typing import Any, Final

import msgspec

from snowmelt.client.baton.steps import CurrentNode
from snowmelt.client.connection.steps import Query, Steps
from snowmelt.client.multicast.steps import ListenerState, TopicSteps
from snowmelt.core.errors import SnowmeltError
from snowmelt.core.instant import Instant, later, milliseconds, seconds
from snowmelt.core.names import NodeId, OperationId
from snowmelt.core.outcome import Outcome, Succeeded
from snowmelt.protocols.multicast import calls
from snowmelt.protocols.multicast.calls import CALL_BODIES_MAX, Position
from snowmelt.runtime.clock import steady_now
from snowmelt_world.families.multicast_ledger import Ear, Ledger, Wish
from snowmelt_world.families.shipped import Done, Interrupted, Program, must_end_well, pause
from snowmelt_world.world import Broken, World

PAUSE: Final = seconds(3)
AGAIN: Final = milliseconds(200)
SOME: Final = 2
"""So many publications of each publisher in a round at rest."""
PATIENCE: Final = (0.0, 1.0, 5.0, 30.0)
"""For how long a publisher waits, at most, while there are faults."""
CALM_PATIENCE: Final = 30.0
INTERRUPTED: Final = seconds(40)
"""A person is interrupted in whatever it does so often at least, until the faults are over."""
BURST: Final = 0.02
"""How many publications are more than one call has room for; once in a topic."""
SLOW: Final = 0.3
"""How many listeners are slow."""
WORK: Final = seconds(2)
"""The longest that a slow listener works on what came."""
FAILURES: Final = (SnowmeltError, Interrupted)
"""What a call of a person ends with, if not with its answer."""


class Stage(msgspec.Struct):
    world: World
    nodes: tuple[NodeId, ...]
    ledgers: dict[str, Ledger]
    answerers: dict[OperationId, NodeId] = {}
    """Which node has told a listener what comes next."""
    draining: bool = False


class Actor(Program):
    def __init__(self, stage: Stage, name: str, topic: str, chance: Random) -> None:
        nodes = chance.sample(stage.nodes, len(stage.nodes))
        super().__init__(stage.world, name, nodes, chance)
        self.stage = stage
        self.topic = topic
        self.ledger = stage.ledgers[topic]
        self.steps = TopicSteps(CurrentNode(), topic, self.tickets)

    def script(self, steps: Steps[None], over: Callable[[], None]) -> None:
        """Runs it to its end; at times it is interrupted, until the faults are over."""

        def ended(told: Any) -> None:
            must_end_well(told)
            over()

        run = self.run(steps, ended)

        def interrupt() -> None:
            if not self.stage.draining:
                run.interrupt()
                self.after(self.some(INTERRUPTED), interrupt)

        self.after(self.some(INTERRUPTED), interrupt)


class Publisher(Actor):
    """Publishes now and then, until the faults are over; and once more in the end."""

    def __init__(self, stage: Stage, name: str, topic: str, chance: Random) -> None:
        super().__init__(stage, name, topic, chance)
        self.done = False
        """Whether it has published all, also in the end."""
        self._round = 0
        self._count = 0
        self._tickets: list[int] = []
        """Of the calls that one publication has made."""
        self.script(self._work(), self._ends)

    def once_more(self) -> None:
        """All is at rest: the next round begins."""
        self._round += 1
        self.done = False
        self.script(self._at_rest(), self._ends)

    def _ends(self) -> None:
        self.done = True

    def _work(self) -> Steps[None]:
        while not self.stage.draining:
            yield pause(self.some(self.chance.choice((PAUSE, PAUSE, milliseconds(100)))))
            if not self.stage.draining:
                yield from self._publish(self.chance.choice(PATIENCE))

    def _at_rest(self) -> Steps[None]:
        for _ in range(SOME):
            while not (yield from self._publish(CALM_PATIENCE)):
                yield pause(AGAIN)

    def _publish(self, timeout: float) -> Steps[bool]:
        """One publication; whether everybody has it, as far as the person knows."""
        self._count += 1
        self._tickets = []
        many = self.chance.random() < BURST and self.ledger.may_burst()
        count = CALL_BODIES_MAX + 2 if many else self.chance.randint(1, 4)
        bodies = [f"{self.name}.{self._count}.{at}".encode() for at in range(count)]
        try:
            if count == 1:
                told = [(yield from self.steps.publish(bodies[0], timeout))]
            else:
                told = yield from self.steps.publish_many(bodies, timeout)
        except SnowmeltError as error:
            if error.definite and self._tickets:
                self.ledger.refused(self._tickets[-1], str(error))
            return False
        except Interrupted:
            return False
        self._believes(bodies, told)
        return True

    def _believes(self, bodies: list[bytes], told: list[Position]) -> None:
        """Rule 1."""
        wishes = [self.ledger.wishes[ticket] for ticket in self._tickets]
        if [body for wish in wishes for body in wish.bodies] != bodies:
            raise Broken(f"{self.name} published {bodies}, and asked for {wishes}", self.name)
        at = 0
        for wish in wishes:
            if wish.answered is None or not self.ledger.stands(wish, told[at]):
                text = f"{self.name} is told that {wish.ticket} is at {told[at]}"
                raise Broken(f"{text}, and no node said so", self.name)
            at += len(wish.bodies)
        if len(told) != at:
            raise Broken(f"{self.name} published {at}, and is told of {len(told)}", self.name)

    # --- what goes over the wire ------------------------------------------------------------------

    def asked(self, operation: OperationId, body: Any) -> None:
        del operation
        if isinstance(body, calls.Publish) and body.ticket not in self._tickets:
            self._tickets.append(body.ticket)
            self.ledger.asks(Wish(body.ticket, body.bodies, self.now, self._round))

    def query(self, step: Query, told: Done) -> None:
        """A node promises that everybody has it, whatever the steps make of that."""

        def hears(answer: Any) -> None:
            if isinstance(answer, calls.Published) and isinstance(step.body, calls.Publish):
                self.ledger.wishes[step.body.ticket].answered = self.now
            told(answer)

        super().query(step, hears)


class Listener(Actor):
    def __init__(self, stage: Stage, name: str, topic: str, chance: Random) -> None:
        super().__init__(stage, name, topic, chance)
        self.slow = chance.random() < SLOW
        self.hearing = ListenerState()
        self.ear = self.ledger.ears[self.name] = Ear(name, slow=self.slow)
        self.script(self._listen(), _never)

    def _listen(self) -> Steps[None]:
        while True:
            try:
                yield from self._more()
            except FAILURES:
                self.ear.stay = None
                yield pause(AGAIN)
                continue
            self._take()
            if self.slow and not self.stage.draining:
                yield pause(self.some(WORK))

    def _more(self) -> Steps[None]:
        """As a loop over a subscription does, with a time-out or without."""
        if not self.hearing.following.begun:
            yield from self.steps.begin(self.hearing, self.chance.choice((1.0, 10.0)))
            return
        end: Instant | None = None
        if self.chance.random() < 0.3:
            end = later(steady_now(), self.some(PAUSE))
        yield from self.steps.more(self.hearing, end)

    def _take(self) -> None:
        """Rule 3."""
        came = [self.hearing.next() for _ in range(len(self.hearing.came))]
        self.ledger.hears(self.name, came, self.hearing.following)

    # --- what goes over the wire ------------------------------------------------------------------

    def asked(self, operation: OperationId, body: Any) -> None:
        """It may ask for the beginning."""
        del operation
        if isinstance(body, calls.Listen) and body.start is None:
            self.ear.asked = self.now

    def answered(self, operation: OperationId, outcome: Outcome[Any], at: Instant) -> None:
        """A node tells what comes next, or nobody does: then that node may not have been its."""
        listens = isinstance(self.open[operation.number][0], calls.Listen)
        if listens and not isinstance(outcome, Succeeded):
            self.ear.stay = None
        super().answered(operation, outcome, at)
        if listens and isinstance(outcome, Succeeded):
            node, following = self.stage.answerers.pop(operation), self.hearing.following
            if following.begun and following.position == outcome.value.next:  # it was taken
                self.ear.stays(node, at)


def _never() -> None:
    raise AssertionError("a listener listens for ever")
