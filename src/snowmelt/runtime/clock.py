"""The clocks of a process: the steady one that machines and sockets wait by, and the wall's."""

from collections.abc import Callable
from time import monotonic_ns, time_ns
from typing import Final, cast

from snowmelt.core.instant import SECOND, Instant

# `Instant` is a name for the checker; calling it would cost as much as reading the clock.
steady_now: Final = cast("Callable[[], Instant]", monotonic_ns)


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
    return max(0, at - steady_now()) / SECOND
