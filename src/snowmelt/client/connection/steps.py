"""What a person asks for, as steps: written once, driven by whoever has a connection.

A step is a generator. It yields a `Query` and is sent the answer's body, or is thrown the error; it
yields a `Rest` and is sent nothing. Its return value is what the person gets. It never waits by
itself, so the blocking face, the async face and the embedded cluster run the very same steps.
"""

import asyncio
import time
from collections.abc import Awaitable, Coroutine, Generator
from types import TracebackType
from typing import Any, Protocol, Self, TypeAlias, TypeVar

import msgspec

from snowmelt.core.errors import SnowmeltError
from snowmelt.core.names import NodeId

T = TypeVar("T")


class Query(msgspec.Struct, frozen=True):
    body: Any
    timeout: float
    target: NodeId | None = None
    weight: int = 0


class Rest(msgspec.Struct, frozen=True):
    seconds: float


Steps: TypeAlias = Generator[Query | Rest, Any, T]


class Port(Protocol):
    """Makes calls for the blocking face; any number of threads at once."""

    def call(self, body: Any, timeout: float, target: NodeId | None = None, weight: int = 0) -> Any:
        """Calls, waits, and returns the answer's body; raises what went wrong."""


class AsyncPort(Protocol):
    """Makes calls for the async face; any number at once."""

    def call(
        self, body: Any, timeout: float, target: NodeId | None = None, weight: int = 0
    ) -> Awaitable[Any]:
        """Calls, waits, and returns the answer's body; raises what went wrong."""


class Ending(Protocol):
    """What is to be ended before its port is closed."""

    async def end(self) -> None:
        """Ends it, if it has not ended."""


class KeepingPort(AsyncPort, Protocol):
    """An async port that also sees to its end what nobody awaits any more."""

    def keep(self, work: Coroutine[Any, Any, None]) -> None:
        """Goes on with this; closing waits for it a little."""

    def before_closing(self, one: Ending) -> None:
        """Ends this before it closes."""


class SoFar:
    """How many bodies of several calls are where they should be; told by a note of what ends them.

    That may be an error of a call, of the person's own iterable, or an interrupt.

    >>> try:
    ...     with SoFar("the first {} are in", 0) as so_far:
    ...         so_far.told = (1,)
    ...         so_far.asked = True
    ...         raise TimeoutError
    ... except TimeoutError as error:
    ...     print(*error.__notes__)
    the first 1 are in, and perhaps some after them
    """

    def __init__(self, note: str, *told: object) -> None:
        self._note = note
        self.told = told
        self.asked = False
        """Whether a call is under way."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is None or kind is GeneratorExit:
            return
        unsure = self.asked and not (isinstance(error, SnowmeltError) and error.definite)
        error.add_note(self._note.format(*self.told) + ", and perhaps some after them" * unsure)


def run(port: Port, steps: Steps[T]) -> T:
    """Takes the steps to their end, in the thread that calls.

    >>> class Parrot:
    ...     def call(self, body, timeout, target=None, weight=0):
    ...         return body
    >>> def twice(word):
    ...     return (yield Query(word, 1.0)) + (yield Query(word, 1.0))
    >>> run(Parrot(), twice("tu"))
    'tutu'
    """
    try:
        step = next(steps)
        while True:
            if type(step) is Rest:
                time.sleep(step.seconds)
                step = steps.send(None)
                continue
            assert type(step) is Query
            try:
                answer = port.call(step.body, step.timeout, step.target, step.weight)
            except BaseException as error:  # an interrupt, too: see `SoFar`
                step = steps.throw(error)
            else:
                step = steps.send(answer)
    except StopIteration as end:
        value: T = end.value
        return value


async def run_async(port: AsyncPort, steps: Steps[T]) -> T:
    """Takes the steps to their end, on the event loop."""
    try:
        step = next(steps)
        while True:
            if type(step) is Rest:
                await asyncio.sleep(step.seconds)
                step = steps.send(None)
                continue
            assert type(step) is Query
            try:
                answer = await port.call(step.body, step.timeout, step.target, step.weight)
            except BaseException as error:  # an interrupt, too: see `SoFar`
                step = steps.throw(error)
            else:
                step = steps.send(answer)
    except StopIteration as end:
        value: T = end.value
        return value
