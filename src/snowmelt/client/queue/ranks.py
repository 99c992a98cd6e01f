"""Priorities as a person gives them, and the ranks that nodes know of: the least rank is first.

A queue with so many priorities has as many ranks. One of any priorities has keys of 64 bits. Where
the largest is the most urgent, ranks count from the other end.
"""

import math
from collections.abc import Sequence
from numbers import Integral, Real
from typing import Final, cast

import msgspec

from snowmelt.core.errors import BadOption
from snowmelt.core.keys import KEY_MAX, KEY_MIN, of_float, to_float
from snowmelt.protocols.queue.api.settings import ANY, QueueSettings

RANK_HIGHEST: Final = 1 << 40
_INT: Final = {int}


class Ranks(msgspec.Struct, frozen=True):
    """What the priorities of one queue are.

    >>> ten = Ranks("jobs", 10, largest_first=True)
    >>> ten.rank(9), ten.told(0), ten.ranks([9, 8, 0])
    (0, 9, [0, 1, 9])
    >>> ten.rank(10)
    Traceback (most recent call last):
    snowmelt.core.errors.BadOption: priority is 10; allowed: 0 to 9 in jobs
    >>> least = Ranks("jobs", floats=True)
    >>> least.rank(0.5) > least.rank(0.25), least.told(least.rank(0.25))
    (True, 0.25)
    """

    queue: str
    priorities: int = ANY
    floats: bool = False
    largest_first: bool = False

    @classmethod
    def of(cls, queue: str, settings: QueueSettings) -> "Ranks":
        """Those of a queue with these settings."""
        return cls(queue, settings.priorities, settings.floats, settings.largest_first)

    @property
    def settings(self) -> QueueSettings:
        """What a queue says that has these."""
        return QueueSettings(
            priorities=self.priorities, floats=self.floats, largest_first=self.largest_first
        )

    @property
    def keyed(self) -> bool:
        """Whether each item has a key."""
        return self.priorities == ANY

    @property
    def plain(self) -> bool:
        """Whether a priority is the upper bits of a position, as it is."""
        return not (self.keyed or self.largest_first)

    def rank(self, priority: object) -> int:
        """What it is to nodes; raises `BadOption` where this queue has no such priority."""
        number = checked_priority(priority)
        if self.floats:
            number = of_float(number)
        elif type(number) is not int:
            raise BadOption("priority", priority, self._allowed)
        if not self.keyed and not 0 <= number < self.priorities:
            raise BadOption("priority", priority, self._allowed)
        return self._turned(number)

    def ranks(self, priorities: Sequence[object]) -> Sequence[int]:
        """The rank of each of several priorities, in their order."""
        if not self.floats and set(map(type, priorities)) == _INT:  # as mostly
            numbers = cast("Sequence[int]", priorities)
            lowest, highest = (KEY_MIN, KEY_MAX) if self.keyed else (0, self.priorities - 1)
            if lowest <= min(numbers) and max(numbers) <= highest:
                return [self._turned(one) for one in numbers] if self.largest_first else numbers
        return [self.rank(one) for one in priorities]

    def told(self, rank: int) -> int | float:
        """The priority that a person gave it."""
        number = self._turned(rank)
        return to_float(number) if self.floats else number

    def _turned(self, rank: int) -> int:
        """Its own inverse: of any priorities -1 stands for how many there are, less one."""
        return self.priorities - 1 - rank if self.largest_first else rank

    @property
    def _allowed(self) -> str:
        if self.keyed:
            return f"a whole number in {self.queue}; make it with priorities=float for others"
        if self.priorities == 1:
            return f"0, since {self.queue} is a fifo"
        return f"0 to {self.priorities - 1} in {self.queue}"


def checked_priority(priority: object) -> int | float:
    """A priority that some queue may have; raises `BadOption`.

    >>> checked_priority(7), checked_priority(0.5)
    (7, 0.5)
    """
    match priority:
        case bool():
            pass
        case Integral() if KEY_MIN <= (number := int(priority)) <= KEY_MAX:
            return number
        case Integral():
            pass
        case Real() if not math.isnan(fraction := float(priority)):
            return fraction
    allowed = "a whole number of 64 bits, or (only with priorities=float) a float"
    raise BadOption("priority", priority, allowed)


def checked_share(share: object) -> None:
    """Which part of all; raises `BadOption`."""
    if type(share) not in (int, float) or not 0 <= share <= 1:  # type: ignore[operator]
        raise BadOption("share", share, "0 to 1")
