"""Time as machines see it: whole nanoseconds on a clock that is handed in.

An `Instant` is a reading of one node's own steady clock. It means nothing on another node and
nothing after a restart, so it is never sent and never stored; a `Duration` may be both.
"""

from typing import Annotated, Final, NewType

import msgspec

Instant = NewType("Instant", int)
Duration = NewType("Duration", int)
Length = Annotated[Duration, msgspec.Meta(ge=0, le=1 << 62)]
"""One that comes from outside."""

MICROSECOND: Final = Duration(1_000)
MILLISECOND: Final = Duration(1_000_000)
SECOND: Final = Duration(1_000_000_000)

START: Final = Instant(0)


def seconds(count: float) -> Duration:
    """A duration from seconds, rounded to the nanosecond.

    >>> seconds(1.5)
    1500000000
    """
    return Duration(round(count * SECOND))


def milliseconds(count: float) -> Duration:
    """A duration from milliseconds, rounded to the nanosecond.

    >>> milliseconds(3)
    3000000
    """
    return Duration(round(count * MILLISECOND))


def later(instant: Instant, by: Duration) -> Instant:
    """The instant that lies `by` after this one.

    >>> later(Instant(5), by=Duration(10))
    15
    """
    return instant + by  # type: ignore[return-value]  # calling `Instant` costs as much again


def since(earlier: Instant, now: Instant) -> Duration:
    """How long ago `earlier` was.

    >>> since(Instant(5), now=Instant(12))
    7
    """
    return Duration(now - earlier)


def spelled(span: int) -> str:
    """A duration or instant as a person reads it.

    >>> spelled(seconds(2.5)), spelled(milliseconds(0.25)), spelled(0)
    ('2.5s', '250us', '0s')
    """
    for unit, name in ((SECOND, "s"), (MILLISECOND, "ms"), (MICROSECOND, "us")):
        if abs(span) >= unit:
            return f"{round(span / unit, 3):g}{name}"
    return f"{span}ns" if span else "0s"
