"""What is agreed of a queue at each moment, where that is altered while it runs.

1. An alteration that is asked for may be done from then on. When it is answered, it is so; and what
   was agreed before ends with the answer. Where nobody knows whether it was done, or it may be done
   once more, all of it may be so for ever.
2. A node tells none but what may be so at some moment of the call.
3. What is more than a smaller bound stays: so what is in the queue may shrink to the bound, and not
   grow while it is above it. Where there was room by the smallest bound, nothing is refused.
4. What is leased is leased for no longer than may be agreed when it was asked for; or, if that was
   asked for before, then.
"""

from collections.abc import Callable, Iterator

import msgspec

from snowmelt.core.instant import START, Duration, Instant
from snowmelt_world.judge.values import FOR_EVER, Terms


class Era(msgspec.Struct, eq=False):
    """From when to when it may be so."""

    terms: Terms
    since: Instant = START
    until: Instant = FOR_EVER


class Agreed:
    """Of one queue.

    >>> def longer(terms: Terms) -> Terms:
    ...     return msgspec.structs.replace(terms, lease=Duration(9))
    >>> agreed = Agreed(Terms(Duration(5), 1, 3, 0))
    >>> eras = agreed.altering(Instant(10), longer)
    >>> [one.lease for one in agreed.within(Instant(11), Instant(12))]
    [5, 9]
    >>> agreed.altered(eras, Instant(20))
    >>> [one.lease for one in agreed.within(Instant(21), Instant(22))], agreed.is_sure
    ([9], True)
    """

    def __init__(self, terms: Terms) -> None:
        self._eras = [Era(terms)]
        self._before = dict.fromkeys(("items_max", "bytes_max"), (START, 0))
        """By bounds, when it was told last how much is in the queue, since they were altered."""

    def altering(self, at: Instant, change: Callable[[Terms], Terms]) -> list[Era]:
        """From now on it may be so."""
        eras = [Era(change(one.terms), at) for one in self._eras if one.until == FOR_EVER]
        self._eras += eras
        self._before.clear()
        return eras

    def altered(self, eras: list[Era], at: Instant) -> None:
        """It is so."""
        for one in self._eras:
            if one not in eras and one.until == FOR_EVER:
                one.until = at
        self._before.clear()

    def refused(self, eras: list[Era]) -> None:
        """It never was so."""
        self._eras = [one for one in self._eras if one not in eras]

    def lapsed(self) -> None:
        """What was agreed at any time may be so again."""
        for one in self._eras:
            one.until = FOR_EVER
        self._before.clear()

    @property
    def is_sure(self) -> bool:
        """Whether it is known what is agreed."""
        return sum(one.until == FOR_EVER for one in self._eras) == 1

    @property
    def is_altered(self) -> bool:
        """Whether it ever was, perhaps."""
        return len(self._eras) > 1

    def within(self, called: Instant, said: Instant) -> Iterator[Terms]:
        """What may be agreed at some moment between these (rule 1)."""
        return (one.terms for one in self._eras if one.since <= said and called <= one.until)

    def may_be(self, told: Terms, called: Instant, said: Instant) -> bool:
        """Rule 2. That more must be safe holds only when more copies are made."""
        few = {one.copies_needed for one in self.within(START, said)}
        terms = [msgspec.structs.replace(one, copies_needed=0) for one in self.within(called, said)]
        return told.copies_needed in few and (
            msgspec.structs.replace(told, copies_needed=0) in terms
        )

    @property
    def least_copies(self) -> int:
        """So many there are to be, at least."""
        return min(one.terms.replicas for one in self._eras if one.until == FOR_EVER)

    def least_items(self, called: Instant, at: Instant) -> int:
        """The smallest bound in items; 0 for none, or where there may be one in bytes."""
        terms = list(self.within(called, at))
        if any(one.bytes_max for one in terms):
            return 0
        return min([one.items_max for one in terms if one.items_max], default=0)

    def least_deliveries(self) -> int:
        return min(one.terms.deliveries_max for one in self._eras)

    def longest_lease(self, called: Instant, said: Instant) -> Duration:
        """Rule 4."""
        return max(one.lease for one in self.within(called, said))

    def most(self, bound: str, told: int, called: Instant, said: Instant) -> int:
        """How much may be in it, of which so much is told; 0 for any amount (rule 3)."""
        bounds = {getattr(one, bound) for one in self.within(called, said)}
        at, before = self._before.get(bound, (FOR_EVER, 0))
        if len(bounds) > 1 or 0 in bounds:
            return 0
        self._before[bound] = said, told
        return max(*bounds, before) if at <= called else 0
