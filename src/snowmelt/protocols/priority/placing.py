"""Where positions lie: rule 3 of the package. Everybody who knows the view can tell.

Where everybody keeps everything nothing is gained by several homes: all lies with the node of the
anchor. So a batch goes to one home, and each flushes it once.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Final

from snowmelt.core.interval import Interval
from snowmelt.core.names import NodeId
from snowmelt.core.pieces import Edges
from snowmelt.protocols.overlay.labels import key
from snowmelt.protocols.overlay.ring import Spread
from snowmelt.protocols.overlay.tree import FlatTree
from snowmelt.protocols.priority.batches import Share, Shares, union
from snowmelt.protocols.priority.limits import LIMITS

CACHE_MAX: Final = 65_536


def spread_of(members: Sequence[NodeId]) -> Spread:
    """Where things lie in a view with these members: one for all queues, whose names are in keys.

    With a `Placing` on it, everybody can tell who keeps a position of a queue in a view.
    """
    return _spread(tuple(members))


@lru_cache(maxsize=16)  # the same members come again: in the next view, and at every node of a life
def _spread(members: tuple[NodeId, ...]) -> Spread:
    return Spread(members, "priority")


def home_of(members: Sequence[NodeId], queue: str, replicas: int) -> NodeId | None:
    """With whom all of a queue lies, where everybody keeps everything; else None."""
    return FlatTree(members, queue, 1).root.node if len(members) <= replicas else None


class Placing:
    """Who keeps what of one queue, in one view.

    >>> placing = Placing(Spread([NodeId("a"), NodeId("b")], "all"), "jobs", replicas=2)
    >>> sorted(placing.holders(0, 5)), placing.home(0, 5) == placing.home(0, 127)
    (['a', 'b'], True)
    """

    def __init__(
        self, spread: Spread, queue: str, replicas: int, block: int = LIMITS.block
    ) -> None:
        self._spread = spread
        self._queue = queue
        self._replicas = replicas
        self.block: Final = block
        """So many positions lie together."""
        self._known: dict[tuple[int, int], tuple[NodeId, ...]] = {}
        self.everybody: tuple[NodeId, ...] = ()
        """Who keeps all there is, the home first; none where each keeps a part."""
        home = home_of(spread.nodes, queue, replicas)
        if home is not None:
            self.everybody = (home, *[node for node in spread.nodes if node != home])

    def holders(self, priority: int, position: int) -> tuple[NodeId, ...]:
        """Who keeps a position; the first of them is its home."""
        if self.everybody:
            return self.everybody
        at = priority, position // self.block
        known = self._known.get(at)
        if known is None:
            if len(self._known) >= CACHE_MAX:
                self._known.clear()
            known = self._spread.holders(key(self._queue, *at), self._replicas)
            self._known[at] = known
        return known

    @property
    def alone(self) -> bool:
        """Whether no position is kept by anybody but its home."""
        return self._replicas == 1

    @property
    def members(self) -> Sequence[NodeId]:
        return self._spread.nodes

    def home(self, priority: int, position: int) -> NodeId:
        return self.holders(priority, position)[0]

    def next_of(self, home: NodeId, priority: int, position: int, looks: int) -> int:
        """Where the next block of a home begins, from the one that begins here on.

        Here, when it is not among so many.
        """
        queue, spread, first = self._queue, self._spread, position // self.block
        for block in range(first, first + looks):
            if spread.first(key(queue, priority, block)) == home:
                return block * self.block
        return position

    def blocks(self, interval: Interval) -> Iterator[Interval]:
        """The parts of an interval that lie together, in order."""
        if self.everybody:
            yield interval
            return
        start = interval.start
        while start < interval.stop:
            stop = min(interval.stop, (start // self.block + 1) * self.block)
            yield Interval(start, stop)
            start = stop

    def whole(self, interval: Interval) -> Iterator[Interval]:
        """The blocks that an interval touches; none where everybody keeps everything."""
        if not self.everybody:
            size = self.block
            for at in range(interval.start // size, (interval.stop - 1) // size + 1):
                yield Interval(at * size, (at + 1) * size)

    def within(self, interval: Interval) -> Interval | None:
        """The blocks that lie in an interval as a whole; None where everybody keeps everything."""
        size = self.block
        start, stop = -(-interval.start // size) * size, interval.stop // size * size
        return None if self.everybody or start >= stop else Interval(start, stop)

    def by_home(self, shares: Iterable[Share]) -> dict[NodeId, Shares]:
        """Which positions go to which home; at each in the order given."""
        if self.everybody:
            mine = tuple([one if len(one.intervals) == 1 else _whole(one) for one in shares])
            return {self.everybody[0]: mine} if mine else {}
        parts: dict[NodeId, list[Share]] = {}
        for share in shares:
            homes: dict[NodeId, list[Interval]] = {}
            for interval in share.intervals:
                for block in self.blocks(interval):
                    homes.setdefault(self.home(share.priority, block.start), []).append(block)
            for home, intervals in homes.items():
                parts.setdefault(home, []).append(Share(share.priority, _joined(intervals)))
        return {home: tuple(theirs) for home, theirs in parts.items()}

    def by_holder(self, shares: Iterable[Share]) -> dict[NodeId, Shares]:
        """Which positions who keeps, homes and copies."""
        if self.everybody:
            whole = union(shares)
            return dict.fromkeys(self.everybody, whole) if whole else {}
        parts: dict[NodeId, list[Share]] = {}
        for share in shares:
            for interval in share.intervals:
                for block in self.blocks(interval):
                    one = Share(share.priority, (block,))
                    for holder in self.holders(share.priority, block.start):
                        parts.setdefault(holder, []).append(one)
        return {holder: union(mine) for holder, mine in parts.items()}


def _whole(share: Share) -> Share:
    if Edges.of(share.intervals) is not None:  # as mostly
        return share
    return Share(share.priority, _joined(share.intervals))


def _joined(blocks: Sequence[Interval]) -> tuple[Interval, ...]:
    """Blocks as intervals, those that follow each other as one."""
    if len(blocks) == 1:
        return (blocks[0],)
    intervals: list[Interval] = []
    for block in blocks:
        if intervals and intervals[-1].stop == block.start:
            intervals[-1] = Interval(intervals[-1].start, block.stop)
        else:
            intervals.append(block)
    return tuple(intervals)
