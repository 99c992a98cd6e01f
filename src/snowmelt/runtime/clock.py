"""The clocks of a process: the steady one that machines and sockets wait by, and the wall's.

The steady one goes on while a machine is suspended, as that of everybody else does: a lease that
ended while a laptop's lid was closed is over when it is opened.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from time import time_ns
from typing import Final, cast

from snowmelt.core.instant import SECOND, Instant

STEADY: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""On Linux `time.monotonic` stops in suspend and this does not; on a Mac likewise."""
# `Instant` is a name for the checker; calling it would cost as much as reading the clock.
real_now: Final = cast("Callable[[], Instant]", partial(time.clock_gettime_ns, STEADY))
"""The same as `steady_now`, and sooner: for what waits for sockets, and never lives in a world."""
_read = real_now


def steady_now() -> Instant:
    return _read()


@contextmanager
def shown(now: Instant) -> Iterator[None]:
    """Meanwhile the steady clock shows this: for steps that live in a simulated world.

    >>> with shown(Instant(7)):
    ...     steady_now()
    7
    """
    global _read  # noqa: PLW0603 (a process has one clock)
    before, _read = _read, lambda: now
    try:
        yield
    finally:
        _read = before


def wall_now() -> int:
    """Nanoseconds since 1970 by the machine's clock; it may be set, so nothing waits by it.

    >>> wall_now() > 1_700_000_000 * SECOND
    True
    """
    return time_ns()


def seconds_until(at: Instant) -> float:
    """How long to wait for an instant; nothing when it has come.

    >>> seconds_until(Instant(0))
    0.0
    """
    left = at - _read()
    return left / SECOND if left > 0 else 0.0
