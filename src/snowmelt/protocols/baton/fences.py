"""From where the fences of new batons begin, as the root keeps it on its disk: rule 12."""

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from snowmelt.core.instant import SECOND, Instant
from snowmelt.core.node import Effect, Note, Persist, Started
from snowmelt.core.record import Write

COUNT_BITS: Final = 22
"""A fence is a term and a count. Terms are seconds, so a fence has 53 bits until 2093, which even
programs that know no integers compare well; and nobody hands on four million times a second."""
NOTED_BITS: Final = 20
"""So often, and oftener than counts overflow, the root is told how far a baton has come."""
BEGINNING: Final = 1_735_689_600 * SECOND
"""The first of January 2025."""
ANEW: Final = 24 * 3600
"""So many seconds ahead of its clock a root begins whose disk was lost: another's may go faster."""
KEY: Final = b"/fences"
_KEYS: Final = (KEY, KEY + b"/copy")


def founded_anew(wall: int) -> tuple[Write, ...]:
    """What the disk of a new root begins with, by the time of day, when the old one's is lost."""
    return _written((wall - BEGINNING) // SECOND + ANEW)


def _written(term: int) -> tuple[Write, ...]:
    value = msgspec.msgpack.encode(term)
    return tuple(Write(key, value) for key in _KEYS)


class Fences:
    """The term in which new batons are made: another for every view, on the disk before its use.

    >>> from itertools import count
    >>> fences = Fences(count())
    >>> fences.started(Started((), (), BEGINNING + 70 * SECOND), Instant(0))
    []
    >>> [persist] = fences.entered(Instant(5 * SECOND)); fences.first is None
    True
    >>> _ = fences.settled(persist.ticket); fences.first == 75 << COUNT_BITS
    True
    """

    def __init__(self, tickets: Iterator[int]) -> None:
        self._tickets = tickets
        self._wall_minus_now = 0
        self._safe = 0
        self._wanted = 0
        self._writing: dict[int, int] = {}

    @property
    def first(self) -> int | None:
        """Fences of new batons are above this; None while the disk does not know it yet."""
        return self._safe << COUNT_BITS if self._safe == self._wanted else None

    def started(self, start: Started, now: Instant) -> list[Effect[Any]]:
        """What the disk holds, and the time of day."""
        self._wall_minus_now = start.wall - now
        for record in start.records:
            if record.key in _KEYS:
                term = msgspec.msgpack.decode(record.value, type=int)
                self._safe = self._wanted = max(self._safe, term)
        if not self._safe and any(key in _KEYS for key in start.damaged):
            text = "how far fences are can't be read on this disk: they go on by the time of day"
            return [Note(text)]
        return []

    def entered(self, now: Instant) -> list[Effect[Any]]:
        """A new view begins; the time of day counts, too, for the disk may be an older copy."""
        seconds = (self._wall_minus_now + now - BEGINNING) // SECOND
        return self._raise(max(self._wanted + 1, seconds))

    def saw(self, fence: int) -> list[Effect[Any]]:
        """A baton has come so far."""
        term = fence >> COUNT_BITS
        return self._raise(term + 1) if term > self._wanted else []

    def again(self) -> list[Effect[Any]]:
        """Writes what the disk would not take."""
        return [] if self._writing else self._raise(self._wanted)

    def settled(self, ticket: int, failure: str = "") -> bool:
        """Whether this was its own; then the term is safe, or it is not."""
        term = self._writing.pop(ticket, None)
        if term is not None and not failure:
            self._safe = max(self._safe, term)
        return term is not None

    def _raise(self, term: int) -> list[Effect[Any]]:
        self._wanted = term
        ticket = next(self._tickets)
        self._writing[ticket] = term
        return [Persist(ticket, _written(term))]
