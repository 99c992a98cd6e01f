"""The anchor: of each priority two counters, so it knows which positions there are to be got.

1. What is put gets the next positions of its priority, and is there to be got from that moment.
   Whoever comes for it before it has arrived waits where it will be.
2. What is got has the least positions of the most urgent priority, then of the next.
"""

from snowmelt.core.interval import Interval
from snowmelt_lab.machines.skeap.batches import (
    Batch,
    Grant,
    GrantedRun,
    Run,
    Share,
    Shares,
    Somes,
    size,
)


class Anchor:
    """Gives positions and orders. It never sees an element.

    >>> from snowmelt_lab.machines.skeap.batches import Some
    >>> anchor = Anchor(2)
    >>> grant = anchor.granted(Batch((Run((Some(0, 1), Some(1, 2)), 2),)))
    >>> [(share.priority, str(share.positions)) for share in grant.runs[0].gets]
    [(0, '[0, 1)'), (1, '[0, 1)')]
    """

    def __init__(self, priorities: int) -> None:
        self._there = [Interval(0, 0)] * priorities
        """What is put and not got yet."""
        self._order = 0

    def granted(self, batch: Batch) -> Grant:
        """Serves a batch, run by run."""
        return Grant(tuple([self._run(run) for run in batch.runs]))

    def _run(self, run: Run) -> GrantedRun:
        order, puts = self._order, self._put(run.puts)
        got_order = order + size(puts)
        self._order = got_order + run.gets
        return GrantedRun(order, puts, got_order, self._taken(run.gets))

    def _put(self, somes: Somes) -> Shares:
        """Rule 1."""
        grown: list[Share] = []
        for some in somes:
            there = self._there[some.priority]
            end = there.stop + some.count
            grown.append(Share(some.priority, Interval(there.stop, end)))
            self._there[some.priority] = Interval(there.start, end)
        return tuple(grown)

    def _taken(self, count: int) -> Shares:
        """Rule 2."""
        shares: list[Share] = []
        for priority, there in enumerate(self._there):
            taken, self._there[priority] = there.split(min(count, there.size))
            if taken.size:
                shares.append(Share(priority, taken))
                count -= taken.size
        return tuple(shares)
