"""Watches every edge of the true tree, after every step, and remembers when all was well."""

from collections.abc import Callable, Iterable

from snowmelt.core.instant import START, Instant

Judge = Callable[[int], bool]


class Watch:
    """Which edges are not fully legal; an edge is named by its child.

    >>> well = {1: False}
    >>> watch = Watch([1], well.__getitem__)
    >>> well[1] = True
    >>> watch.look([1], Instant(7)); watch.healed_at, watch.breaks
    (7, 0)
    >>> well[1] = False
    >>> watch.look([1], Instant(9)); watch.healed_at, watch.breaks
    (None, 1)
    """

    def __init__(self, edges: Iterable[int], judge: Judge) -> None:
        self._judge = judge
        self._ill = {edge: None for edge in edges if not judge(edge)}
        self.healed_at: Instant | None = None if self._ill else START
        """Since when all edges are well; None while one is not."""
        self.breaks = 0
        """How often an edge was well and then was not: against rule 12, on a tree that stands."""

    def look(self, edges: Iterable[int], now: Instant) -> None:
        for edge in edges:
            well = self._judge(edge)
            if well:
                self._ill.pop(edge, None)
            elif edge not in self._ill:
                self._ill[edge] = None
                self.breaks += 1
        if self._ill:
            self.healed_at = None
        elif self.healed_at is None:
            self.healed_at = now
