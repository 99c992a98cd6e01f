"""A node's own steady clock: never backwards, but not quite the world's. And the date."""

from typing import Final
from zlib import crc32

from snowmelt.core.instant import SECOND, START, Duration, Instant

DAWN: Final = 1_767_225_600 * SECOND
"""What wall clocks show when a world begins: the first of January 2026."""

DAY: Final = 86_400 * SECOND
_PARTS: Final = 1_000_000


def wall(world: Instant) -> int:
    """What a wall clock shows at a moment of the world when it shows the truth.

    Most do: they are put right from outside, by the same hand on every machine. A fault sets that
    of one node to something else. The steady one drifts, and leaps in a sleep.

    >>> wall(Instant(5)) - DAWN
    5
    """
    return DAWN + world


def running_since(name: str) -> Duration:
    """What the steady clock of a machine of this name shows when a world begins.

    It counts from when the machine was started, up to a year before: a node that takes the clock's
    zero for its own beginning is to be found out.

    >>> running_since("n1") // DAY, running_since("n2") // DAY
    (147, 223)
    """
    return Duration((1 + crc32(name.encode()) % 365) * DAY)


class Clock:
    """Runs at its own rate from its own zero.

    >>> clock = Clock()
    >>> clock.skew(Instant(0), ppm=100_000)
    >>> clock.read(Instant(1_000)), clock.when(Instant(1_100))
    (1100, 1000)
    """

    __slots__ = ("_own", "_ppm", "_world")

    def __init__(self, shows: int = 0) -> None:
        self._world = START  # a moment of the world, and what this clock showed until then
        self._own = shows
        self._ppm = 0

    def read(self, world: Instant) -> Instant:
        world = max(world, self._world)
        if not self._ppm:
            return Instant(self._own + world - self._world)
        return Instant(self._own + (world - self._world) * (_PARTS + self._ppm) // _PARTS)

    def when(self, own: Instant) -> Instant:
        """The first moment of the world at which it shows `own`."""
        if not self._ppm:
            return Instant(self._world + own - self._own)
        return Instant(self._world - (-(own - self._own) * _PARTS // (_PARTS + self._ppm)))

    def skew(self, world: Instant, ppm: int) -> None:
        """From now on it runs so many parts per million fast (or slow)."""
        self._own, self._world = self.read(world), max(world, self._world)
        self._ppm = ppm

    def jump(self, world: Instant, by: Duration) -> None:
        self._own, self._world = self.read(world) + by, max(world, self._world)

    def stop(self, world: Instant, until: Instant) -> None:
        """It stands still until then.

        >>> clock = Clock()
        >>> clock.stop(Instant(10), Instant(50))
        >>> clock.read(Instant(30)), clock.read(Instant(55)), clock.when(Instant(12))
        (10, 15, 52)
        """
        self._own, self._world = self.read(world), max(until, self._world)
