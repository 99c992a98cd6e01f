"""What may not be on all disks that it is said to be on: not all have said so (`early.py`)."""

from typing import Final

from snowmelt.core.interval import Interval, IntervalSet

Name = tuple[str, int]
"""The place of a put in its stream."""
LEFT: Final[Name] = "", 0
"""Of what a last master left, who can't say any more what it was told."""


class Doubts:
    """The doubts of one queue, in the order of positions.

    >>> doubts = Doubts()
    >>> doubts.add(("n1/1/1", 0), Interval(3, 5)); doubts.add(("n1/1/1", 2), Interval(5, 6))
    >>> doubts.whole(7), doubts.touch(Interval(4, 5)), doubts.touch(Interval(0, 3))
    (3, True, False)
    >>> doubts.enough(Interval(3, 5)); doubts.whole(7), doubts.unsure
    (3, IntervalSet([5, 6)))
    >>> doubts.end(("n1/1/1", 0)); doubts.whole(7)
    5
    """

    def __init__(self) -> None:
        self._open: dict[Name, Interval] = {}
        self.unsure = IntervalSet()
        """What of them fewer may have than must, and what comes behind waits for."""
        self._late: dict[Name, None] = {}

    def __bool__(self) -> bool:
        return bool(self._open)

    def add(self, name: Name, where: Interval) -> None:
        """What lies there is in doubt; it is behind all that was before."""
        self._open[name] = where
        self.unsure.add(where)

    def of(self, name: Name) -> Interval | None:
        return self._open.get(name)

    def end(self, name: Name) -> None:
        where = self._open.pop(name, None)
        if where is not None:
            self.unsure.remove(where)
            self._late.pop(name, None)

    def late(self, name: Name) -> None:
        """Its node does not wait any more for all that are said to have it: it asks again."""
        if name in self._open:
            self._late[name] = None

    def is_late(self, name: Name) -> bool:
        """Whether that is so, and it is in doubt still."""
        return name in self._late

    def enough(self, where: Interval) -> None:
        """As many have said that they have it as must."""
        self.unsure.remove(where)

    def is_untold(self, part: Interval) -> bool:
        """Whether nobody was told of any of this: it is unsure, and of this term."""
        left = self._open.get(LEFT)
        return self.unsure.covers(part) and (left is None or not left.common(part).size)

    def whole(self, tail: int) -> int:
        first = next(iter(self._open.values()), None)
        return tail if first is None else first.start

    def within(self, interval: Interval) -> list[Interval]:
        parts = (part.common(interval) for part in self._open.values())
        return [part for part in parts if part.size]

    def touch(self, interval: Interval) -> bool:
        return bool(self.within(interval))

    def all(self) -> list[tuple[Name, Interval]]:
        return list(self._open.items())
