"""What a node has to tell the anchor of one queue, beside what clients ask for: home, rule 5."""

from snowmelt.protocols.priority.batches import Share, Shares, union


class Reports:
    """Gathers until the next batch takes it along.

    >>> from snowmelt.core.interval import Interval
    >>> reports = Reports()
    >>> reports.add(back=(Share(0, (Interval(1, 2),)),))
    >>> reports.add(back=(Share(0, (Interval(2, 3),)),))
    >>> reports.taken()
    ((Share(priority=0, intervals=(Interval(start=1, stop=3),)),), ())
    """

    def __init__(self) -> None:
        self._back: list[Share] = []
        self._gone: list[Share] = []

    @property
    def waiting(self) -> bool:
        """Whether there is something to tell."""
        return bool(self._back or self._gone)

    def add(self, back: Shares = (), gone: Shares = ()) -> None:
        """These are free again; those are gone."""
        self._back.extend(back)
        self._gone.extend(gone)

    def taken(self) -> tuple[Shares, Shares]:
        """What goes with the next batch."""
        back, gone = union(self._back), union(self._gone)
        self._back, self._gone = [], []
        return back, gone
