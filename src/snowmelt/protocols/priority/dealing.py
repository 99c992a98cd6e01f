"""To which homes what is put is dealt, by the anchor: which positions come next.

What is put in one call, of whatever priorities, should lie with one home, and so should what comes
before and after it: else each call is a message, a record and a flush for each of several homes, a
get of many as well, and more nodes do less than one. Where a position lies all can tell, of nodes
of all versions (`placing.py`); but which position comes next is the anchor's to choose.

1. Elements are *dealt* to one home, so many of them, and then to the next: to whom least was dealt
   in this view of the priorities that are to be dealt now.
2. The positions of a priority go on to the end of their block. Then comes the next block of the
   home that is dealt to; the blocks between are *passed over*: nobody is ever given their
   positions. So a priority of which little is put goes its way, and cuts no block in two.
3. What is passed over is so much for each element as there are nodes, and an epoch has an end. In
   its second half no block is passed over any more, nor are more than `LOOKS` at once.
4. Where all have everything, or there is one node, there is nothing to deal.
5. To deal takes time by the block. More than `DEALT_MAX` of a batch, which only one that lies would
   ask for, are not dealt: they follow each other, over all homes.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from snowmelt.core.names import NodeId
from snowmelt.protocols.priority.limits import LIMITS
from snowmelt.protocols.priority.placing import Placing

LOOKS: Final = 256
"""So many blocks are looked at for one of a home."""
DEALT_MAX: Final = 1 << 24

Counts = Mapping[int, int]
"""How many, by priority."""


class Dealing:
    """Of one queue, at its anchor, in one view.

    >>> from snowmelt.protocols.priority.placing import spread_of
    >>> placing = Placing(spread_of([NodeId("a"), NodeId("b")]), "jobs", 1, block=4)
    >>> dealing = Dealing(placing, end=1 << 40, deal=8)
    >>> parts, homes = [], []
    >>> for part in dealing.parts({0: 12, 1: 4}):
    ...     parts.append(part)
    ...     homes.append([placing.home(row, dealing.start(row, 400)) for row in part])
    >>> parts
    [{0: 6, 1: 2}, {0: 6, 1: 2}]
    >>> homes
    [['a', 'a'], ['b', 'b']]
    """

    def __init__(
        self, placing: Placing | None = None, end: int = 0, deal: int = LIMITS.deal
    ) -> None:
        self._placing: Placing | None = None
        if placing is not None and len(placing.members) > 1 and not placing.everybody and deal:
            self._placing = placing
        self._end = end
        """Where the half of the epoch ends (rule 3)."""
        self._home: NodeId | None = None
        self._deal = deal
        self._room = 0
        """How many are dealt to this home yet."""
        self._dealt: dict[tuple[int, NodeId], int] = {}
        """How many of a priority, to whom."""

    def of(self, counts: Counts) -> "Dealing":
        """Itself, or for so many one that deals nothing (rule 5)."""
        return self if sum(counts.values()) <= DEALT_MAX else Dealing()

    def parts(self, counts: Counts) -> Iterator[Counts]:
        """What goes to one home, and then what goes to the next (rule 1)."""
        left = dict(counts)
        while left and self._placing is not None:
            if self._room <= 0:
                self._home, self._room = self._least(self._placing, left), self._deal
            total = sum(left.values())
            if total <= self._room:
                break
            part = {row: -(-count * self._room // total) for row, count in left.items()}
            left = {row: count - part[row] for row, count in left.items() if count > part[row]}
            self._count(part)
            yield part
        if left:
            self._count(left)
            yield left

    def start(self, row: int, position: int) -> int:
        """Where a priority goes on from a position (rule 2)."""
        placing, home = self._placing, self._home
        if placing is None or home is None or position % placing.block or position >= self._end:
            return position
        return placing.next_of(home, row, position, LOOKS)

    def stop(self, start: int, count: int) -> int:
        """Where so many end, or the block of the first one."""
        if self._placing is None:
            return start + count
        block = self._placing.block
        return min(start + count, (start // block + 1) * block)

    def _count(self, part: Counts) -> None:
        if self._home is None:
            return
        self._room -= sum(part.values())
        for row, count in part.items():
            self._dealt[row, self._home] = self._dealt.get((row, self._home), 0) + count

    def _least(self, placing: Placing, counts: Counts) -> NodeId:
        def dealt(home: NodeId) -> int:
            return sum([count * self._dealt.get((row, home), 0) for row, count in counts.items()])

        return min(placing.members, key=dealt)
