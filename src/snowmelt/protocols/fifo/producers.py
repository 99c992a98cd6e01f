"""Who put what before: the memory that keeps a retry from being a second item.

A producer numbers its puts. The numbers that were admitted are an interval set, which stays one
interval as long as they come without gaps; of the last few it is remembered where they went, so
that a retry is told the same. A producer that named itself is remembered for ever, any other for
a day after its last put: nobody's patience is longer.
"""

from typing import Final

import msgspec

from snowmelt.core.interval import Interval, IntervalSet
from snowmelt.protocols.fifo.limits import LIMITS, Limits

UNNAMED_PREFIX: Final = "c-"
"""How the names that clients make up for themselves begin; no person's choice may."""
FORGET_AFTER: Final = 86_400 * 10**9
NOT_REMEMBERED: Final = Interval(0, 0)


class Producer(msgspec.Struct):
    """What one producer put."""

    numbers: IntervalSet
    recent: dict[int, Interval]
    seen: int
    """When it last put something, by the wall clock."""


class Kept(msgspec.Struct, frozen=True, array_like=True):
    """A producer as it stands in a record."""

    numbers: tuple[Interval, ...]
    recent: dict[int, Interval]
    seen: int


class Producers:
    """All producers of one queue.

    >>> producers = Producers()
    >>> producers.note("loader", 7, Interval(20, 30), wall=0)
    []
    >>> producers.earlier("loader", 7), producers.earlier("loader", 8)
    (Interval(start=20, stop=30), None)
    """

    def __init__(self, limits: Limits = LIMITS) -> None:
        self._limits = limits
        self._known: dict[str, Producer] = {}  # the one that put last stands last

    def __len__(self) -> int:
        return len(self._known)

    def earlier(self, name: str, number: int) -> Interval | None:
        """Where this put went when it was admitted before; `NOT_REMEMBERED` when long ago."""
        known = self._known.get(name)
        if known is None or number not in known.numbers:
            return None
        return known.recent.get(number, NOT_REMEMBERED)

    def note(self, name: str, number: int, where: Interval, wall: int) -> list[str]:
        """A put was admitted; returns the producers that are forgotten for it."""
        known = self._known.pop(name, None) or Producer(IntervalSet(), {}, wall)
        self._known[name] = known
        known.numbers.add(Interval(number, number + 1))
        known.recent[number] = where
        known.seen = wall
        if len(known.recent) > self._limits.producer_recent:
            del known.recent[next(iter(known.recent))]
        if (
            known.numbers.pieces > self._limits.producer_gaps
        ):  # give up telling apart what is oldest
            first, second, *_ = known.numbers
            known.numbers.add(Interval(first.start, second.stop))
        return self._forget(wall)

    def unnote(self, name: str, number: int) -> None:
        """That put came to nothing after all."""
        known = self._known[name]
        known.numbers.remove(Interval(number, number + 1))
        known.recent.pop(number, None)

    def names(self) -> list[str]:
        """All of them."""
        return list(self._known)

    def record(self, name: str) -> bytes | None:
        """As it is written down."""
        known = self._known.get(name)
        if known is None:
            return None
        kept = Kept(tuple(known.numbers), known.recent, known.seen)
        return msgspec.msgpack.encode(kept)

    def restore(self, name: str, value: bytes) -> None:
        """From what was written down."""
        kept = msgspec.msgpack.decode(value, type=Kept)
        self._known[name] = Producer(IntervalSet(kept.numbers), dict(kept.recent), kept.seen)

    def _forget(self, wall: int) -> list[str]:
        """Looks at the one that is silent for the longest time; one look for each put is enough."""
        name = next(iter(self._known))
        if name.startswith(UNNAMED_PREFIX) and self._known[name].seen + FORGET_AFTER < wall:
            del self._known[name]
            return [name]
        return []
