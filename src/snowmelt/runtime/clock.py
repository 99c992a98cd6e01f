"""The one clock of a process, as machines read it and as event loops and sockets wait by it."""

from collections.abc import Callable
from time import monotonic_ns
from typing import Final, cast

from snowmelt.core.instant import SECOND, Instant

# `Instant` is a name for the checker; calling it would cost as much as reading the clock.
steady_now: Final = cast("Callable[[], Instant]", monotonic_ns)


def seconds_until(at: Instant) -> float:
    """How long to wait for an instant; nothing when it has come.

    >>> seconds_until(Instant(0))
    0.0
    """
    return max(0, at - steady_now()) / SECOND
