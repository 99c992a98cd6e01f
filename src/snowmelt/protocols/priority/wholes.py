"""Leases of many stretches that are kept as a whole, from when they begin until somebody looks.

What a get of any priorities has lies in many stretches, some of each put. To enter each of them in
a row, as leased and then as gone, is most of the work of such a get, and mostly nobody looks: all
of it is acknowledged, at once, under its token.

Rules
-----
1. What is here, and of which nothing was said, is leased as a *whole*: that is one bundle, written
   as any is (`bundles.py`), of which the row's pieces know nothing yet.
2. When all of it is acknowledged at once it is gone as a whole: its record is written again, and
   says so. Whatever else becomes of it finds it entered (rule 3).
3. Who looks at a row finds everything in it: all that is kept as a whole is entered before
   (`Shelf.rows`). Only what can't be of a whole may be looked at without that.
4. What has ended is entered together: stretches of one put, got one after the other, are one piece
   by then. It is so when there are `FOLDED` of them, or they weigh `WEIGHT`, since the bodies are
   erased no sooner.
"""

from collections.abc import Iterable
from itertools import chain
from typing import Final

import msgspec

from snowmelt.core.pieces import Edges
from snowmelt.protocols.priority.batches import Shares
from snowmelt.protocols.priority.bundles import FOLDED, Bundle
from snowmelt.protocols.priority.rows import GOT, Row, Where
from snowmelt.protocols.priority.standing import ENDED, Standing

WEIGHT: Final = 4 << 20


class Whole(msgspec.Struct, eq=False):
    bundle: Bundle
    edges: Edges
    lots: list[Where]
    """Where each stretch lies."""
    weight: int = WEIGHT
    """Of the bodies, once that is known."""


class Wholes:
    """Those of one row.

    >>> from snowmelt.core.interval import Interval
    >>> from snowmelt.protocols.priority.batches import Share
    >>> from snowmelt.protocols.priority.settings import State
    >>> row = Row(0, {})
    >>> for at in range(8):
    ...     row.here.put(Interval(4 * at, 4 * at + 4), Where(at, 0))
    >>> wholes = Wholes(row)
    >>> some = (Share(0, tuple([Interval(4 * at, 4 * at + 2) for at in range(8)])),)
    >>> wholes.lease(some, Standing(1, 1, State.LEASED, 7)), row.bundles.pieces.count
    (True, 0)
    >>> wholes.end(6, some), wholes.end(7, some).turn, row.gone.count
    (None, 1, 0)
    >>> len(wholes.entered()), row.gone.count, row.here.total, wholes.open
    (8, 8, 16, False)
    """

    def __init__(self, row: Row) -> None:
        self._row = row
        self.open = False
        """Whether there may be any that are not entered."""
        self._leased: dict[int, Whole] = {}
        """By where they begin."""
        self._gone: list[Whole] = []
        self._stretches = self._weight = 0
        """Of what is gone."""
        self._stop = 0
        """All of them stand before this position."""

    @property
    def full(self) -> bool:
        """Whether what has ended is to be entered (rule 4)."""
        return self._stretches >= FOLDED or self._weight >= WEIGHT

    def touch(self, shares: Shares) -> bool:
        """Whether some of these may be in one; mostly what comes stands behind all of them."""
        stop = self._stop
        return any(one.start < stop for share in shares for one in share.intervals)

    def of(self, shares: Shares) -> Whole | None:
        """The lease of just these."""
        if not self.open or len(shares) != 1:
            return None
        intervals = shares[0].intervals
        whole = self._leased.get(intervals[0].start) if intervals else None
        return whole if whole is not None and whole.bundle.intervals == intervals else None

    def without(self, several: Iterable[Shares]) -> Shares:
        """What is in none of these: nothing of them is on its way to anybody, or gone."""
        apart = [shares for shares in several if not self.open or self.of(shares) is None]
        return tuple([share for shares in apart for share in shares])

    def lease(self, shares: Shares, standing: Standing) -> bool:
        """Of what is in no other whole; whether it can be (rule 1)."""
        if len(shares) != 1:
            return False
        row, intervals = self._row, shares[0].intervals
        edges = row.many(intervals)
        lots = None if edges is None else row.here.owners(edges)
        if edges is None or lots is None:
            return False
        if not (row.standing.vacant(edges) and row.bundles.pieces.vacant(edges)):
            return False
        bundle = row.bundles.begin(intervals, edges, standing)
        self._leased[intervals[0].start] = Whole(bundle, edges, lots)
        self._stop = max(self._stop, edges.stops[-1])
        self.open = True
        return True

    def end(self, token: int, shares: Shares) -> Standing | None:
        """All of these are gone under their token: what they were; None where it can't be said."""
        whole = self.of(shares)
        if whole is None or whole.bundle.standing.token != token:
            return None
        was = whole.bundle.standing
        del self._leased[whole.edges.starts[0]]
        self._row.bundles.say(whole.bundle, ENDED)
        self._gone.append(whole)
        self._stretches += len(whole.lots)
        self._weight += whole.weight
        return was

    def entered(self) -> list[tuple[Where, int]]:
        """Enters all (rule 3); how many elements of which lots are not here any more."""
        row, self.open = self._row, False
        leased, self._leased = self._leased, {}
        for whole in leased.values():
            row.bundles.enter(whole.bundle, whole.edges)
        gone, self._gone, self._stretches, self._weight = self._gone, [], 0, 0
        if not gone:
            return []
        edges = Edges.joined(
            list(chain.from_iterable([whole.edges.starts for whole in gone])),
            list(chain.from_iterable([whole.edges.stops for whole in gone])),
        )
        taken = row.here.take(edges)
        late, numbers = row.gone.fill(edges, GOT), [whole.bundle.number for whole in gone]
        row.bundles.account(numbers, sum([len(whole.lots) for whole in gone]), late)
        return taken
