"""One direction between two nodes: it keeps the order, and takes at most half a round trip."""

from collections import deque
from enum import Enum
from random import Random
from typing import Any, Final

from snowmelt.core.instant import Duration, Instant
from snowmelt_lab.arrow.options import ROUND_TRIP

TRANSIT: Final = Duration(ROUND_TRIP // 2)
"""The longest that a message takes in one direction."""


class Pace(Enum):
    """How long a link takes: some are always slow, since the bounds are about the slowest."""

    LONGEST = "longest"
    SHORT = "short"
    ANY = "any"
    EITHER = "either"
    """Very long or very short."""


class Link:
    """What is on its way in one direction.

    >>> link = Link(Pace.LONGEST)
    >>> link.send("one", Instant(0), Random(1)), link.arrive()
    (500000, 'one')
    """

    __slots__ = ("_last", "_pace", "messages")

    def __init__(self, pace: Pace) -> None:
        self.messages: deque[Any] = deque()
        """The next to arrive first."""
        self._pace = pace
        self._last = Instant(0)

    def send(self, message: Any, now: Instant, chance: Random) -> Instant:
        """When it will arrive; never before what was sent before it."""
        return self.stray(message, Instant(now + self._time(chance)))

    def stray(self, message: Any, at: Instant) -> Instant:
        self._last = max(self._last, at)
        self.messages.append(message)
        return self._last

    def arrive(self) -> Any:
        return self.messages.popleft()

    def _time(self, chance: Random) -> int:
        match self._pace:
            case Pace.LONGEST:
                return TRANSIT
            case Pace.SHORT:
                return chance.randint(1, TRANSIT // 20)
            case Pace.ANY:
                return chance.randint(1, TRANSIT)
            case Pace.EITHER:
                return TRANSIT if chance.random() < 0.5 else chance.randint(1, TRANSIT // 20)
