"""Which task this is, as `get_ident` says which thread."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

_simulated = 0


def this_task() -> int:
    """The task that runs, as a number; 0 where no event loop does."""
    try:
        return id(asyncio.current_task())
    except RuntimeError:
        return _simulated


@contextmanager
def known_as(number: int) -> Iterator[None]:
    """Meanwhile this is the task of that number: for those that live in a simulated world.

    >>> with known_as(7):
    ...     this_task()
    7
    """
    global _simulated  # noqa: PLW0603 (a process runs one task at a time)
    before, _simulated = _simulated, number
    try:
        yield
    finally:
        _simulated = before
