"""What a person may say about a worker, checked."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from types import UnionType
from typing import Any, Final, TypedDict

import msgspec

from snowmelt.client.leases.looping import checked_prefetch
from snowmelt.client.leases.steps import checked_count
from snowmelt.client.worker.retrying import SECONDS_MAX, Kinds, Retry, Retrying
from snowmelt.core.errors import BadOption

GRACE: Final = 30.0
REACH_SECONDS: Final = 5.0
"""How long the nodes may take to answer for the first time."""
LAST_SECONDS: Final = 0.6
"""How long the return of the rest may take when `grace` is over, or at a second signal."""
THREADS_MAX: Final = 10_000
PROCESSES_MAX: Final = 1_000
WEIGHT_MAX: Final = 1_000


class CommonOptions(TypedDict, total=False):
    """The options of both workers."""

    retry: Retry | Kinds | None
    prefetch: int
    grace: float
    limit: float | None
    signals: bool
    step: bool


class WorkerOptions(CommonOptions, total=False):
    """The options of the blocking worker."""

    threads: int
    processes: int


class AsyncWorkerOptions(CommonOptions, total=False):
    """The options of the worker on an event loop."""

    tasks: int


class WorkerSettings(msgspec.Struct, frozen=True):
    """How a worker is to be."""

    retrying: Retrying
    at_once: int
    """Threads or tasks, of each process."""
    processes: int
    """0: none but this."""
    prefetch: int | None
    grace: float
    signals: bool
    limit: float | None
    """Seconds that a handler may take."""
    step: bool = False
    """Whether what a handler puts, and the acknowledgement of its item, are one step."""


def worker_settings(options: dict[str, Any], at_once: str, known: type) -> WorkerSettings:
    """The settings asked for; `at_once` is how the number of threads or tasks is called.

    >>> worker_settings({"threads": 0}, "threads", WorkerOptions)
    Traceback (most recent call last):
    snowmelt.core.errors.BadOption: threads is 0; allowed: 1 to 10000
    """
    names = known.__annotations__
    for option in options:
        if option not in names:
            raise BadOption("option", option, ", ".join(names))
    grace = options.get("grace", GRACE)
    if type(grace) not in (int, float) or not 0 <= grace <= SECONDS_MAX:
        raise BadOption("grace", grace, f"0 to {SECONDS_MAX:.0f} seconds")
    limit = options.get("limit")
    if limit is not None and (type(limit) not in (int, float) or not 0.1 <= limit <= SECONDS_MAX):
        raise BadOption("limit", limit, f"0.1 to {SECONDS_MAX:.0f} seconds, or None")
    for option in ("signals", "step"):
        if type(options.get(option, False)) is not bool:
            raise BadOption(option, options[option], "True or False")
    return WorkerSettings(
        Retrying(options.get("retry", Retry())),
        checked_count(at_once, options.get(at_once, 1), THREADS_MAX),
        checked_count("processes", options["processes"], PROCESSES_MAX)
        if "processes" in options
        else 0,
        checked_prefetch(options.get("prefetch")),
        grace,
        options.get("signals", True),
        limit,
        options.get("step", False),
    )


def shares(name: str, at_once: int, weights: Sequence[int]) -> list[int]:
    """How many threads or tasks each of several queues has: one at least, the rest by weight.

    >>> shares("threads", 8, [3, 1]), shares("threads", 3, [100, 1, 1]), shares("tasks", 9, [1, 1])
    ([6, 2], [1, 1, 1], [5, 4])
    >>> shares("threads", 1, [3, 1])
    Traceback (most recent call last):
    snowmelt.core.errors.BadOption: threads is 1; allowed: 2 or more: each queue has its own
    """
    if at_once < len(weights):
        raise BadOption(name, at_once, f"{len(weights)} or more: each queue has its own")
    had = [1] * len(weights)
    while sum(had) < at_once:
        neediest = max(range(len(had)), key=lambda at: weights[at] / (had[at] + 0.5))
        had[neediest] += 1
    return had


def weighed(queues: Any, kinds: type[Any] | UnionType, allowed: str) -> dict[Any, int]:
    """The queues of a worker, each with its weight."""
    some = queues
    if isinstance(queues, kinds):
        some = {queues: 1}
    elif isinstance(queues, Sequence) and not isinstance(queues, str | bytes):
        some = dict.fromkeys(queues, 1)
    if not (isinstance(some, Mapping) and some and all(isinstance(one, kinds) for one in some)):
        raise BadOption("queue", queues, f"{allowed}; or several, in a list or with weights")
    for queue, weight in some.items():
        checked_count(f"the weight of {queue.name}", weight, WEIGHT_MAX)
    return dict(some)


def is_async(handler: Any) -> bool:
    """Whether it is to be awaited, or its `__call__`."""
    return any(map(inspect.iscoroutinefunction, _faces(handler)))


def _faces(handler: Any) -> tuple[Any, Any]:
    """The handler, and its `__call__`, which may be async itself."""
    return handler, getattr(handler, "__call__", None)  # noqa: B004  # it is what is looked at


def checked_handler(handler: Any, *, awaits: bool) -> Callable[..., Any]:
    """What works on items, of the kind that this worker can call.

    >>> checked_handler(print, awaits=True)
    Traceback (most recent call last):
    snowmelt.core.errors.BadOption: handler is <built-in function print>; allowed: an async...
    """
    if not callable(handler):
        raise BadOption("handler", handler, "a function of an item")
    faces = _faces(handler)
    if any(inspect.isgeneratorfunction(one) or inspect.isasyncgenfunction(one) for one in faces):
        raise BadOption("handler", handler, "a function that works, not one that yields")
    if awaits is not is_async(handler):
        allowed = "an async function" if awaits else "no async function"
        other = "snowmelt.Worker takes others" if awaits else "snowmelt.aio.Worker takes those"
        raise BadOption("handler", handler, f"{allowed}; {other}")
    return handler  # type: ignore[no-any-return]  # it is callable


def check_worked(handler: Any, result: object) -> None:
    """Raises `TypeError` for what a handler gave back and did not do."""
    if inspect.isawaitable(result) or inspect.isgenerator(result):
        if inspect.iscoroutine(result):
            result.close()
        raise TypeError(
            f"{handler!r} gave back a {type(result).__name__}, in which nothing was done yet; "
            "snowmelt.aio.Worker takes async functions"
        )
