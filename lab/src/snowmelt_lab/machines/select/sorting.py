"""Distributed sorting: one node's part (rules 8 to 11). It stands alone.

Whoever uses it carries visits to points and tells nodes what they are told, in any order.
"""

from collections.abc import Sequence
from typing import Annotated, Final

import msgspec

from snowmelt.core.names import NodeId
from snowmelt_lab.machines.overlay.family import Carry, Tell
from snowmelt_lab.machines.overlay.labels import CIRCLE, key
from snowmelt_lab.machines.select.elements import Element

Number = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]


class Branch(msgspec.Struct, frozen=True, tag="select.branch", array_like=True):
    """The copies of an element from `start` up to `stop`, for a place of its tree."""

    sort: Number
    item: Number
    element: Element
    start: Number
    stop: Number
    above: NodeId
    """Where the parent is; of a root, who has the element."""
    copy: Number
    """Which copy the parent keeps; 0 for a root."""


class Copy(msgspec.Struct, frozen=True, tag="select.copy", array_like=True):
    """One copy of an element on its way to its meeting with the other item's."""

    sort: Number
    item: Number
    other: Number
    element: Element
    keeper: NodeId
    """Who is to be told how it went."""


class Smaller(msgspec.Struct, frozen=True, tag="select.smaller", array_like=True):
    """How many elements are smaller, as far as one comparison, or one part of the tree, knows."""

    sort: Number
    item: Number
    copy: Number
    """At which place of the tree it is added up; 0 for who has the element."""
    count: Number


class Knot(msgspec.Struct):
    """A place of the tree, until all that it waits for has come."""

    above: NodeId
    copy: int
    waits: int
    count: int = 0


def root(salt: str, sort: int, item: int) -> int:
    """The point h(i), where an element's tree begins (rule 8)."""
    return key(f"{salt}/sort", sort, item)


def meeting(salt: str, sort: int, item: int, other: int) -> int:
    """The point h(i, j), the same for both (rule 10).

    >>> meeting("jobs", 1, 2, 3) == meeting("jobs", 1, 3, 2)
    True
    """
    return key(f"{salt}/sort", sort, min(item, other), max(item, other))


def halves(start: int, stop: int) -> tuple[int, tuple[int, int], tuple[int, int]]:
    """Which copy a place keeps of an interval, and the intervals that it sends on (rule 9).

    >>> halves(1, 8), halves(3, 4)
    ((4, (1, 4), (5, 8)), (3, (3, 3), (4, 4)))
    """
    middle = (start + stop) // 2
    return middle, (start, middle), (middle + 1, stop)


class Sorting:
    """One node's part in any number of sorts at once."""

    def __init__(self, me: NodeId, salt: str) -> None:
        self.me: Final = me
        self.places: Final[dict[int, dict[int, int]]] = {}
        """By sort and item: the place of each of this node's elements, 0 while it is not known."""
        self._salt = salt
        self._knots: dict[tuple[int, int, int], Knot] = {}
        self._met: dict[tuple[int, int, int], Copy] = {}
        """Of each meeting, who came first."""

    def begin(self, sort: int, start: int, total: int, elements: Sequence[Element]) -> list[Carry]:
        """These elements have the numbers from `start` on, of 1 to `total`."""
        self.places[sort] = dict.fromkeys(range(start, start + len(elements)), 0)
        return [
            Carry(
                root(self._salt, sort, item),
                Branch(sort, item, element, 1, total + 1, self.me, 0),
            )
            for item, element in enumerate(elements, start)
        ]

    def known(self, sort: int) -> bool:
        """Whether each of this node's elements has its place."""
        return all(self.places[sort].values())

    def end(self, sort: int) -> dict[int, int]:
        """The places of this node's elements by their numbers; then the sort is forgotten."""
        return self.places.pop(sort)

    @property
    def idle(self) -> bool:
        return not self._knots and not self._met

    def visited(self, point: int, body: Branch | Copy) -> list[Carry | Tell]:
        if isinstance(body, Branch):
            return self._grow(point, body)
        return self._meet(body)

    def told(self, body: Smaller) -> list[Carry | Tell]:
        """A count for a place of a tree, or for an element of this node."""
        if not body.copy:
            self.places[body.sort][body.item] = body.count + 1
            return []
        return self._add((body.sort, body.item, body.copy), body.count)

    def _grow(self, point: int, branch: Branch) -> list[Carry | Tell]:
        """A place of the tree: its own copy goes to its meeting, the halves go on (rule 9)."""
        sort, item = branch.sort, branch.item
        copy, *intervals = halves(branch.start, branch.stop)
        wishes: list[Carry | Tell] = []
        for bit, (start, stop) in enumerate(intervals):
            if start < stop:
                onward = (point + bit * CIRCLE) >> 1
                half = Branch(sort, item, branch.element, start, stop, self.me, copy)
                wishes.append(Carry(onward, half, origin=point))
        if copy != item:
            where = meeting(self._salt, sort, item, copy)
            wishes.append(Carry(where, Copy(sort, item, copy, branch.element, self.me)))
        at = (sort, item, copy)
        assert at not in self._knots, f"{self.me} has {branch} twice"
        self._knots[at] = Knot(branch.above, branch.copy, len(wishes))
        return wishes or self._report(at)

    def _meet(self, copy: Copy) -> list[Carry | Tell]:
        """The first of two waits; with the second both are told (rule 10)."""
        pair = (copy.sort, min(copy.item, copy.other), max(copy.item, copy.other))
        first = self._met.pop(pair, None)
        if first is None:
            self._met[pair] = copy
            return []
        assert (first.item, first.other) == (copy.other, copy.item), f"{first} meets {copy}"
        return [
            Tell(one.keeper, Smaller(one.sort, one.item, one.other, int(other < one.element)))
            for one, other in ((first, copy.element), (copy, first.element))
        ]

    def _add(self, at: tuple[int, int, int], count: int) -> list[Carry | Tell]:
        knot = self._knots[at]
        knot.count += count
        knot.waits -= 1
        return [] if knot.waits else self._report(at)

    def _report(self, at: tuple[int, int, int]) -> list[Carry | Tell]:
        """All is known below: up the tree, or to who has the element (rule 11)."""
        knot, (sort, item, _) = self._knots.pop(at), at
        return [Tell(knot.above, Smaller(sort, item, knot.copy, knot.count))]
