"""One node's elements, and what it answers of them (rules 2 to 4, 17 and 20)."""

from bisect import bisect_left
from collections.abc import Iterable
from typing import Final

from snowmelt_lab.machines.overlay.labels import key
from snowmelt_lab.machines.select.elements import Element, Window
from snowmelt_lab.machines.select.steps import Bounds, Draw, Drawn, EqualRanks, Ranks

_MASK: Final = (1 << 64) - 1


def salted(salt: str, number: int) -> int:
    """What the hash of a draw begins with, the same for all nodes."""
    return key(f"{salt}/draw", number)


def hashed(start: int, number: int) -> int:
    """32 bits that look like chance: the finisher of splitmix64, which arrays can do as well.

    >>> hashed(0, 1), hashed(0, 2)
    (1853398634, 113532184)
    """
    z = (start + (number + 1) * 0x9E3779B97F4A7C15) & _MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return (z ^ (z >> 31)) >> 32


class Candidates:
    """What a node has.

    >>> one = Candidates("jobs", [Element(priority, priority) for priority in (9, 1, 5)])
    >>> one.ranks(Ranks(Window(), k=2, count=3, least=1)).low
    Element(priority=5, id=5)
    >>> one.draw(Draw(Window(), Window(Element(2, 0)), chance=0, number=1))
    Drawn(before=1, behind=0, drawn=0)
    """

    def __init__(self, salt: str, elements: Iterable[Element]) -> None:
        self.elements: Final = sorted(elements)
        self.drawn: list[Element] = []
        """In the last draw, in order."""
        self._salt = salt

    def ranks(self, step: Ranks) -> Bounds:
        """On both sides of where k should be in this node's order (rule 17)."""
        start, stop = self._within(step.candidates)
        mine = stop - start
        if mine < max(1, step.least):
            return Bounds()
        low = min(mine, max(1, step.k * mine // step.count))
        high = min(mine, max(1, -(-step.k * mine // step.count)))
        return Bounds(self.elements[start + low - 1], self.elements[start + high - 1])

    def equal_ranks(self, step: EqualRanks) -> Bounds:
        """As printed (rule 20): the greatest it has when it has too few."""
        start, stop = self._within(step.candidates)
        if start == stop:
            return Bounds()
        low, high = (min(place, stop - start) for place in (step.low, step.high))
        return Bounds(
            self.elements[start + low - 1] if low else None,
            self.elements[start + high - 1] if high else None,
        )

    def draw(self, step: Draw) -> Drawn:
        """Counts, and what is drawn is kept (rule 4)."""
        start, stop = self._within(step.candidates)
        cut_start, cut_stop = self._within(step.cut)
        begin = salted(self._salt, step.number)
        some = self.elements[cut_start:cut_stop] if step.chance else []  # else they are counted
        self.drawn = [one for one in some if hashed(begin, one.id) < step.chance]
        before, behind = max(0, cut_start - start), max(0, stop - cut_stop)
        return Drawn(before, behind, len(self.drawn))

    def _within(self, window: Window) -> tuple[int, int]:
        row = self.elements
        start = 0 if window.start is None else bisect_left(row, window.start)
        stop = len(row) if window.stop is None else bisect_left(row, window.stop)
        return start, max(start, stop)
