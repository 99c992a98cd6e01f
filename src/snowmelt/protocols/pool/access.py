"""A consumer's access list: the producers it may probe, and how likely each (rules 1, 10, 11)."""

from bisect import bisect_right
from collections.abc import Iterable
from itertools import accumulate
from random import Random
from typing import Final

from snowmelt.core.names import NodeId
from snowmelt.protocols.pool.introductions import Acquaintance
from snowmelt.protocols.pool.settings import HOPS_MAX, Access, AccessKind

FLOOR: Final = 0.02
"""Of the mean rate: nobody is probed less than by this weight, or its rate would not be learnt."""
RATE_MAX: Final = 1e12
"""Objects a second; more than that is no rate, and no sum of rates is ever infinite."""
DRAWS_MAX: Final = 8
"""So often a weighted draw may name one that was asked before; then any other is taken."""


class AccessList:
    """Draws ways for requests.

    >>> from snowmelt.core.names import Address
    >>> known = [Acquaintance(NodeId(f"c-{n}"), f"p{n}", Address("h", n)) for n in (1, 2, 3)]
    >>> access = AccessList(Access(), Random(1))
    >>> access.meet(known)
    >>> sorted(access.way(5)), len(access.way(2))
    (['c-1', 'c-2', 'c-3'], 2)
    """

    def __init__(self, access: Access, chance: Random) -> None:
        self._access = access
        self._chance = chance
        self._met = False
        self._names: dict[NodeId, str] = {}
        self._rates: dict[NodeId, float] = {}
        self._down: dict[NodeId, None] = {}
        self.silent: dict[NodeId, None] = {}
        """Who was asked, and is not heard of (rule 18); no way is drawn past them."""
        self._demand = 0.0
        """What all consumers take together; 0 while that is not known."""
        self._reachable: list[NodeId] = []
        """Who may be asked, the silent too."""
        self._ids: list[NodeId] = []
        self._edges: list[float] = []
        """The weights added up, each to those before it."""
        self._stale = True

    # --- what is known ----------------------------------------------------------------------------

    def meet(self, known: Iterable[Acquaintance]) -> None:
        """These may be probed, and no others."""
        self._met = True
        told = {one.id: one for one in known}
        self._names = {one.id: one.name for one in told.values()}
        self._rates = {
            one.id: _sensible(one.rate) or self._rates.get(one.id, 0.0) for one in told.values()
        }
        self._down = {one: None for one in self._down if one in self._names}
        self.silent = {one: None for one in self.silent if one in self._names}
        self._stale = True

    def learnt(self, producer: NodeId, rate: float) -> None:
        rate = _sensible(rate)
        if rate and producer in self._rates:
            self._rates[producer] = rate
            self._stale = True

    def demanded(self, rate: float) -> None:
        """All consumers together take so many objects a second: who could give more counts so."""
        self._demand = _sensible(rate)
        self._stale = True

    def lost(self, producer: NodeId) -> None:
        if producer in self:
            self._down[producer] = None
            self.silent.pop(producer, None)
            self._stale = True

    def reached(self, producer: NodeId) -> None:
        if producer in self._down:
            del self._down[producer]
            self._stale = True
        self.heard(producer)

    def silence(self, producer: NodeId) -> None:
        if producer in self and producer not in self._down:
            self.silent[producer] = None
            self._stale = True

    def heard(self, producer: NodeId) -> None:
        """It has said something, whatever it was."""
        if producer in self.silent:
            del self.silent[producer]
            self._stale = True

    def __contains__(self, producer: NodeId) -> bool:
        return producer in self._names

    @property
    def nobody(self) -> str:
        """Why a request finds nobody to go to; empty when that is not so."""
        self._refresh()
        if self._ids:
            return ""
        if not self._met:
            return "no node of the cluster has told yet who is in this pool"
        if not self._names:
            return "nobody produces in this pool"
        if len(self._down) == len(self._names):
            return "no producer of this pool can be reached"
        if self.silent:
            return "no producer of this pool answers"
        return "none of the producers in this pool has a weight above 0 in access"

    @property
    def known(self) -> tuple[NodeId, ...]:
        """All that may be probed, whether they can be reached now or not."""
        return tuple(self._names)

    def name(self, producer: NodeId) -> str:
        return self._names.get(producer, producer)

    def rate(self, producer: NodeId) -> float:
        """How fast it makes objects, as far as is known."""
        return self._rates.get(producer, 0.0)

    def weights(self) -> dict[NodeId, float]:
        self._refresh()
        whole = self._edges[-1] if self._edges else 1.0
        before = [0.0, *self._edges]
        return {
            one: (edge - start) / whole
            for one, edge, start in zip(self._ids, self._edges, before, strict=False)
        }

    # --- drawing ----------------------------------------------------------------------------------

    def way(self, hops: int) -> tuple[NodeId, ...]:
        """A way for a request; empty when nobody can be probed.

        With `revisit` each probe is drawn for itself, as in the paper; without, a producer is asked
        once, for asking it again at once finds it as empty as before.
        """
        self._refresh()
        ids, chance = self._ids, self._chance
        if not ids:
            return ()
        if self._access.revisit:
            return tuple(self._drawn() for _ in range(hops))
        if self._even:
            return tuple(chance.sample(ids, min(hops, len(ids))))
        way: dict[NodeId, None] = {}
        for _ in range(min(hops, len(ids))):
            way[self._new(way)] = None
        return tuple(way)

    def everybody(self) -> tuple[NodeId, ...]:
        """All that may be asked, silent or not, in an order drawn anew; of very many, some."""
        self._refresh()
        most = min(len(self._reachable), HOPS_MAX)
        return tuple(self._chance.sample(self._reachable, most))

    @property
    def _even(self) -> bool:
        return self._access.kind is AccessKind.UNIFORM

    def _drawn(self) -> NodeId:
        if self._even:
            return self._chance.choice(self._ids)
        at = bisect_right(self._edges, self._chance.random() * self._edges[-1])
        return self._ids[min(at, len(self._ids) - 1)]

    def _new(self, asked: dict[NodeId, None]) -> NodeId:
        for _ in range(DRAWS_MAX):
            one = self._drawn()
            if one not in asked:
                return one
        return self._chance.choice([one for one in self._ids if one not in asked])

    def _refresh(self) -> None:
        if not self._stale:
            return
        self._stale = False
        reachable = self._weighed([one for one in self._names if one not in self._down])
        weights = {one: weight for one, weight in reachable.items() if one not in self.silent}
        self._reachable = list(reachable)
        self._ids = list(weights)
        self._edges = list(accumulate(weights.values()))

    def _weighed(self, there: list[NodeId]) -> dict[NodeId, float]:
        """Those that may be drawn, each with its weight."""
        match self._access.kind:
            case AccessKind.UNIFORM:
                return dict.fromkeys(there, 1.0)
            case AccessKind.WEIGHTED:
                given, names = self._access.weights, self._names
                told = {one: given.get(names[one], 0.0) for one in there}
                return {one: weight for one, weight in told.items() if weight > 0}
            case AccessKind.ADAPTIVE:
                rates, most = self._rates, self._demand or RATE_MAX
                return _proportional({one: min(rates[one], most) for one in there})


def _sensible(rate: float) -> float:
    """A rate that another process told; 0 for one that can't be."""
    return rate if 0 < rate <= RATE_MAX else 0.0


def _proportional(rates: dict[NodeId, float]) -> dict[NodeId, float]:
    """Rates as weights; whose rate is not known yet counts as the mean of the others.

    >>> _proportional({"a": 9.0, "b": 1.0, "c": 0.0})
    {'a': 9.0, 'b': 1.0, 'c': 5.0}
    >>> _proportional({"a": 0.0, "b": 0.0})
    {'a': 1.0, 'b': 1.0}
    """
    known = [rate for rate in rates.values() if rate > 0]
    mean = sum(known) / len(known) if known else 1.0
    return {one: max(rate, FLOOR * mean) if rate > 0 else mean for one, rate in rates.items()}
