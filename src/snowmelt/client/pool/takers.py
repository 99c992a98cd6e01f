"""Who takes objects from a loop: a thread, or a task.

Numbers of threads and addresses of tasks are used again as soon as one has ended, and who comes
next is another. A `Taker` is equal to itself alone, and is gone when its thread or task has ended.
"""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final
from weakref import WeakKeyDictionary


class Taker:
    """One thread or one task, while it runs."""

    __slots__ = ("__weakref__",)


_THREADS: Final = threading.local()
_simulated: Taker | None = None
_TASKS: Final[WeakKeyDictionary[asyncio.Task[object], Taker]] = WeakKeyDictionary()


def this_thread() -> Taker:
    """The same for all that this thread does, and no other's.

    >>> this_thread() is this_thread()
    True
    """
    try:
        taker: Taker = _THREADS.taker
    except AttributeError:
        taker = _THREADS.taker = Taker()
    return taker


def this_taker() -> Taker:
    """The same for all that this task does, and no other's; the thread's where no task runs."""
    if _simulated is not None:
        return _simulated
    try:
        task = asyncio.current_task()
    except RuntimeError:
        task = None
    if task is None:
        return this_thread()
    taker = _TASKS.get(task)
    if taker is None:
        taker = _TASKS[task] = Taker()
        task.add_done_callback(_ended)
    return taker


@contextmanager
def taking(taker: Taker) -> Iterator[None]:
    """Meanwhile this one takes: for tasks that live in a simulated world.

    >>> one = Taker()
    >>> with taking(one):
    ...     this_taker() is one
    True
    """
    global _simulated  # noqa: PLW0603 (a process runs one task at a time)
    before, _simulated = _simulated, taker
    try:
        yield
    finally:
        _simulated = before


def _ended(task: asyncio.Task[object]) -> None:
    _TASKS.pop(task, None)  # whoever started it may keep it for long
