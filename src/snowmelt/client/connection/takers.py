"""Who runs: a thread, or a task.

Numbers of threads and addresses of tasks are used again as soon as one has ended, and who comes
next is another. A `Taker` is equal to itself alone, and is gone when its thread or task has ended.
"""

import asyncio
import threading
from typing import Final
from weakref import WeakKeyDictionary


class Taker:
    """One thread or one task, while it runs; of one in a simulated world, its number."""

    __slots__ = ("__weakref__", "number")

    def __init__(self, number: int = 0) -> None:
        self.number = number


THREADS: Final = threading.local()
"""Of each thread its `taker`, once somebody has asked for it."""
_TASKS: Final[WeakKeyDictionary[asyncio.Task[object], Taker]] = WeakKeyDictionary()


def this_task() -> int:
    """The task that runs, as a number; its thread's, 0, where no event loop does."""
    try:
        return id(asyncio.current_task())
    except RuntimeError:
        return this_thread().number


def this_thread() -> Taker:
    """The same for all that this thread does, and no other's.

    >>> this_thread() is this_thread()
    True
    """
    try:
        taker: Taker = THREADS.taker
    except AttributeError:
        taker = THREADS.taker = Taker()
    return taker


def this_taker() -> Taker:
    """The same for all that this task does, and no other's; the thread's where no task runs."""
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


def _ended(task: asyncio.Task[object]) -> None:
    _TASKS.pop(task, None)  # whoever started it may keep it for long
