"""What a person asks for, as steps: written once, driven by any port.

A step is a generator. It yields a `Query` and is sent the answer's body, or is thrown the error; it
yields a `Sleep` and is sent nothing; it yields `AtOnce` and is sent what came of each query. Its
return value is what the person gets. It never waits by itself, so the blocking face, the async face
and the embedded cluster run the very same steps.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Generator, Sequence
from functools import partial
from types import TracebackType
from typing import Any, Protocol, Self, TypeAlias, TypeVar, cast, runtime_checkable

import msgspec

from snowmelt.core.errors import SnowmeltError
from snowmelt.core.names import NodeId

T = TypeVar("T")


class Query(msgspec.Struct, frozen=True):
    body: Any
    timeout: float
    target: NodeId | None = None
    weight: int = 0


class Sleep(msgspec.Struct, frozen=True):
    seconds: float


class AtOnce(msgspec.Struct, frozen=True):
    """Several, none of which waits for another: of each its answer, or the error of ours it had."""

    queries: tuple[Query, ...]


Step: TypeAlias = Query | Sleep | AtOnce
Steps: TypeAlias = Generator[Step, Any, T]


class Port(Protocol):
    """Makes calls for the blocking face; any number of threads at once."""

    def call(self, body: Any, timeout: float, target: NodeId | None = None, weight: int = 0) -> Any:
        """Calls, waits, and returns the answer's body; raises what went wrong."""


@runtime_checkable
class WidePort(Protocol):
    """One that makes several calls at once."""

    def call_all(self, queries: Sequence[Query]) -> list[Any]:
        """What came of each: its answer, or an error of ours in its place."""


class AsyncPort(Protocol):
    """Makes calls for the async face; any number at once."""

    def call(
        self, body: Any, timeout: float, target: NodeId | None = None, weight: int = 0
    ) -> Awaitable[Any]:
        """Calls, waits, and returns the answer's body; raises what went wrong."""


class AsyncEndable(Protocol):
    """What is to be ended before its port is closed."""

    async def end(self) -> None:
        """Ends it, if it has not ended."""


class KeepingPort(AsyncPort, Protocol):
    """An async port that also sees to its end what nobody awaits any more."""

    def check_loop(self) -> None:
        """Raises `WrongLoop` where another event loop runs than the one that it is used by."""

    def keep(self, work: Coroutine[Any, Any, None]) -> None:
        """Goes on with this; closing waits for it a little."""

    def before_closing(self, one: AsyncEndable) -> None:
        """Ends this before it closes."""

    def leave(self, task: "asyncio.Task[Any]") -> None:
        """The caller of this task's get has gone; the node that has the get hears that."""


class ProgressNote:
    """How many bodies of several calls are where they should be; a note on the exception says it.

    That may be an error of a call, of the person's own iterable, or an interrupt.

    >>> try:
    ...     with ProgressNote("the first {} are in", 0) as so_far:
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
    >>> run(Parrot(), twice("tu")), run(Parrot(), at_once([twice("a"), twice("b")]))
    ('tutu', ['aa', 'bb'])
    """
    try:
        step = next(steps)
        while True:
            if type(step) is Sleep:
                time.sleep(step.seconds)
                step = steps.send(None)
                continue
            try:
                answer = (
                    port.call(step.body, step.timeout, step.target, step.weight)
                    if type(step) is Query
                    else each(port, cast("AtOnce", step).queries)
                )
            except BaseException as error:  # an interrupt, too: see `ProgressNote`
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
            if type(step) is Sleep:
                await asyncio.sleep(step.seconds)
                step = steps.send(None)
                continue
            try:
                answer = (
                    await port.call(step.body, step.timeout, step.target, step.weight)
                    if type(step) is Query
                    else await _all(port, cast("AtOnce", step).queries)
                )
            except BaseException as error:  # an interrupt, too: see `ProgressNote`
                step = steps.throw(error)
            else:
                step = steps.send(answer)
    except StopIteration as end:
        value: T = end.value
        return value


async def _all(port: AsyncPort, queries: Sequence[Query]) -> list[Any]:
    """What came of several; an error that is none of ours is raised when all have ended."""
    told = await asyncio.gather(
        *[port.call(one.body, one.timeout, one.target, one.weight) for one in queries],
        return_exceptions=True,
    )
    for one in told:
        if isinstance(one, BaseException) and not isinstance(one, SnowmeltError):
            raise one
    return told


def each(port: Port, queries: Sequence[Query]) -> list[Any]:
    """The same, blocking; one after the other where the port makes one call at a time."""
    if isinstance(port, WidePort):
        return port.call_all(queries)
    told: list[Any] = []
    for one in queries:
        try:
            told.append(port.call(one.body, one.timeout, one.target, one.weight))
        except SnowmeltError as error:
            told.append(error)
    return told


def at_once(several: Sequence[Steps[T]]) -> Steps[list[T | SnowmeltError]]:
    """Takes several steps to their ends, side by side; what each returns, or its error of ours.

    What one of them asks waits for none of the others, but each round takes as long as its slowest.
    """
    ends: list[Any] = [None] * len(several)
    waiting: dict[int, Step] = {}

    def go_on(at: int, further: Callable[[], Step]) -> None:
        try:
            waiting[at] = further()
        except StopIteration as end:
            ends[at] = end.value
        except SnowmeltError as error:
            ends[at] = error

    try:
        for at, steps in enumerate(several):
            go_on(at, partial(next, steps))
        while waiting:
            round_, waiting = waiting, {}
            asks = {at: one for at, one in round_.items() if isinstance(one, Query)}
            if asks:
                answers = yield AtOnce(tuple(asks.values()))
            else:
                answers = yield Sleep(
                    min([one.seconds for one in round_.values() if type(one) is Sleep])
                )
            told = dict(zip(asks, answers or (), strict=True))
            for at in round_:
                answer = told.get(at)
                failed = isinstance(answer, SnowmeltError)
                steps = several[at]
                go_on(at, partial(steps.throw if failed else steps.send, answer))
    finally:
        for steps in several:
            steps.close()
    return ends


def all_of(ends: Sequence[T | SnowmeltError]) -> list[T]:
    """What `at_once` gave; raises the first error."""
    for one in ends:
        if isinstance(one, SnowmeltError):
            raise one
    return cast("list[T]", list(ends))
