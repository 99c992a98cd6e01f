"""Programs of a simulated world that take the shipped steps (`connection.steps`) to their end.

What a person's code does between two steps is written as steps too; so a whole program is one
generator, which is asked nothing but calls and rests. It may be interrupted where it waits for an
answer, as a person's is by Ctrl-C: the answer comes all the same, and nobody takes it.

Steps read the steady clock, which shows the world's time while they run, and draw by the chance
that they were given. So a life is the same each time.
"""

from collections.abc import Callable, Generator, Sequence
from functools import partial
from random import Random
from typing import Any, Final, Protocol, TypeVar

from snowmelt.client.connection.session import value
from snowmelt.client.connection.steps import AtOnce, Query, Sleep, Steps
from snowmelt.core.errors import SnowmeltError
from snowmelt.core.instant import SECOND, Duration, Instant, later, milliseconds, seconds
from snowmelt.core.names import NodeId, OperationId, contact
from snowmelt.core.node import Announced
from snowmelt.core.outcome import Outcome
from snowmelt.protocols.calling import Ask, Caller, Lost
from snowmelt.runtime.clock import shown
from snowmelt_world.families.membership import address
from snowmelt_world.world import World

PATIENCE: Final = seconds(15)

Then = Callable[[Outcome[Any], Instant], None]
Done = Callable[[Any], None]
"""What is done with what a program came to: its value, or the error that it ended with."""


class Interrupted(Exception):
    """A program is interrupted where it waits."""


class Process(Protocol):
    """Whoever makes the calls of steps, and waits between them."""

    @property
    def now(self) -> Instant:
        """The time of the world."""

    def after(self, wait: Duration, act: Callable[[], None]) -> None:
        """Later, unless it is gone by then."""

    def query(self, step: Query, told: Done) -> None:
        """Makes a call; it is told the answer's body, or the error."""


def patience_of(step: Query) -> Duration:
    return seconds(max(0.001, step.timeout))


def answer_of(outcome: Outcome[Any]) -> Any:
    """What steps are told: the answer's body, or the error."""
    try:
        return value(outcome, True, None)
    except SnowmeltError as error:
        return error


class Program:
    """A client machine and what it runs: shipped steps, several at a time as with threads."""

    def __init__(self, world: World, name: str, nodes: Sequence[NodeId], chance: Random) -> None:
        self.world = world
        self.name = NodeId(name)
        self.nodes = nodes
        """Whom it asks."""
        self.chance = chance
        self.dead = False
        self.open: dict[int, tuple[Any, Then]] = {}
        self._numbers = 0
        contacts = [contact(address(node)) for node in nodes]
        world.add(self.name, lambda dice: Caller(contacts, dice))
        world.start(self.name)

    @property
    def now(self) -> Instant:
        """The time of the world; clocks go wrong only on nodes."""
        return self.world.now

    @property
    def waiting(self) -> str:
        """What it waits for, in words; nothing when for nothing."""
        for number, (body, _) in self.open.items():
            return f"{self.name} still waits for its call {number}, {type(body).__name__}"
        return ""

    # --- its process ------------------------------------------------------------------------------

    def lose(self, node: NodeId) -> None:
        self.world.give(self.name, Announced(Lost(node)))

    def die(self) -> None:
        self.dead = True
        self.open.clear()
        self.world.slots[self.name].wanted = False
        self.world.stop(self.name)

    def after(self, wait: Duration, act: Callable[[], None]) -> None:
        """Later, if its process lives then; when it stands still, once it goes on."""

        def due() -> None:
            goes_on = self.world.slots[self.name].paused_until
            if self.dead:
                return
            if goes_on > self.now:
                self.world.at(goes_on, due)
            else:
                act()

        self.world.at(later(self.now, wait), due)

    # --- what goes over the wire ------------------------------------------------------------------

    def ask(
        self,
        body: Any,
        then: Then,
        target: NodeId | None = None,
        *,
        patience: Duration = PATIENCE,
        weight: int = 0,
    ) -> None:
        """Calls; `then` is done with what came of it."""
        self._numbers += 1
        self.open[self._numbers] = body, then
        operation = OperationId(self.name, self._numbers)
        self.asked(operation, body)
        self.world.request(self.name, operation, Ask(body, patience, target, weight))

    def asked(self, operation: OperationId, body: Any) -> None:
        """A call is about to be made: who writes down what is asked does it here."""

    def answered(self, operation: OperationId, outcome: Outcome[Any], at: Instant) -> None:
        _, then = self.open.pop(operation.number)
        then(outcome, at)

    def query(self, step: Query, told: Done) -> None:
        def then(outcome: Outcome[Any], _: Instant) -> None:
            told(answer_of(outcome))

        self.ask(step.body, then, step.target, patience=patience_of(step), weight=step.weight)

    # --- steps, and chance ------------------------------------------------------------------------

    def run(self, steps: Steps[Any], done: Done) -> "Run":
        run = Run(self, steps, done)
        run.go(None)
        return run

    def tickets(self) -> int:
        """As steps draw them, but from this world's seed."""
        return self.chance.getrandbits(63)

    def some(self, most: Duration) -> Duration:
        return Duration(self.chance.randrange(1, most))


