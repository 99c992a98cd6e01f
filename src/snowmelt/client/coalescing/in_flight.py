"""The calls on their way, by keys, and whether more may go before they are back (rules 2 and 8)."""

from collections.abc import Hashable
from itertools import chain

import msgspec

from snowmelt.core.instant import Duration, Instant, later


class InFlightCall(msgspec.Struct, frozen=True):
    since: Instant
    tickets: int


class InFlight:
    """Of one line.

    >>> flight = InFlight(late=Duration(50), crowd=32)
    >>> flight.begin("a key", 1, 20, Instant(0))
    >>> flight.holds_up("a key", 15, Instant(49)), flight.holds_up("a key", 15, Instant(50))
    (True, False)
    >>> flight.holds_up("a key", 16, Instant(49))  # half a crowd
    False
    """

    def __init__(self, late: Duration, crowd: int) -> None:
        self._late = late
        self._crowd = crowd
        self._calls: dict[Hashable, dict[int, InFlightCall]] = {}
        """By keys; the last to go is the last."""
        self._half = 0
        """How many are half of the crowd, when there was one."""

    def __contains__(self, key: Hashable) -> bool:
        return key in self._calls

    def __bool__(self) -> bool:
        return bool(self._calls)

    @property
    def numbers(self) -> set[int]:
        return set(chain.from_iterable(self._calls.values()))

    def begin(self, key: Hashable, number: int, tickets: int, now: Instant) -> None:
        self._calls.setdefault(key, {})[number] = InFlightCall(now, tickets)

    def back(self, key: Hashable, number: int) -> None:
        calls = self._calls.get(key)
        if calls is not None:
            calls.pop(number, None)
            if not calls:
                del self._calls[key]

    def opens(self, key: Hashable) -> Instant:
        """Until when one waits for the calls of this key."""
        calls = self._calls.get(key)
        return Instant(0) if not calls else later(next(reversed(calls.values())).since, self._late)

    def holds_up(self, key: Hashable, count: int, now: Instant) -> bool:
        """Whether so many of this key wait."""
        return now < self.opens(key) and not self._is_half(key, count)

    def cuts(self, count: int) -> int:
        """How many of so many go first, the others at once behind them (rule 8).

        All, but for a crowd when nothing is on its way; one that is a half by itself goes whole.
        """
        if count < self._crowd:
            return count
        half, last = (count + 1) // 2, self._half
        self._half = count if self._calls else half
        return count if self._calls or count <= last else half

    def _is_half(self, key: Hashable, count: int) -> bool:
        """Whether so many may be the second call on its way."""
        first, *more = self._calls[key].values()
        return not more and 2 * count >= max(self._crowd, first.tickets)
