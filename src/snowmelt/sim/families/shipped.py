"""Programs of a simulated world that take the shipped steps (`connection.steps`) to their end.

What a person's code does between two steps is written as steps too; so a whole program is one
generator, which is asked nothing but calls and rests. It may be interrupted where it waits for an
answer, as a person's is by Ctrl-C: the answer comes all the same, and nobody takes it.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

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


class Program(Client):
    """A process that runs shipped steps, several at a time as with threads."""

    def tickets(self) -> int:
        """As steps draw them, but from this world's seed."""
        return self.chance.getrandbits(63)

    def run(self, steps: Steps[Any], done: Done, interrupt: Duration | None = None) -> None:
        """Takes them to their end; interrupts them after so long if they wait for an answer."""
        run = _Run(self, steps, done)
        if interrupt is not None:
            self.after(interrupt, run.interrupt)
        run.go(None)


class _Run:
    """Steps under way."""

    def __init__(self, program: Program, steps: Steps[Any], done: Done) -> None:
        self._program = program
        self._steps = steps
        self._done = done
        self._calls = 0
        self._waits = False

    def go(self, answer: Any) -> None:
        """On from where they wait, with this."""
        self._on(lambda: self._steps.send(answer))

    def interrupt(self) -> None:
        """If they wait for an answer."""
        if self._waits:
            self._fail(Interrupted())

    def _fail(self, error: Exception) -> None:
        self._on(lambda: self._steps.throw(error))

    def _on(self, further: Callable[[], Query | Rest]) -> None:
        self._waits = False
        program = self._program
        try:
            with shown(program.now):
                step = further()
        except StopIteration as end:
            self._done(end.value)
            return
        except (SnowmeltError, Interrupted) as error:
            self._done(error)
            return
        if isinstance(step, Rest):
            program.after(max(milliseconds(1), seconds(step.seconds)), lambda: self.go(None))
            return
        self._waits = True
        self._calls += 1
        told = partial(self._answered, self._calls)
        patience = seconds(max(0.001, step.timeout))
        program.ask(step.body, told, step.target, patience=patience, weight=step.weight)

    def _answered(self, number: int, outcome: Outcome[Any], _: Instant) -> None:
        if number != self._calls or not self._waits:
            return  # it was interrupted, and nobody waits for this
        try:
            answer = value(outcome, True, None)
        except SnowmeltError as error:
            self._fail(error)
        else:
            self.go(answer)
