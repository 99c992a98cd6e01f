"""Groups: who holds items for good, and how far they are. This is what a Spark stream reads as.

A group is given items, and counts them from its beginning on. What it is given is its own, with no
time-out, until it says with how many it is done; told again, they are the same in the same order.
So two numbers say where it stands: under which lease it reads, and how many items it has behind
itself. A lease here is a fence: who begins anew ends the lease of who was there before.
"""

from collections.abc import Iterator

import msgspec

from snowmelt.core.interval import Interval


class Group(msgspec.Struct, array_like=True):
    """How one group stands; this is also its record in the journal.

    >>> group = Group(7, "r", 0, [Interval(0, 3), Interval(8, 9)], 0)
    >>> group.given, group.between(2, 4)
    (4, [Interval(start=2, stop=3), Interval(start=8, stop=9)])
    >>> group.pass_by(2), group.done, group.between(2, 4)
    ([Interval(start=0, stop=2)], 2, [Interval(start=2, stop=3), Interval(start=8, stop=9)])
    """

    lease: int
    reader: str
    """Who began with this lease; the same one gets the same lease again."""
    done: int
    held: list[Interval]
    """What it was given and is not done with, in the order in which it was given."""
    heard: int
    """When it was last given something or done with something, by the wall clock."""
    located: int = 0
    """So many of its items it has asked the places of: whoever did may have read them."""

    @property
    def given(self) -> int:
        """How many items it was given since it began."""
        return self.done + self.holds

    @property
    def holds(self) -> int:
        return sum(piece.size for piece in self.held)

    def between(self, after: int, until: int) -> list[Interval]:
        """Its items from the `after`-th to before the `until`-th, as far as it holds them."""
        found: list[Interval] = []
        count = self.done
        for piece in self.held:
            start = piece.start + min(piece.size, max(0, after - count))
            stop = piece.start + min(piece.size, max(0, until - count))
            if start < stop:
                found.append(Interval(start, stop))
            count += piece.size
        return found

    def pass_by(self, done: int) -> list[Interval]:
        """It is done with so many; returns what it held of them until now."""
        passed = self.between(self.done, done)
        if passed:
            self.held = self.between(done, self.given)
            self.done = done
        return passed


class Groups:
    def __init__(self, changed: dict[bytes, None]) -> None:
        self._changed = changed
        self._groups: dict[str, Group] = {}

    def __iter__(self) -> Iterator[tuple[str, Group]]:
        return iter(list(self._groups.items()))

    def __len__(self) -> int:
        return len(self._groups)

    @property
    def items(self) -> int:
        """How many items groups hold. O(groups)."""
        return sum(group.holds for group in self._groups.values())

    def named(self, name: str) -> Group | None:
        return self._groups.get(name)

    def keep(self, name: str, group: Group) -> None:
        """A group that is new, or has changed."""
        self._groups[name] = group
        self.touch(name)

    def forget(self, name: str) -> None:
        self._groups.pop(name, None)
        self.touch(name)

    def touch(self, name: str) -> None:
        self._changed[b"g" + name.encode()] = None
