"""Which items are dead, and how many bytes they have: these count in no bound."""

from snowmelt.core.interval import Interval, IntervalSet
from snowmelt.protocols.queue.batches import Batches


class Dead(IntervalSet):
    """Of one queue. An item is added once.

    >>> from snowmelt.protocols.queue.batches import Batch
    >>> batches = Batches({})
    >>> batches.add(Batch(0, 3, 100, 1))
    >>> dead = Dead(batches)
    >>> dead.add(Interval(0, 2)); dead.remove(Interval(1, 9)); dead, dead.bytes
    (IntervalSet([0, 1)), 33)
    """

    def __init__(self, batches: Batches) -> None:
        super().__init__()
        self.bytes = 0
        self._batches = batches

    def add(self, interval: Interval) -> None:
        super().add(interval)
        self.bytes += self._size(interval)

    def remove(self, interval: Interval) -> None:
        self.bytes -= sum([self._size(part) for part in self.common(interval)])
        super().remove(interval)

    def _size(self, interval: Interval) -> int:
        """By the mean of each batch; the sum of its parts is the same however it is cut."""
        return sum(
            one.share(stop - one.start) - one.share(first - one.start)
            for one, first, stop in self._batches.over(interval)
        )
