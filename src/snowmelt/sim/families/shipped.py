"""Programs of a simulated world that take the shipped steps (`connection.steps`) to their end.

What a person's code does between two steps is written as steps too; so a whole program is one
generator, which is asked nothing but calls and rests. It may be interrupted where it waits for an
answer, as a person's is by Ctrl-C: the answer comes all the same, and nobody takes it.

Steps read the steady clock, which shows the world's time while they run, and draw by the chance
that they were given. So a life is the same each time.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from snowmelt.client.connection.session import value
from snowmelt.client.connection.steps import Query, Rest, Steps
from snowmelt.core.errors import SnowmeltError
from snowmelt.core.instant import Duration, Instant, milliseconds, seconds
from snowmelt.core.outcome import Outcome
from snowmelt.runtime.clock import shown
from snowmelt.sim.families.baton_users import Client

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
    """For how long a call's answer is waited for."""
    return seconds(max(0.001, step.timeout))


def answer_of(outcome: Outcome[Any]) -> Any:
    """What steps are told: the answer's body, or the error."""
    try:
        return value(outcome, True, None)
    except SnowmeltError as error:
        return error


class Program(Client):
    """A process that runs shipped steps, several at a time as with threads."""

    def tickets(self) -> int:
        """As steps draw them, but from this world's seed."""
        return self.chance.getrandbits(63)

    def query(self, step: Query, told: Done) -> None:
        """Makes a call of steps."""

        def then(outcome: Outcome[Any], _: Instant) -> None:
            told(answer_of(outcome))

        self.ask(step.body, then, step.target, patience=patience_of(step), weight=step.weight)

    def run(self, steps: Steps[Any], done: Done, interrupt: Duration | None = None) -> None:
        """Takes them to their end; interrupts them after so long if they wait for an answer."""
        run = Run(self, steps, done)
        if interrupt is not None:
            self.after(interrupt, run.interrupt)
        run.go(None)


class Run:
    """Steps under way."""

    def __init__(self, process: Process, steps: Steps[Any], done: Done) -> None:
        self._process = process
        self._steps = steps
        self._done = done
        self._calls = 0
        self._waits = False
        self._over = False

    def go(self, answer: Any) -> None:
        """On from where they wait, with this."""
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

    def _on(self, further: Callable[[], Query | Rest]) -> None:
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
        if isinstance(step, Rest):
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
