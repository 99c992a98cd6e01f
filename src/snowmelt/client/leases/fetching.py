"""Getting the bodies that did not come with the answer: each from a node that has a copy.

These nodes, a span's `keepers`, are tried in turn, from one drawn at random, so that not all
readers read from the same disk. One that is silent is given less time while there are others. One
that fails or finds damage is passed over for the items in question; what none can give is `unread`.
Who has them no more is passed over, too: they lie elsewhere by now, or whoever leads hears of it.
Where several have them and none can be reached, they are asked again after a while: one may be
back, and who reads meanwhile what was put later has it before these.
"""

from collections.abc import Iterable
from random import Random
from typing import Final

import msgspec

from snowmelt.client.connection.steps import Query, Sleep, Steps
from snowmelt.core.errors import Closed, OutcomeUnknown, SnowmeltError, Unavailable, Unreachable
from snowmelt.core.interval import Interval
from snowmelt.core.keys import part as keys_of
from snowmelt.core.names import contact
from snowmelt.protocols.queue.api.calls import Fetch, Fetched, ItemRun, NodeAddress, Span

FETCH_SECONDS: Final = 5.0
NEXT_SECONDS: Final = 1.5
"""The same, where another may have them: the lease is short."""
AGAIN: Final = 0.25
"""So many seconds later; and so often for one answer."""
TRIES: Final = 8
_WEIGHT: Final = 4 << 20
CHANCE: Final = Random()


class Fetching:
    """What was got of some spans so far, and what can't be had."""

    def __init__(self, queue: str, bytes_max: int, chance: Random = CHANCE) -> None:
        self.parts: list[ItemRun] = []
        self.unread: list[Interval] = []
        self.away: list[Interval] = []
        """Some of those: another may have them, who was not asked, or did not answer, or is new."""
        self._silent: dict[NodeAddress, None] = {}
        """Who did not answer is asked for nothing more: the lease is short."""
        self._out_of_reach: dict[NodeAddress, None] = {}
        self._tries = TRIES
        self._queue = queue
        self._bytes_max = bytes_max
        self._chance = chance

    def fetch(self, spans: Iterable[Span]) -> Steps[None]:
        for span in spans:
            rest = span
            while rest.start < rest.stop:
                rest = yield from self._some(rest)

    def _some(self, span: Span) -> Steps[Span]:
        """The next items of a span, from the first keeper that has them; returns the rest."""
        damaged = span.stop - span.start
        away = span.away
        passed = self._silent | self._out_of_reach
        places = [one for one in self._in_turn(span.keepers) if one not in passed]
        away = away or len(places) < len(span.keepers)
        for place in places:
            named = msgspec.structs.replace(span, keys=b"") if span.keys else span
            ask = Fetch(self._queue, named, self._bytes_max)
            time = FETCH_SECONDS if place is places[-1] else NEXT_SECONDS
            try:
                told: Fetched = yield Query(ask, time, contact(place.address), _WEIGHT)
            except Closed:  # no other keeper can be asked either
                raise
            except OutcomeUnknown:
                self._silent[place], away = None, True
                continue
            except (Unavailable, Unreachable):
                self._out_of_reach[place], away = None, True
                continue
            except SnowmeltError:
                continue
            if told.parts:
                return self._took(span, told)
            if told.damaged or told.gone:
                damaged, away = min(damaged, told.damaged or told.gone), away or told.gone > 0
        several = len(span.keepers) > 1
        if several and self._tries and any(one in self._out_of_reach for one in span.keepers):
            self._tries -= 1
            self._out_of_reach.clear()
            yield Sleep(AGAIN)
            return span
        stop = span.start + damaged
        self.unread.append(Interval(span.start, stop))
        if away:
            self.away.append(self.unread[-1])
        return span.part(stop, span.stop)

    def _took(self, span: Span, told: Fetched) -> Span:
        at = span.start
        for part in told.parts:
            if span.failures or span.reason:
                part = msgspec.structs.replace(part, failures=span.failures, reason=span.reason)  # noqa: PLW2901
            if span.keys:
                edges = part.start - span.start, part.start - span.start + part.count
                part = msgspec.structs.replace(part, keys=keys_of(span.keys, *edges))  # noqa: PLW2901
            self.parts.append(part)
            at = part.start + part.count
        return span.part(at, span.stop)

    def _in_turn(self, keepers: tuple[NodeAddress, ...]) -> tuple[NodeAddress, ...]:
        if len(keepers) < 2:
            return keepers
        first = self._chance.randrange(len(keepers))
        return keepers[first:] + keepers[:first]
