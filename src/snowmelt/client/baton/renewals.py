"""What a process holds at the nodes of a cluster: what is renewed when, the same for both faces.

A hold is renewed when a fifth of its lease is over, with all others that are due at its node. Where
a node does not answer, each request to it takes its whole time. So what is held elsewhere goes
first. Who follows the plan, and the rules of that: `renewer.py`.
"""

from collections import deque
from collections.abc import Sequence
from typing import Final

import msgspec

from snowmelt.client.baton.steps import BatonHold, keep_many
from snowmelt.client.connection.clients import BorrowedClient
from snowmelt.client.connection.steps import Steps
from snowmelt.core.instant import Duration, Instant, later, milliseconds
from snowmelt.core.names import Address
from snowmelt.protocols.baton.calls import KEEPS_AT_ONCE
from snowmelt.runtime.clock import steady_now

AGAIN: Final = milliseconds(100)
LOOK: Final = milliseconds(500)
"""How often one looks for what is held while nothing is: short turns wake nobody so."""
TOGETHER: Final = 20
"""What is due within such a part of its lease goes along with what is due now."""


class PlannedRenewal(msgspec.Struct, eq=False):
    """A hold, the connection that it came by, and when something is to be done about it."""

    hold: BatonHold
    due: Instant
    borrowed: BorrowedClient | None = None


class RenewalPlan:
    """Which holds are renewed next, and together. Adding one takes no lock."""

    def __init__(self) -> None:
        self._come: deque[PlannedRenewal] = deque()
        self._kept: dict[int, PlannedRenewal] = {}
        self._silent: set[Address] = set()

    def __bool__(self) -> bool:
        return bool(self._come or self._kept)

    @property
    def fresh(self) -> bool:
        """Whether `next` has yet to look at some."""
        return bool(self._come)

    def add(self, hold: BatonHold, borrowed: BorrowedClient | None = None) -> None:
        """Renews this from now on, until it is over."""
        self._come.append(PlannedRenewal(hold, hold.renewal, borrowed))

    def next(self, now: Instant) -> list[PlannedRenewal] | Instant | None:
        """What to renew now, in one call, or when to look again; None for never. O(n)."""
        while self._come:
            one = self._come.popleft()
            self._kept[one.hold.ticket] = one
        self._kept = {ticket: one for ticket, one in self._kept.items() if not one.hold.over}
        self._hurry(now)
        due = [one for one in self._kept.values() if one.due <= now]
        if not due:
            return min((one.due for one in self._kept.values()), default=None)
        first = min(due, key=lambda one: (one.hold.where.address in self._silent, one.due))
        soon = later(now, Duration(first.hold.lease // TOGETHER))
        where = first.hold.where
        beside = [o for o in self._kept.values() if o.due <= soon and o.hold.where == where]
        return sorted(beside, key=lambda one: one.due)[:KEEPS_AT_ONCE]

    def _hurry(self, now: Instant) -> None:
        """Rule 1 of `renewer.py`, for those whose connection has ended."""
        for one in self._kept.values():
            if one.borrowed is not None and one.borrowed.ended:
                one.borrowed.give_back()
                one.borrowed, one.due = None, now

    def renew(self, batch: Sequence[PlannedRenewal]) -> Steps[None]:
        answered = yield from keep_many([one.hold for one in batch])
        address = batch[0].hold.where.address
        (self._silent.discard if answered else self._silent.add)(address)
        for one in batch:
            one.due = one.hold.renewal if answered else later(steady_now(), AGAIN)
            if answered and one.borrowed is not None:
                one.borrowed.give_back()
                one.borrowed = None

    def close(self) -> None:
        """What is held still is over, and the connections that it came by end."""
        left = [*self._kept.values(), *self._come]
        self._kept = {}
        self._come.clear()
        for one in left:
            lose(one.hold)
            if one.borrowed is not None:
                one.borrowed.close()


def lose(hold: BatonHold) -> None:
    hold.lose(f"the cluster was closed while baton {hold.name!r} was held")
