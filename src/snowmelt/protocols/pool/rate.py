"""How fast a producer makes objects while it is not held up, and a consumer takes them (rule 11).

What leaves a producer says little: one whose buffers are full makes no more than is taken. So only
the time counts in which a program makes objects: from the answer to its last put, or from being
told that there is room, to its next put.
"""

from typing import Final

from snowmelt.core.instant import SECOND, Instant, milliseconds, seconds

REMEMBERED: Final = 24
"""After so many objects, what is known of the time before counts half."""
_KEEP: Final = 0.5 ** (1 / REMEMBERED)
FADES: Final = seconds(2)
"""After so long, what is known of what was taken before counts half."""
QUICK: Final = milliseconds(2)


class Rate:
    """A mean over the latest objects; what was long ago fades.

    Nobody knows how long the first took, unless its program asked for room before.

    >>> rate = Rate()
    >>> for number in range(1, 101):
    ...     rate.made(1, Instant(number * SECOND // 10))
    >>> round(rate.now(Instant(10 * SECOND)), 6)
    10.0
    """

    def __init__(self) -> None:
        self._count = 0.0
        self._time = 0.0
        self._free: Instant | None = None
        """Since when the program is free to make objects; None while that is not known."""
        self.quick = False
        """Whether the last was made at once."""

    def made(self, count: int, now: Instant) -> None:
        self.quick = self._free is not None and now - self._free < QUICK
        if self._free is not None:
            keep = _KEEP ** min(count, 1_000)
            self._count = self._count * keep + count
            self._time = self._time * keep + max(0, now - self._free)
        self._free = now

    def freed(self, now: Instant) -> None:
        """Nothing holds the program up from now on."""
        self._free = now

    def now(self, now: Instant, *, held_up: bool = False) -> float:
        """Objects a second; 0 while none was made. One that stopped making is seen to slow down."""
        idle = 0 if held_up or self._free is None else max(0, now - self._free)
        # The time that runs counts once it is longer than usual: it is no whole object yet.
        usual = self._time / self._count if self._count else 0.0
        time = self._time + max(0.0, idle - usual)
        return self._count * SECOND / time if time > 0 else 0.0


class TakeRate:
    """How many objects a second are taken, from a count that is looked at now and then.

    >>> taking = TakeRate()
    >>> for second in range(30):
    ...     rate = taking.seen(5 * second, Instant(second * SECOND))
    >>> round(rate, 2)
    5.0
    """

    def __init__(self) -> None:
        self.rate = 0.0
        self._count = 0
        self._at: Instant | None = None

    def seen(self, count: int, now: Instant) -> float:
        """The count is this by now; objects a second."""
        span = 0 if self._at is None else now - self._at
        if self._at is None or span > 0:
            taken, self._count, self._at = count - self._count, count, now
        if span > 0:
            keep = 0.5 ** (span / FADES)
            self.rate = self.rate * keep + (1 - keep) * taken * SECOND / span
        return self.rate