def pause(time: Duration) -> Sleep:
    return Sleep(time / SECOND)


def must_end_well(told: Any) -> None:
    """What is done with a script that sees to its errors by itself."""
    assert not isinstance(told, Exception), f"a script ended with {told!r}"


T = TypeVar("T")


def _singly(steps: Steps[T]) -> Generator[Query | Sleep, Any, T]:
    """The same steps, of which what goes at once is asked one after the other."""
    further = partial(steps.send, None)
    try:
        while True:
            step = further()
            try:
                answer = (yield from _each(step)) if isinstance(step, AtOnce) else (yield step)
            except GeneratorExit:
                steps.close()
                raise
            except BaseException as error:
                further = partial(steps.throw, error)
            else:
                further = partial(steps.send, answer)
    except StopIteration as end:
        value: T = end.value
        return value


def _each(step: AtOnce) -> Generator[Query | Sleep, Any, list[Any]]:
    answers: list[Any] = []
    for one in step.queries:
        try:
            answers.append((yield one))
        except SnowmeltError as error:
            answers.append(error)
    return answers


class Run:
    def __init__(self, process: Process, steps: Steps[Any], done: Done) -> None:
        self._process = process
        self._steps = _singly(steps)
        self._done = done
        self._calls = 0
        self._waits = False
        self._over = False

    def go(self, answer: Any) -> None:
        if not self._over:
            self._on(lambda: self._steps.send(answer))

    def interrupt(self) -> None:
        """If they wait for an answer."""
        if self._waits:
            self._fail(Interrupted())

    def end(self) -> None:
        """Their process is gone: they go no further, and nothing is done about that."""
        self._over, self._waits = True, False

    def _fail(self, error: Exception) -> None:
        self._on(lambda: self._steps.throw(error))

    def _on(self, further: Callable[[], Query | Sleep]) -> None:
        self._waits = False
        process = self._process
        try:
            with shown(process.now):
                step = further()
        except StopIteration as end:
            self._over = True
            self._done(end.value)
            return
        except (SnowmeltError, Interrupted) as error:
            self._over = True
            self._done(error)
            return
        if isinstance(step, Sleep):
            process.after(max(milliseconds(1), seconds(step.seconds)), lambda: self.go(None))
            return
        self._waits = True
        self._calls += 1
        process.query(step, partial(self._answered, self._calls))

    def _answered(self, number: int, answer: Any) -> None:
        if number != self._calls or not self._waits:
            return  # it was interrupted, and nobody waits for this
        if isinstance(answer, SnowmeltError):
            self._fail(answer)
        else:
            self.go(answer)
