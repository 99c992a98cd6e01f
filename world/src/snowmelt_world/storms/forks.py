"""A child that a process forks in the middle of its work, and what it may not do there.

The child has everything that its parent had, and each thing must refuse it in a sentence that says
why; or work as if it were made there. It then ends at once, or as a program ends: all `with` are
left, and collectors run. Its parent goes on, and counts on nothing having happened.
"""

import os
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from random import Random
from typing import Any, Final

from snowmelt.core.errors import BatonLost, LeaseLost, SnowmeltError

CHILD_SECONDS: Final = 60
"""A child that lives longer is killed, and that is wrong; one whose parent was killed ends too."""
SAYS_WHY: Final = "fork"

Work = Callable[[], Iterable[str]]
"""What a child does; a sentence for all that is wrong."""


class WrongInChild(Exception):
    """A child did what it must not, or could not do what it may."""


class Forks:
    """A process' forks, every so many seconds on average; with 0 none."""

    def __init__(self, every: float, chance: Random) -> None:
        self._every = every
        self._chance = chance
        self._following = self._drawn()

    def now_and_then(self, work: Work) -> bool:
        """Forks, if it is time; whether it did."""
        if time.monotonic() < self._following:
            return False
        fork(work, self._chance)
        self._following = self._drawn()
        return True

    def _drawn(self) -> float:
        if not self._every:
            return float("inf")
        return time.monotonic() + self._chance.expovariate(1 / self._every)


def fork(work: Work, chance: Random) -> None:
    """Waits for a child that does this; raises `WrongInChild`."""
    leave = chance.choice((os._exit, sys.exit))
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # that there are threads is the point
        child = os.fork()
    if not child:
        os.close(reading)
        _live(work, writing, leave)
    os.close(writing)
    with os.fdopen(reading, "rb") as file:
        told = file.read().decode()
    _, status = os.waitpid(child, 0)
    if told or status:
        how = os.waitstatus_to_exitcode(status)
        raise WrongInChild(f"a child that left by {leave.__name__} ended with {how}: {told}")


def allowed(**calls: Callable[[], Any]) -> Iterator[str]:
    """Which of these were not refused because of the fork."""
    for name, call in calls.items():
        try:
            call()
        except SnowmeltError as error:
            over = isinstance(error, BatonLost | LeaseLost)  # before the fork already
            if SAYS_WHY not in str(error) and not over:
                yield f"{name} was refused with {error!r}"
        else:
            yield f"{name} was not refused"


def _live(work: Work, writing: int, leave: Callable[[int], Any]) -> None:
    signal.alarm(CHILD_SECONDS)
    try:
        told = "; ".join(work())
    except BaseException as error:
        told = repr(error)
    try:
        os.write(writing, told.encode())
        os.close(writing)
    except BrokenPipeError:  # its parent was killed meanwhile
        os._exit(1)
    leave(0)
