"""What a node has to tell the anchor of one queue, beside what clients ask for: home, rule 5.

What is free again is told as soon as all have flushed that it is. What is gone is nothing that
anybody waits for, unless the queue has a bound: it goes with the next batch, and by itself only
when none has come for a while.
"""

from snowmelt.protocols.priority.batches import INTERVALS_MAX, Share, Shares, union


class Reports:
    """Gathers until the next batch takes it along.

    >>> from snowmelt.core.interval import Interval
    >>> reports = Reports()
    >>> reports.add(back=(Share(0, (Interval(1, 2),)),))
    >>> reports.add(back=(Share(0, (Interval(2, 3),)),))
    >>> reports.taken()
    ((Share(priority=0, intervals=(Interval(start=1, stop=3),)),), (), ())
    >>> reports.add(gone=(Share(0, (Interval(1, 2),)),))
    >>> before = reports.pressing
    >>> reports.hurry(); before, reports.pressing
    (False, True)
    """

    def __init__(self, *, bounded: bool = False, most: int = INTERVALS_MAX) -> None:
        self._bounded = bounded
        self._most = most
        """So many intervals of a row go with one batch."""
        self._back: list[Share] = []
        self._gone: list[Share] = []
        self._void: list[Share] = []
        self._late = False
        self.fresh = False
        """Whether a home has something for those who wait (`seap`, rule 11)."""

    @property
    def waiting(self) -> bool:
        return bool(self._back or self._gone or self._void)

    @property
    def pressing(self) -> bool:
        """Whether it is told though there is nothing else to say."""
        gone = self._gone or self._void
        return bool(self._back or self.fresh or (gone and (self._bounded or self._late)))

    def hurry(self) -> None:
        self._late = True

    def add(self, back: Shares = (), gone: Shares = (), void: Shares = ()) -> None:
        """These are free again; those are gone; and those there never were."""
        if back:
            self._back.extend(back)
        if gone:
            self._gone.extend(gone)
        if void:
            self._void.extend(void)

    def viewed(self) -> None:
        """The census says all of it."""
        self._back, self._gone, self._void, self._late = [], [], [], False
        self.fresh = False

    def taken(self) -> tuple[Shares, Shares, Shares]:
        self._late = False
        if not self.waiting:
            return (), (), ()
        gone, more_gone = _first(union(self._gone), self._most)
        void, more_void = _first(union(self._void), self._most)
        taken = union(self._back), gone, void
        self._back, self._gone, self._void = [], more_gone, more_void
        return taken


def _first(shares: Shares, most: int) -> tuple[Shares, list[Share]]:
    """The first intervals of each row, and the others."""
    if not shares or max([len(share.intervals) for share in shares]) <= most:  # as mostly
        return shares, []
    heads = tuple([Share(share.priority, share.intervals[:most]) for share in shares])
    return heads, [Share(share.priority, share.intervals[most:]) for share in shares]
